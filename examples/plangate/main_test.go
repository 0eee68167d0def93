package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestNothingHappensBeforeThePlanIsApproved(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	refused, approved := strings.Index(out.String(), `layer "plan-gate"`), strings.Index(out.String(), "plan approve by human")
	if refused < 0 || approved < refused {
		t.Errorf("the refusal stands at %d, the approval at %d:\n%s", refused, approved, &out)
	}
}
