package loop

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// A call of the store that was under way when the run was interrupted, or when its
// lease was lost, tells only that its context ended.
func TestTheReasonForTheEndOfAContextComesOut(t *testing.T) {
	reason, other := errors.New("the reason"), errors.New("something else")
	under := fmt.Errorf("store: flush evidence: %w", context.Canceled)
	ended, end := context.WithCancelCause(context.Background())
	end(reason)
	plain, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tc := range []struct {
		name      string
		ctx       context.Context
		err, want error
	}{
		{"a call that was under way", ended, under, reason},
		{"another failure", ended, other, other},
		{"a cancellation of somebody else's", context.Background(), under, under},
		{"a context without a reason", plain, under, context.Canceled},
	} {
		if got := endedBy(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
