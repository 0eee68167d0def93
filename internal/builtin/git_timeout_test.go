//go:build unix

package builtin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
)

// A git that hangs is ended by the time of a command, with what it has started.
func TestAGitThatHangsEndsWithWhatItStarted(t *testing.T) {
	for _, call := range [][2]string{{"git_status", `{}`}, {"git_commit", `{"message":"m"}`}} {
		b := newBench(t, policy.Permissive())
		b.env.ExecTimeout = time.Second
		b.env.RunNarrowed = nil
		b.env.Run = func(ctx context.Context, _ tool.Call, cmd sandbox.Cmd) (*sandbox.Result, error) {
			return sandbox.Run(ctx, cmd, sandbox.Profile{Workspace: b.root, Mode: sandbox.FullAccess})
		}
		bin, pids := t.TempDir(), filepath.Join(t.TempDir(), "pids")
		script := "#!/bin/sh\necho $$ >> " + pids + "\nsleep 300 &\necho $! >> " + pids + "\nwait\n"
		if err := os.WriteFile(filepath.Join(bin, "git"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		// No helper is taken from where temporary files lie, and bin is there.
		t.Setenv("TMPDIR", t.TempDir())
		t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		got, r := b.call(call[0], call[1])
		if !r.Failed || r.Changed {
			t.Errorf("%s = %q, %+v", call[0], got, r)
		}
		wantHas(t, got, "["+call[0]+" timed out", "killed")
		text, err := os.ReadFile(pids)
		if err != nil || len(text) == 0 {
			t.Fatalf("%s did not start the program that hangs: %q, %v", call[0], text, err)
		}
		for _, word := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			gone := false
			for i := 0; i < 500 && !gone; i++ {
				gone = errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || zombie(pid)
				if !gone {
					time.Sleep(10 * time.Millisecond)
				}
			}
			if !gone {
				t.Errorf("process %d of %s lives", pid, call[0])
				testkit.EndIn(pid, b.root)
			}
		}
	}
}

// zombie reports a process that is over and that nobody has waited for yet.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
