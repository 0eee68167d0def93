package store

import (
	"context"
	"errors"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

func TestARunThatIsLeftContinuesFromItsLastStep(t *testing.T) {
	for _, where := range []string{"file", "memory"} {
		t.Run(where, func(t *testing.T) {
			ctx := context.Background()
			var s *Store
			if where == "file" {
				s = newFile(t)
			} else {
				var err error
				if s, err = Memory(ctx); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
			}
			sess, err := s.CreateSession(ctx, "/repo")
			if err != nil {
				t.Fatal(err)
			}
			d := start(t, s, RunStart{Policy: []byte(`{"layers":[]}`), Turn: &TurnStart{Session: sess, Prompt: "why?"}})
			d.Record(ProviderCall{Step: 1, Provider: "p", Model: "m", Usage: &provider.Usage{TotalTokens: 10}},
				PolicyEvent{Step: 1, Kind: PolicyRefusal, Act: "read", Target: "secrets/x"},
				ContextEvent{Step: 1, Kind: "assembled"})
			c := aStep(1)
			c.Reported = 10
			commit(t, s, d, c)
			commit(t, s, d, aStep(2))
			if _, _, err := s.EnterDrive(ctx, d.RunID, EnterOptions{}); !errors.Is(err, ErrConflict) {
				t.Fatalf("a held run was entered: %v", err)
			}
			release(t, d)
			d2, res := enter(t, s, d.RunID, EnterOptions{})
			if d2.StartStep != 3 || res.LastStep != 2 || res.SpentTokens != 20 || len(res.Observations) != 2 || len(res.Turns) != 2 ||
				string(res.Policy) != `{"layers":[]}` || d2.TurnID == 0 {
				t.Fatalf("resumed %+v of %+v", d2, res)
			}
			if res.Turns[0].Calls[0].ID != "c1" || res.Observations[1].Seq != 1 {
				t.Fatalf("resumed %+v", res)
			}
			if err := s.CommitStep(ctx, d, aStep(3)); !errors.Is(err, ErrConflict) {
				t.Fatalf("a released drive committed: %v", err)
			}
			sound(t, s)
			finish(t, s, d2, trace.Finished, 2)
			sound(t, s)
			head, err := s.SessionHead(ctx, sess)
			if err != nil || head != d2.TurnID {
				t.Fatalf("head is %d, %v, want %d", head, err, d2.TurnID)
			}
			d3, res := enter(t, s, d.RunID, EnterOptions{})
			if d3 != nil || res.Outcome == nil || res.Outcome.Kind != trace.Finished {
				t.Fatalf("a finished run was entered: %+v", res)
			}
		})
	}
}
