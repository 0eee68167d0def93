package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

// What kind of failure an [Error] is. Test with errors.Is.
var (
	// ErrMissing: the program is not on this machine, or not where the argv says.
	ErrMissing = errors.New("program not found")
	// ErrStart: the system would not start the program: not executable, not a
	// program, a bad working directory, too long an argv.
	ErrStart = errors.New("command could not be started")
	// ErrRequired: the host cannot hold a boundary that the profile requires.
	// Nothing was started.
	ErrRequired = errors.New("required containment is not available")
	// ErrApparatus: the rung itself failed. Nothing ran outside of it.
	ErrApparatus = errors.New("sandbox failed")
	// ErrInvalid: the command or the profile can never work.
	ErrInvalid = errors.New("invalid sandbox request")
)

// Error is the one error type of this package. It matches its Kind and
// whatever Err matches, so both errors.Is(err, ErrStart) and
// errors.Is(err, fs.ErrPermission) work.
type Error struct {
	Kind    error  // one of the sentinels above
	Op      string // what was being done: "resolve program", "start", "probe", …
	Program string // as the caller wrote it; may be empty
	Rung    Rung   // may be empty
	Err     error  // the cause; may be nil
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v", e.Op, e.Kind)
	if e.Program != "" {
		fmt.Fprintf(&b, ": %q", e.Program)
	}
	if e.Rung != "" {
		fmt.Fprintf(&b, " under %s", e.Rung)
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(strings.ReplaceAll(e.Err.Error(), "\n", "; "))
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}
