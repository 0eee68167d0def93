package provider

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Kind classifies a provider's failure. Its text is what a store keeps. The set
// is open: a reader must tolerate a kind that it does not know.
//
// A Kind is itself an error, so that errors.Is(err, provider.RateLimited) tests
// an *Error anywhere in a chain.
type Kind string

// The kinds.
const (
	Transport       Kind = "Transport"       // the exchange did not complete: refused, name, TLS, broken connection
	Timeout         Kind = "Timeout"         // the request's own deadline passed, or the stream was silent too long
	RateLimited     Kind = "RateLimited"     // asked too often; RetryAfter says when, if the server did
	Server          Kind = "Server"          // the vendor's side broke
	Malformed       Kind = "Malformed"       // an answer came and nothing usable could be read, or it was cut
	Auth            Kind = "Auth"            // the key is missing, wrong or not allowed
	Quota           Kind = "Quota"           // the account's money or quota is used up; waiting does not help
	InvalidRequest  Kind = "Request"         // the request itself is not acceptable
	ContextOverflow Kind = "ContextOverflow" // the prompt did not fit; a smaller one may
)

// Error makes a Kind usable as the target of errors.Is.
func (k Kind) Error() string { return "provider failure of kind " + string(k) }

// Retryable reports whether asking again, or asking another provider, can help.
func (k Kind) Retryable() bool {
	switch k {
	case Transport, Timeout, RateLimited, Server, Malformed:
		return true
	}
	return false
}

// Error is a completion that failed, or one whose answer cannot be used. Its
// message never contains a key.
type Error struct {
	Kind       Kind
	Status     int            // HTTP status, 0 when there was none
	RetryAfter *time.Duration // how long the server asked to wait; nil when it did not, and zero is a wish too
	Message    string         // the vendor's words or ours, bounded
	Provider   string         // name of the provider that failed
	RequestID  string         // the vendor's id of the request, for its support
	Usage      *Usage         // what the failed call is known to have used; nil when unknown
	Err        error          // the cause, when there is one worth unwrapping
}

// Error renders kind, status and message on one line. The text is for people.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Provider != "" {
		b.WriteString(e.Provider)
		b.WriteString(": ")
	}
	b.WriteString(e.Text())
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(strings.Join(strings.Fields(e.Message), " "))
	}
	if e.RequestID != "" {
		b.WriteString(" (request ")
		b.WriteString(e.RequestID)
		b.WriteString(")")
	}
	return b.String()
}

// Text is the kind with the status behind it, such as "Server (HTTP 503)": the
// form that is stored with a failed call.
func (e *Error) Text() string {
	if e.Status == 0 {
		return string(e.Kind)
	}
	return string(e.Kind) + " (HTTP " + strconv.Itoa(e.Status) + ")"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the kind of e.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// Retryable reports whether asking again, or asking another provider, can help.
func (e *Error) Retryable() bool { return e.Kind.Retryable() }

// TooLong reports whether the prompt did not fit, so that a smaller one may.
func (e *Error) TooLong() bool { return e.Kind == ContextOverflow }

// AsError finds the *Error in the chain of err.
func AsError(err error) (*Error, bool) {
	var e *Error
	ok := errors.As(err, &e)
	return e, ok
}

// Interrupted is a completion that the caller's own context ended: never a failure
// of the provider. errors.Is finds the context's error and its cause in it.
type Interrupted struct {
	Provider string // name of the provider that was being asked
	Usage    *Usage // what the call is known to have used until then; nil when unknown
	Err      error  // the context's
}

func (e *Interrupted) Error() string { return e.Provider + ": " + e.Err.Error() }

// Unwrap returns the context's error.
func (e *Interrupted) Unwrap() error { return e.Err }

// billed is an error that came of more than one call, with what all of them used.
type billed struct {
	err  error
	used *Usage
}

func (b *billed) Error() string { return b.err.Error() }
func (b *billed) Unwrap() error { return b.err }

// WithUsage is err with what everything that led to it is known to have used, for
// UsageOf to find: a chain may fail for good after calls that were billed. It is err
// itself when one of the two is nil.
func WithUsage(err error, used *Usage) error {
	if err == nil || used == nil {
		return err
	}
	return &billed{err, used}
}

// UsageOf is what a completion that ended with err is known to have used, nil when
// that is unknown.
func UsageOf(err error) *Usage {
	var b *billed
	if errors.As(err, &b) {
		return b.used
	}
	if e, ok := AsError(err); ok {
		return e.Usage
	}
	var i *Interrupted
	if errors.As(err, &i) {
		return i.Usage
	}
	return nil
}

// ConfigError is a request or a provider that can never work as it stands.
// Nothing was sent, and nothing is gained by trying again.
type ConfigError struct {
	Provider string // name of the provider, "" when there is none yet
	Message  string // what was asked, what cannot be done, and what to write instead
}

func (e *ConfigError) Error() string {
	if e.Provider == "" {
		return e.Message
	}
	return e.Provider + ": " + e.Message
}

// quote shows a caller's text in a message, bounded.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strconv.Quote(s)
}

// NoAnswer is the failure of a provider that returned neither a response nor an error.
func NoAnswer(p Provider) *Error {
	return &Error{Kind: Malformed, Provider: p.Name(), Message: "the provider returned neither a response nor an error"}
}
