package sandbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBubblewrapCommandLine(t *testing.T) {
	s := &spec{
		argv: []string{"go", "test", "; rm -rf /", "--bind"}, path: "/usr/bin/go", dir: "/ws/sub", temp: "/tmp/run",
		roots: []string{"/ws", "/cache"}, denied: []string{"/ws/.env", "/ws/secrets"},
	}
	isDir := func(p string) bool { return p == "/ws/secrets" }
	got := bwrapArgv("/usr/bin/bwrap", s, bwrapFDs{status: 3, seccomp: 4}, isDir)
	want := []string{
		"/usr/bin/bwrap", "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
		"--new-session", "--die-with-parent", "--cap-drop", "ALL",
		"--ro-bind", "/", "/", "--proc", "/proc", "--remount-ro", "/proc", "--dev", "/dev", "--unshare-net",
		"--bind-try", "/cache", "/cache", "--bind-try", "/tmp/run", "/tmp/run", "--bind-try", "/ws", "/ws",
		"--ro-bind", "/dev/null", "/ws/.env", "--tmpfs", "/ws/secrets", "--remount-ro", "/ws/secrets",
		"--json-status-fd", "3", "--seccomp", "4", "--chdir", "/ws/sub",
		"--", "/usr/bin/go", "test", "; rm -rf /", "--bind",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	s.host.bwrapAsRoot = true
	if got := strings.Join(bwrapArgv("bwrap", s, bwrapFDs{status: 3}, isDir), " "); strings.Contains(got, "--unshare-user") || !strings.Contains(got, "--cap-drop ALL --cap-add CAP_CHOWN ") || strings.Contains(got, "SYS_") {
		t.Errorf("as root: %q", got)
	}
	s.host.bwrapAsRoot = false
	s.profile.Mode, s.roots = ReadOnly, nil
	if got := bwrapArgv("bwrap", s, bwrapFDs{status: 3}, isDir); strings.Contains(strings.Join(got, " "), "--bind-try /ws") || slices.Contains(got, "--seccomp") {
		t.Errorf("read-only without a filter: %q", got)
	}
	s.profile.Egress.Open = true
	if got := bwrapArgv("bwrap", s, bwrapFDs{status: 3}, isDir); slices.Contains(got, "--unshare-net") {
		t.Errorf("with the network open: %q", got)
	}
}

func TestBubblewrapExitCodes(t *testing.T) {
	for _, tc := range []struct{ code, exit, signal int }{{0, 0, 0}, {1, 1, 0}, {127, 127, 0}, {128, 128, 0}, {137, -1, 9}, {152, -1, 24}, {255, 255, 0}} {
		if exit, signal := bwrapEnd(tc.code); exit != tc.exit || signal != tc.signal {
			t.Errorf("%d: got exit %d signal %d, want %d and %d", tc.code, exit, signal, tc.exit, tc.signal)
		}
	}
}
