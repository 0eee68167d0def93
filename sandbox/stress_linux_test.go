package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// startsEnv is how many starts the test below makes on each rung; 50 without it.
// make stress is the command for a thousand.
const startsEnv = "IO_HARNESS_SANDBOX_STARTS"

// traces counts what a contained command could leave behind on this host.
type traces struct{ processes, threads, descriptors, groups, temps int }

func (h Host) traces(t *testing.T) traces {
	t.Helper()
	count := func(dir, prefix string) int {
		des, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, d := range des {
			if strings.HasPrefix(d.Name(), prefix) {
				n++
			}
		}
		return n
	}
	tr := traces{threads: count("/proc/self/task", ""), descriptors: count("/proc/self/fd", ""), temps: count(os.TempDir(), tempPrefix)}
	if h.cgroup != "" {
		tr.groups = count(h.cgroup, fmt.Sprintf("%s%s-%d-", cgroupPrefix, pidNamespace(), os.Getpid()))
	}
	des, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range des {
		pid, err := strconv.Atoi(d.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", d.Name(), "environ"))
		if st, ok := readStat(pid); ok && (st.ppid == os.Getpid() || strings.Contains(string(env), "STRESS_OF="+strconv.Itoa(os.Getpid())+"\x00")) {
			tr.processes++
		}
	}
	return tr
}

// within reports that there is no more of anything than there was. The Go runtime
// keeps some threads of its own for later, which is no leak of ours as long as it
// does not grow with the starts.
func (tr traces) within(before traces) bool {
	const spare = 12
	return tr.processes <= before.processes && tr.threads <= before.threads+spare && tr.descriptors <= before.descriptors &&
		tr.groups <= before.groups && tr.temps <= before.temps
}

func TestManyStartsLeaveNothingBehind(t *testing.T) {
	starts := 50
	if s := os.Getenv(startsEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 100_000 {
			t.Fatalf("%s is %q: it must be a number from 1 to 100000", startsEnv, s)
		}
		starts = n
	}
	t.Setenv("TMPDIR", realTempDir(t)) // of this test alone
	scripts := []string{
		"true",
		"exit 3",
		"sleep 300 & exit 0",
		"setsid sleep 300 & exit 0",
		"kill -9 $$",
		"head -c 100000 /dev/zero; (sleep 300 | sleep 300) &",
	}
	for _, rung := range append([]Rung{RungFloor}, linuxRungs...) {
		t.Run(string(rung), func(t *testing.T) {
			if rung != RungFloor {
				offered(t, rung, Profile{})
			}
			h, err := Probe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ws := realTempDir(t)
			p := forced(Profile{Workspace: ws, Vars: []string{"STRESS_OF=" + strconv.Itoa(os.Getpid())}}, rung)
			one := func(i int) error {
				p := p
				if i%10 == 7 {
					p.Limits = Limits{Wall: 20 * time.Millisecond, OpenFiles: 100, CPU: time.Minute}
					r, err := Run(t.Context(), Cmd{Argv: []string{"sleep", "300"}}, p)
					if err != nil || r.Cap != CapWall {
						return fmt.Errorf("start %d: %+v, %w", i, r, err)
					}
					return nil
				}
				r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", scripts[i%len(scripts)]}}, p)
				if err == nil && r.Applied.Rung != rung {
					err = fmt.Errorf("ran under %s", r.Applied.Rung)
				}
				return err
			}
			for i := range 2 * len(scripts) { // what is made once is there before the counting
				if err := one(i); err != nil {
					t.Fatal(err)
				}
			}
			before := h.traces(t)
			var wg sync.WaitGroup
			next := make(chan int)
			for range 4 {
				wg.Go(func() {
					for i := range next {
						if err := one(i); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for i := range starts {
				next <- i
			}
			close(next)
			wg.Wait()
			after := h.traces(t)
			for range 200 { // the runtime and the kernel clear away in their own time
				if after.within(before) {
					break
				}
				time.Sleep(10 * time.Millisecond)
				after = h.traces(t)
			}
			if !after.within(before) {
				t.Errorf("after %d starts there is %+v, before there was %+v", starts, after, before)
			}
			t.Logf("%d starts: %+v before, %+v after", starts, before, after)
		})
	}
}
