//go:build unix

package builtin

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

// A redirect is opened by the harness itself, which must not be made to wait by
// what lies in its place.
func TestARedirectDoesNotWaitForAPipe(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	if err := syscall.Mkfifo(filepath.Join(b.root, "pipe"), 0o644); err != nil {
		t.Skip(err)
	}
	for _, line := range []string{"cat < pipe", "echo x > pipe", "echo x >> pipe", "cat 2> pipe", "cat missing 2>/dev/null | cat < pipe"} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		done := make(chan string, 1)
		go func() {
			text, _ := b.callCtx(ctx, "shell", args("line", line))
			done <- text
		}()
		select {
		case text := <-done:
			if !strings.Contains(text, "shell: pipe:") && !strings.Contains(text, "gate:") {
				t.Errorf("%q: %s", line, text)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%q: the harness waits for a pipe", line)
		}
		cancel()
	}
}

func TestExecFindsWhatItsPathSays(t *testing.T) {
	b := newShellBench(t, policy.Permissive())
	b.program("tool.sh", "echo from $0")
	b.program("sub/tool.sh", "echo from below")
	for _, tc := range []struct {
		argv           []string
		decision, says string
	}{
		{[]string{"./tool.sh"}, "exec ./tool.sh exit 0", "from"},
		{[]string{"sub/tool.sh"}, "exec sub/tool.sh exit 0", "from below"},
		{[]string{filepath.Join(b.root, "sub/../tool.sh")}, "", "from"},
		{[]string{"tool.sh"}, "tool.sh unavailable", "not on this machine"},
		{[]string{"sub"}, "sub unavailable", "not on this machine"},
		{[]string{"./sub"}, "exec ./sub failed to start", "directory"},
		{[]string{b.root}, "", "directory"},
	} {
		got, res := b.call("exec", args("argv", tc.argv))
		if tc.decision != "" && res.Decision != tc.decision {
			t.Errorf("%q: decision %q, want %q", tc.argv, res.Decision, tc.decision)
		}
		wantHas(t, got, tc.says)
	}
	if here, err := os.Getwd(); err != nil || here == b.root {
		t.Errorf("the harness is in %s, %v", here, err)
	}
}
