package trace

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestPrinterShowsWhyAGateSaidNo(t *testing.T) {
	var out bytes.Buffer
	p := newPrinter(&out, false, time.Now)
	for _, f := range []Fact{
		ReviewUnverifiable{Why: "the reviewer names no model"},
		GateWeak{Path: "check.sh"},
		Gated{Phase: "command", Outcome: "failed"},
		GateOutput{Output: "many\nlines\nwant 42\x1b[2J\n", ExitCode: new(1)},
		GateOutput{},
		Reviewed{Reasons: []string{"no test", "no doc"}},
		OutputRejected{Violations: []string{"/a: want a string"}, Left: 1},
		OutputAccepted{},
	} {
		p.Observe(Event{RunID: 4, Step: 1, Fact: f})
	}
	got := out.String()
	for _, want := range []string{"the reviewer names no model", "check.sh, which the run may write", "gate command failed", "want 42", "no test", "no doc", "1 left", "/a: want a string"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not shown:\n%s", want, got)
		}
	}
	if strings.Contains(got, "many") || strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 8 {
		t.Errorf("shown:\n%q", got)
	}
}
