package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/trace"
)

// CanonicalTrace renders what a run did so that two executions of one script,
// each in a fresh store, give the same text byte for byte: every step with the
// attempts before it, then every context event, one line each.
//
// Left out, because they are facts of one execution and not of the run: ids and
// stamps, owners and drives, latencies and delays, the provider's own counters,
// the sandbox's details, and the order in which other tables were written.
func (s *Store) CanonicalTrace(ctx context.Context, run trace.RunID) (string, error) {
	attempts := map[int][]StepAttempt{}
	last := 0
	for a, err := range s.StepAttempts(ctx, run) {
		if err != nil {
			return "", err
		}
		attempts[a.Step] = append(attempts[a.Step], a)
		last = max(last, a.Step)
	}
	var b strings.Builder
	writeAttempts := func(step int) {
		for _, a := range attempts[step] {
			fmt.Fprintf(&b, "attempt %d %s %q %q\n", a.Step, a.Kind, a.Decision, a.Result)
		}
	}
	writeAttempts(0)
	done := 0
	for st, err := range s.Steps(ctx, run) {
		if err != nil {
			return "", err
		}
		writeAttempts(st.Step)
		fmt.Fprintf(&b, "step %d %d %q %q %q %q\n", st.Step, st.Tokens, st.Decision, st.ToolCall, st.Prompt, st.Result)
		done = st.Step
	}
	for n := done + 1; n <= last; n++ {
		writeAttempts(n)
	}
	for e, err := range s.ContextEvents(ctx, run) {
		if err != nil {
			return "", err
		}
		if e.Superseded {
			continue
		}
		fmt.Fprintf(&b, "context %d %s %q\n", e.Step, e.Kind, e.Detail)
	}
	return b.String(), nil
}
