package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestTheToolsAnswerReachesTheReply(t *testing.T) {
	var out bytes.Buffer
	if err := run(context.Background(), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "order 7: shipped") {
		t.Errorf("got:\n%s", &out)
	}
}
