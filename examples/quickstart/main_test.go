package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestTheQuickstartMendsTheRepositoryInsideItsBoundary(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out, "scripted", "", t.TempDir()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"refused read secrets/payment.key",
		"+	if n >= bulk {",
		"by rule \"*.key\" of layer \"builtin-secrets\"",
		"finished after 7 steps and 840 tokens",
		"the tests pass",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not contain %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "not-a-real-key") {
		t.Error("the secret is in the output")
	}
}

func TestAnUnknownProviderIsRefusedByName(t *testing.T) {
	err := run(context.Background(), &bytes.Buffer{}, "nobody", "", t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("got %v", err)
	}
}
