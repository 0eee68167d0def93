package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestAWrongShapeIsAskedForAgain(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"billing  high   14 min  certificate expired", "search   low     3 min  no cause on record"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing from:\n%s", want, &out)
		}
	}
}
