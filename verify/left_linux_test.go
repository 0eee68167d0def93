package verify

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// running reports whether a process of this machine has arg as an argument of its
// own, in whatever namespace it lives.
func running(t *testing.T, arg string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatal("no process can be seen", err)
	}
	for _, path := range lines {
		line, err := os.ReadFile(path)
		if err == nil && bytes.HasPrefix(line, []byte("sleep\x00")) && bytes.Contains(line, []byte(arg)) {
			return true
		}
	}
	return false
}

func TestAProcessLeftBehindNeitherHoldsTheGateNorOutlivesIt(t *testing.T) {
	unique := func(n int) string { return fmt.Sprintf("300.%d%d", os.Getpid(), n) }
	seen := exec.Command("sleep", unique(0))
	if err := seen.Start(); err != nil {
		t.Skip("no sleep: ", err)
	}
	// Before the program has taken the place of the fork its name is another.
	for deadline := time.Now().Add(10 * time.Second); !running(t, unique(0)); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a process that runs is not seen")
		}
	}
	if err := seen.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = seen.Wait() // killed

	// A child that holds the output open outlives its parent's exit.
	for n, tc := range []struct {
		name, script string
		passes       bool
	}{
		{"behind a pass", "echo out; sleep %s & exit 0", true},
		{"in a session of its own", "echo out; setsid sleep %s & sleep 0.1; exit 0", true},
		{"behind the clock", "echo out; sleep %s & wait", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			if !tc.passes {
				b.profile.Limits.Wall = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			left := unique(n + 1)
			v, err := Evaluate(ctx, Command("sh", "-c", fmt.Sprintf(tc.script, left)), b.env())
			if err != nil {
				t.Fatalf("Evaluate: %v: the gate waited for a process that the command left", err)
			}
			if v.Passed != tc.passes || v.Output != "out" {
				t.Errorf("verdict = %+v, want passed %v: the command's own end decides", v, tc.passes)
			}
			for deadline := time.Now().Add(10 * time.Second); running(t, left); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("what the command left behind still runs")
				}
			}
		})
	}
}
