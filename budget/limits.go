package budget

import (
	"errors"
	"fmt"
	"time"
)

// DefaultSteps is the step cap of a contract that states none: enough to look,
// change, check and correct a few times, and little enough that a run which
// gets nowhere ends soon.
const DefaultSteps = 12

// DefaultRetries is how often one failed completion is asked again: three
// attempts ride out a short rate limit without hiding an outage.
const DefaultRetries = 2

// Limits bounds one run. The zero value means the defaults for steps and
// retries and no bound on time and tokens.
type Limits struct {
	// Steps caps the committed steps of the run, over all its resumes. Zero
	// means DefaultSteps; negative means none at all, and the run ends before
	// its first completion.
	Steps int
	// Duration bounds the wall clock from the run's first start. Downtime
	// counts. A call in flight when it runs out is cancelled and its step is
	// not committed. Zero means no bound.
	Duration time.Duration
	// Tokens bounds what the run may draw, as the provider counts them: its
	// committed steps, and what was asked for steps that never came to be. The run
	// ends when the sum is greater. Zero means no bound.
	Tokens int64
	// Retries is how often one completion is asked again after a failure that
	// may heal. Zero means DefaultRetries; negative means never.
	Retries int
}

// StepCap is the number of steps that may be committed.
func (l Limits) StepCap() int {
	switch {
	case l.Steps == 0:
		return DefaultSteps
	case l.Steps < 0:
		return 0
	}
	return l.Steps
}

// RetryCap is how often one completion may be asked again.
func (l Limits) RetryCap() int {
	switch {
	case l.Retries == 0:
		return DefaultRetries
	case l.Retries < 0:
		return 0
	}
	return l.Retries
}

// TokensExceeded reports whether spent tokens are over the bound. Spending
// exactly the bound is allowed.
func (l Limits) TokensExceeded(spent int64) bool { return l.Tokens > 0 && spent > l.Tokens }

// TimeExceeded reports whether elapsed wall clock is over the bound.
func (l Limits) TimeExceeded(elapsed time.Duration) bool {
	return l.Duration > 0 && elapsed > l.Duration
}

// Deadline is when a run that started at start runs out of time; ok is false
// when it has no bound.
func (l Limits) Deadline(start time.Time) (at time.Time, ok bool) {
	if l.Duration <= 0 {
		return time.Time{}, false
	}
	return start.Add(l.Duration), true
}

// Validate reports every bound that can never be meant.
func (l Limits) Validate() error {
	var errs []error
	if l.Duration < 0 {
		errs = append(errs, fmt.Errorf("duration is %s: give a positive bound, or zero for none", l.Duration))
	}
	if l.Tokens < 0 {
		errs = append(errs, fmt.Errorf("tokens is %d: give a positive bound, or zero for none", l.Tokens))
	}
	return errors.Join(errs...)
}
