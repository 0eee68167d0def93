package store

import (
	"context"
	"errors"
	"testing"
)

// A call that is in flight in a living driver is not in doubt, and nobody else has
// a say in it.
func TestAnOpenCallOfALivingDriverIsAConflictAndNoPause(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	open, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 1, Tool: "order"})
	if err != nil {
		t.Fatal(err)
	}
	second := another(t, s)
	for name, opt := range map[string]EnterOptions{
		"nothing":    {},
		"a retry":    {Recovery: &RecoveryDecision{ID: open, Verdict: RecoveredRetry}},
		"an account": {Recovery: &RecoveryDecision{ID: open, Verdict: RecoveredCompleted, Account: "it is done"}},
		"an abort":   {Recovery: &RecoveryDecision{ID: open, Verdict: RecoveredAbort}},
	} {
		var conflict *ConflictError
		if _, res, err := second.EnterDrive(ctx, d.RunID, opt); !errors.As(err, &conflict) || conflict.RunID != d.RunID || res != nil {
			t.Errorf("with %s: %+v, %v", name, res, err)
		}
	}
	if as, err := s.OpenAttempts(ctx, d.RunID); err != nil || len(as) != 1 {
		t.Errorf("open attempts: %+v, %v", as, err)
	}
	if err := s.CloseAttempt(ctx, d, open, Returned, "ordered"); err != nil {
		t.Fatal(err)
	}
	commit(t, s, d, aStep(1))
	sound(t, s)
}
