package provider

import "time"

// Defaults of a RetryPolicy.
const (
	RetryBase      = 500 * time.Millisecond
	RetryMax       = 30 * time.Second
	MaxServerWait  = 5 * time.Minute
	retryShiftCap  = 16                // beyond it a doubling would only ever meet the ceiling
	RequestTimeout = 600 * time.Second // of one attempt at a vendor: connecting, headers and the whole body
)

// RetryPolicy says how long to wait between two attempts at one completion. The
// zero value is the default. There is no jitter: the same failures give the
// same waits, so that a trace can be compared with another.
type RetryPolicy struct {
	Base time.Duration // first wait, doubling from there; 0 means RetryBase
	Max  time.Duration // ceiling of the doubling; 0 means RetryMax

	// MaxServerWait is the longest wait that a server may ask for. A longer
	// one ends the attempts instead of parking the run. 0 means the constant
	// MaxServerWait; negative means no limit.
	MaxServerWait time.Duration
}

// Wait returns how long to wait before retry number retry (1 is the first)
// after err. The second result is false when there should be none: err is not
// an *Error, its kind is not retryable, or the server asked for more than
// MaxServerWait; in the last case the first result is what it asked for. What a
// server asks for wins over the doubling, above Max and down to zero.
func (p RetryPolicy) Wait(retry int, err error) (time.Duration, bool) {
	e, ok := AsError(err)
	if !ok || !e.Retryable() {
		return 0, false
	}
	if e.RetryAfter != nil {
		wait, most := max(*e.RetryAfter, 0), p.MaxServerWait
		if most == 0 {
			most = MaxServerWait
		}
		return wait, most < 0 || wait <= most
	}
	return p.Backoff(retry), true
}

// Backoff is the wait before retry number retry when no server asked for
// another: Base doubled retry-1 times, at most Max.
func (p RetryPolicy) Backoff(retry int) time.Duration {
	base, most := p.Base, p.Max
	if base <= 0 {
		base = RetryBase
	}
	if most <= 0 {
		most = RetryMax
	}
	shift := min(max(retry-1, 0), retryShiftCap)
	wait := base << shift
	if wait>>shift != base || wait > most {
		return most
	}
	return wait
}
