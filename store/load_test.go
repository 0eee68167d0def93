package store

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func TestAResumeReadsNoTextThatAFoldCovers(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	for n := 1; n <= 6; n++ {
		c := aStep(n)
		c.Observations = []trace.Observation{
			{Step: n, Kind: trace.ObsRead, Target: itoa(n) + ".go", Text: "text " + itoa(n), Digest: "d" + itoa(n)},
			{Step: n, Kind: trace.ObsMessage, Target: "steer", Text: "said " + itoa(n)},
		}
		commit(t, s, d, c)
	}
	for _, h := range []HistorySummary{{ThroughStep: 1, Folded: 2, Text: "older"}, {ThroughStep: 4, Folded: 7, Text: "newer"}} {
		if _, err := s.PutSummary(t.Context(), d, h); err != nil {
			t.Fatal(err)
		}
	}
	release(t, d)
	d, res := enter(t, s, d.RunID, EnterOptions{})
	var got []string
	for i, o := range res.Observations {
		if o.Seq != i || o.Kind == trace.ObsRead && (o.Target != itoa(o.Step)+".go" || o.Digest != "d"+itoa(o.Step)) {
			t.Errorf("entry %d is %+v", i, o)
		}
		got = append(got, o.Text)
	}
	want := []string{"", "said 1", "", "said 2", "", "said 3", "", "said 4", "text 5", "said 5", "text 6", "said 6"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("texts (-want +got):\n%s", diff)
	}
	if len(res.Turns) != 2 || res.Turns[0].Step != 5 || res.Turns[1].Step != 6 {
		t.Errorf("turns: %+v", res.Turns)
	}
	release(t, d)

	// A fold that reaches past the ledger does not count, and takes nothing along.
	raw(t, s.Path(), `UPDATE summaries SET folded = 99 WHERE text = 'newer'`)
	d, res = enter(t, s, d.RunID, EnterOptions{})
	if o := res.Observations[0]; o.Text != "text 1" || len(res.Turns) != 6 {
		t.Errorf("the first entry is %+v, %d turns", o, len(res.Turns))
	}
	release(t, d)

	// Whatever covers it, the last turn is told.
	raw(t, s.Path(), `UPDATE summaries SET folded = 12, through_step = 6 WHERE text = 'newer'`)
	_, res = enter(t, s, d.RunID, EnterOptions{})
	if len(res.Turns) != 1 || res.Turns[0].Step != 6 || strings.Contains(res.Observations[10].Text, "text") {
		t.Errorf("turns %+v, text %q", res.Turns, res.Observations[10].Text)
	}
}
