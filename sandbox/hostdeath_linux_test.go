package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostFixture is a host program that is killed while a command of it runs. It
// prints the processes of the command.
func hostFixture(args []string) int {
	p := forced(Profile{Workspace: args[1]}, Rung(args[0]))
	up := make(lines, 8)
	pr, err := Start(context.Background(), Cmd{Argv: []string{"sh", "-c", "sleep 300 & setsid sleep 300 & sleep 0.2; echo up; wait"}, Stdout: up}, p)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	select {
	case <-up:
	case <-pr.Done():
		r, err := pr.Wait()
		fmt.Printf("ended early: %+v %v\n", r, err)
		return 1
	}
	for _, pid := range pr.Pids() {
		st, _ := readStat(pid)
		fmt.Print(seen{pid, st.start}, " ")
	}
	fmt.Println()
	time.Sleep(time.Minute)
	return 0
}

// seen is a process as it was met. An id alone is given to another process later.
type seen struct {
	pid   int
	start uint64
}

func (s seen) String() string { return fmt.Sprintf("%d/%d", s.pid, s.start) }

// lives reports whether it still runs; one that was killed may take a moment to be
// gone.
func (s seen) lives() bool {
	for range 100 {
		st, ok := readStat(s.pid)
		if !ok || st.start != s.start || st.state == 'Z' || st.state == 'X' {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// end kills it and nobody else.
func (s seen) end() {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if st, ok := readStat(s.pid); ok && st.start == s.start {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

func TestACommandDiesWithItsHost(t *testing.T) {
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, rung := range append(rungs(t, Profile{}), RungFloor) {
		t.Run(string(rung), func(t *testing.T) {
			host := exec.Command(self(t), "host", string(rung), realTempDir(t))
			out, err := host.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := host.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			var pids []seen
			for f := range strings.FieldsSeq(line) {
				var s seen
				if _, err := fmt.Sscanf(f, "%d/%d", &s.pid, &s.start); err != nil {
					t.Fatalf("the host said %q", line)
				}
				pids = append(pids, s)
			}
			if len(pids) < 3 {
				t.Fatalf("processes %v, want the whole tree", pids)
			}
			_ = host.Process.Kill()
			_ = host.Wait()
			if pids[0].lives() {
				t.Error("the program outlives its host")
			}
			if h.cgroup != "" {
				sweepCgroups(h.cgroup) // as the next host program does when it starts
			} else if rung != RungNamespaces {
				for _, s := range pids[1:] {
					s.end() // the documented limit: nothing ties them to the host
				}
			}
			for _, s := range pids {
				if s.lives() {
					t.Errorf("process %v of %v outlives its host", s, pids)
				}
			}
			if h.cgroup != "" {
				sweepCgroups(h.cgroup)
				if left, _ := filepath.Glob(filepath.Join(h.cgroup, fmt.Sprintf("%s*-%d-*", cgroupPrefix, host.Process.Pid))); len(left) != 0 {
					t.Errorf("groups left behind: %v", left)
				}
			}
		})
	}
}
