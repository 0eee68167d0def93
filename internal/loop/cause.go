package loop

import (
	"context"
	"errors"
)

// causeOf is err, or in the place of one that tells of nothing but the end of ctx the
// reason for that end: a lease that was lost, an interrupt, the time budget. Which of
// the two comes out of a call that was just being made is a matter of microseconds.
func causeOf(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) {
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
	}
	return err
}
