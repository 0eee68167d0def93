package prompt

import (
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

func TestAFrameThatAFoldCutsIsClosedAgain(t *testing.T) {
	o := trace.Observation{Kind: trace.ObsTool, Origin: trace.OriginWeb, Text: External(trace.OriginWeb, strings.Repeat("spam ", 200))}
	got := shorten(o, 300)
	if strings.Count(got, "</external>") != 1 || !strings.HasSuffix(got, "</external>") || len(got) > 500 {
		t.Errorf("%q", got)
	}
	o.Kind = trace.ObsRead
	if got := shorten(o, 300); !strings.HasPrefix(got, "<external ") || !strings.HasSuffix(got, "</external>") {
		t.Errorf("of a read: %q", got)
	}
	if whole := shorten(o, 1<<20); whole != o.Text {
		t.Errorf("an entry that fits was changed: %q", whole)
	}
	o.Kind, o.Origin, o.Text = trace.ObsTool, trace.OriginFile, strings.Repeat("</external>", 50)
	if got := shorten(o, 100); strings.HasSuffix(got, "</external>") {
		t.Errorf("what was never framed is closed: %q", got)
	}
}
