package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// Restricting a thread must never reach another one: not the main thread, not
// one that the runtime makes later or takes back.
func TestManyStartsLeaveTheHostAsItWas(t *testing.T) {
	rungs(t, Profile{})
	own := restrictions(t, "/proc/self/status")
	before, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var garbage sync.WaitGroup
	garbage.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
			}
		}
	})
	ws := realTempDir(t)
	var wg sync.WaitGroup
	errs := make(chan error, 300)
	for worker := range 20 {
		wg.Go(func() {
			for i := range 15 {
				r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "echo x > /harness-escape; true"}}, Profile{Workspace: ws})
				if err != nil || !r.Success() || !r.Applied.Confined() {
					errs <- fmt.Errorf("start %d of worker %d: %+v %v", i, worker, r, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	garbage.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	// A thread that has done its work is told to end and not waited for: the system
	// takes a moment.
	var living []string
	for range 500 {
		if living = restrictedThreads(t, own); len(living) == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(living) > 0 {
		t.Errorf("restricted threads live on, where the process has %s: %q", own, living)
	}
	f, err := os.CreateTemp(filepath.Dir(ws), "host")
	if err != nil {
		t.Errorf("the host cannot write any more: %v", err)
	} else {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
	if after, _ := os.Getwd(); after != before {
		t.Errorf("working directory %q, was %q", after, before)
	}
	if _, err := os.Stat("/harness-escape"); err == nil {
		t.Error("a command wrote to the root directory")
	}
}

// restrictions is what the status file at path says of them; empty when the
// thread has ended.
func restrictions(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, "NoNewPrivs:") || strings.HasPrefix(line, "Seccomp:") || strings.HasPrefix(line, "CapBnd:") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, " ")
}

// restrictedThreads are the threads of this process that may do something else than
// the process.
func restrictedThreads(t *testing.T, own string) (out []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks {
		if got := restrictions(t, path); got != "" && got != own {
			out = append(out, path+" has "+got)
		}
	}
	return out
}
