package sandbox

import (
	"strings"
	"time"
)

// Cap is a ceiling that stopped a command. The constants are the stored text.
type Cap string

const (
	CapCPU       Cap = "cpu"
	CapMemory    Cap = "memory"
	CapWall      Cap = "wall"
	CapProcesses Cap = "processes"
	CapOpenFiles Cap = "open-files" // never kills: the command's own calls fail
)

// Result is how a command ended.
type Result struct {
	// Argv is the caller's argv, Program the file that was started for it.
	Argv    []string
	Program string

	// Exit is the exit code, or -1 when the command did not exit by itself.
	Exit int
	// Signal names the signal that ended the command ("SIGKILL"); empty when it
	// exited by itself.
	Signal string
	// Cap is the ceiling that ended the command; empty when none did.
	Cap Cap
	// Killed says that the harness ended it: by a cap, by the end of the context
	// or by Process.Kill.
	Killed bool
	// Survived says that it could not be killed and still runs: the host may not
	// signal it, because it runs as another user, as under sudo in [FullAccess].
	Survived bool
	// Leftover says that the command had ended and something it started was
	// still running, and was killed.
	Leftover bool

	// Stdout and Stderr are the two streams, Output is both in the order in which
	// they arrived. Each is bounded by Limits.Output.
	Stdout, Stderr, Output Output

	// Duration is from start until nothing of the command was left.
	Duration time.Duration
	// CPU is processor time of the command and of the children it waited for.
	CPU time.Duration

	Applied Applied
}

// Success reports whether the command exited by itself with code 0 and no
// ceiling was hit.
func (r *Result) Success() bool { return r.Exited(0) }

// Exited reports whether the command exited by itself with this code. A killed
// command never did, whatever the code is.
func (r *Result) Exited(code int) bool {
	return r.Signal == "" && r.Cap == "" && !r.Killed && r.Exit == code
}

// Text is stdout and then stderr, each trimmed, or the one that is not empty,
// in at most limit runes with the middle left out and counted. Zero or less
// means everything that was kept.
func (r *Result) Text(limit int) string {
	out, err := strings.TrimSpace(r.Stdout.String()), strings.TrimSpace(r.Stderr.String())
	switch {
	case out == "":
		out = err
	case err != "":
		out += "\n" + err
	}
	return Bound(out, limit)
}
