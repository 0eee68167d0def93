package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestTheReviewerSendsTheChangeBackOnce(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if s := out.String(); !strings.HasSuffix(s, "the reviewer agreed to:\n"+returning) || strings.Count(s, "gate") < 2 {
		t.Errorf("the change was not judged twice and mended:\n%s", s)
	}
}
