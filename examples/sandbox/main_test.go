package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/sandbox"
)

func TestTheProgramWorksAndDoesNotGetOut(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"applied: workspace-write under ", "| there are 168 primes below 1000", "stopped by the wall ceiling"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not contain %q:\n%s", want, &out)
		}
	}
}

func TestAnEscapeCountsUnlessItWasAnnounced(t *testing.T) {
	for _, tc := range []struct {
		name    string
		applied sandbox.Applied
		visited bool
		fails   bool
	}{
		{"held, and nothing happened", sandbox.Applied{Rung: "a", Files: sandbox.FilesWorkspace, Egress: sandbox.EgressNone}, false, false},
		{"said to be held, and was not", sandbox.Applied{Rung: "a", Files: sandbox.FilesWorkspace, Egress: sandbox.EgressNone}, true, true},
		{"said to be open", sandbox.Applied{Rung: "a", Files: sandbox.FilesWorkspace, Egress: sandbox.EgressOpen}, true, false},
	} {
		b, err := newBait()
		if err != nil {
			t.Fatal(err)
		}
		if tc.visited {
			b.visits.Add(1)
		}
		if err := b.judge(&bytes.Buffer{}, tc.applied); (err != nil) != tc.fails {
			t.Errorf("%s: %v", tc.name, err)
		}
		b.close()
	}
}
