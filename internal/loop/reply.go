package loop

import (
	"context"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// replyOf is what a run said with its last step, and nothing when that asked for
// something: with the words of the turns that the vendor paused and that it goes on
// with, which are in no turn but their own.
func replyOf(turns map[int]trace.AssistantTurn, last int, ledger []trace.Observation) string {
	turn, ok := turns[last]
	if !ok || len(turn.Calls) > 0 {
		return ""
	}
	text := turn.Text
	end := len(ledger)
	for n := last; pausable(turns, n-1); n-- {
		var behind, paused []trace.Observation
		behind, end = ofStep(ledger, end, n)
		if paused, _ = ofStep(ledger, end, n-1); len(paused) != 1 || paused[0].Target != prompt.TargetPaused {
			break
		}
		if len(behind) == 0 || behind[0].Origin != trace.OriginAgent {
			break // somebody spoke between the two, so that it was asked anew
		}
		text = turns[n-1].Text + text
	}
	return text
}

// pausable reports whether a turn may be one that was handed back to the vendor.
func pausable(turns map[int]trace.AssistantTurn, step int) bool {
	turn, ok := turns[step]
	return ok && len(turn.Calls) == 0 && len(turn.Carry) > 0
}

// ofStep is the part of a ledger before end that belongs to a step, and where it
// begins. What was added to a later step lies behind it.
func ofStep(ledger []trace.Observation, end, step int) ([]trace.Observation, int) {
	for end > 0 && ledger[end-1].Step > step {
		end--
	}
	from := end
	for from > 0 && ledger[from-1].Step == step {
		from--
	}
	return ledger[from:end], from
}

// recordedReply is replyOf a run that nobody drives.
func recordedReply(ctx context.Context, st *store.Store, run trace.RunID, last int) (string, error) {
	turns := map[int]trace.AssistantTurn{}
	read := func(after int) error {
		for t, err := range st.StepTurns(ctx, run, store.After(int64(after))) {
			if err != nil {
				return err
			}
			turns[t.Step] = t
		}
		return nil
	}
	if err := read(last - 2); err != nil || !pausable(turns, last-1) {
		return replyOf(turns, last, nil), err
	}
	if err := read(0); err != nil {
		return "", err
	}
	stored, err := store.Collect(st.Observations(ctx, run))
	if err != nil {
		return "", err
	}
	ledger := make([]trace.Observation, len(stored))
	for i, o := range stored {
		ledger[i] = o.Observation
	}
	return replyOf(turns, last, ledger), nil
}
