package sandbox

import (
	"slices"
	"strconv"
)

// bwrapFDs are the descriptors that bubblewrap is given.
type bwrapFDs struct {
	status  int // where it says that the command runs and how it ended
	seccomp int // where it reads the filter; 0: none
}

// keptByRoot are the capabilities that a command of root keeps, as the shim has
// them: what builds use on files and accounts of their own.
var keptByRoot = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}

// bwrapArgv is the whole command line of one command. Everything is read-only
// first, then the granted places are not, then what must not be read or changed
// is covered: the later of two options for a path counts. The payload comes
// after "--", as separate arguments that nothing parses.
func bwrapArgv(bwrap string, s *spec, fds bwrapFDs, isDir func(string) bool) []string {
	argv := []string{bwrap}
	if !s.host.bwrapAsRoot {
		argv = append(argv, "--unshare-user-try")
	}
	argv = append(argv, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--new-session", "--die-with-parent", "--cap-drop", "ALL")
	if s.host.bwrapAsRoot {
		for _, c := range keptByRoot {
			argv = append(argv, "--cap-add", c)
		}
	}
	// A setting of the kernel belongs to root's user id and asks for no capability,
	// so the whole of /proc is read-only.
	argv = append(argv, "--ro-bind", "/", "/", "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev")
	if s.profile.Egress.denied() {
		argv = append(argv, "--unshare-net")
	}
	writable := slices.Clone(s.roots)
	if s.temp != "" {
		writable = append(writable, s.temp)
	}
	slices.Sort(writable) // a directory sorts before what is in it
	for _, dir := range slices.Compact(writable) {
		argv = append(argv, "--bind-try", dir, dir)
	}
	for _, path := range s.protected() {
		argv = append(argv, "--ro-bind-try", path, path)
	}
	for _, path := range s.denied {
		if isDir(path) {
			argv = append(argv, "--tmpfs", path, "--remount-ro", path)
			continue
		}
		argv = append(argv, "--ro-bind", "/dev/null", path)
	}
	argv = append(argv, "--json-status-fd", strconv.Itoa(fds.status))
	if fds.seccomp > 0 {
		argv = append(argv, "--seccomp", strconv.Itoa(fds.seccomp))
	}
	argv = append(argv, "--chdir", s.dir, "--", s.path)
	return append(argv, s.argv[1:]...)
}

// bwrapStatus is one line of the status channel.
type bwrapStatus struct {
	ChildPID *int `json:"child-pid"`
	ExitCode *int `json:"exit-code"`
}

// bwrapEnd turns the exit code that bubblewrap reports into an ending: it adds
// 128 to the number of the signal that ended the command.
func bwrapEnd(code int) (exit, signal int) {
	if code > 128 && code <= 128+64 {
		return -1, code - 128
	}
	return code, 0
}
