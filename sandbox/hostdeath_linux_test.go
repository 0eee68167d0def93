package sandbox

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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
	fmt.Println(strings.Trim(fmt.Sprint(pr.Pids()), "[]"))
	time.Sleep(time.Minute)
	return 0
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
			var pids []int
			for f := range strings.FieldsSeq(line) {
				pid, err := strconv.Atoi(f)
				if err != nil {
					t.Fatalf("the host said %q", line)
				}
				pids = append(pids, pid)
			}
			if len(pids) < 3 {
				t.Fatalf("processes %v, want the whole tree", pids)
			}
			_ = host.Process.Kill()
			_ = host.Wait()
			if alive(pids[0]) {
				t.Error("the program outlives its host")
			}
			if h.cgroup != "" {
				sweepCgroups(h.cgroup) // as the next host program does when it starts
			} else if rung != RungNamespaces {
				for _, pid := range pids[1:] {
					if p, err := os.FindProcess(pid); err == nil {
						_ = p.Kill() // the documented limit: nothing ties them to the host
					}
				}
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d of %v outlives its host", pid, pids)
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
