package sandbox

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bystander starts a process that is no command's.
func bystander(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

func lives(t *testing.T, c *exec.Cmd) bool {
	t.Helper()
	st, ok := readStat(c.Process.Pid)
	return ok && st.state != 'Z'
}

// Every environment ends with an empty entry. A search for a marker that is empty
// would find, and kill, everything that the user runs.
func TestATreeWithoutAMarkerFindsNothing(t *testing.T) {
	c := bystander(t)
	for _, marker := range []string{"", MarkerEnv, MarkerEnv + "=", newMarker()} {
		tr := &tree{pid: os.Getpid(), marker: marker, born: time.Now().Add(-time.Minute)} // so long ago that it looks at all
		if tr.carriesMarker(c.Process.Pid) {
			t.Fatalf("with the marker %q a process that carries none is taken for a member", marker)
		}
		if found := tr.marked(); len(found) != 0 {
			t.Fatalf("with the marker %q there are the members %v", marker, found)
		}
	}
	carries := exec.Command("sleep", "60")
	marker := newMarker()
	carries.Env = []string{"A=b", marker, "PATH=" + os.Getenv("PATH")}
	if err := carries.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = carries.Process.Kill(); _ = carries.Wait() }()
	if tr := (&tree{pid: os.Getpid(), marker: marker, born: time.Now()}); !tr.carriesMarker(carries.Process.Pid) {
		t.Error("the control does not carry its marker")
	}
}

// The probes end what they started and nothing else, also where no control group
// keeps the two apart.
func TestProbesLeaveOtherProcessesAlone(t *testing.T) {
	for name, probe := range map[string]func(*Host) error{
		"bubblewrap": probeBubblewrap, "namespaces": tryNamespaces, "landlock": probeLandlock,
		"stop": func(h *Host) error { _, _ = probeStop(h); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			before := bystander(t)
			stop, started := make(chan struct{}), make(chan []*exec.Cmd)
			go func() { // those that are younger than what the probe starts are the ones in danger
				var all []*exec.Cmd
				for {
					c := exec.Command("sleep", "60")
					if err := c.Start(); err == nil {
						all = append(all, c)
					}
					select {
					case <-stop:
						started <- all
						return
					case <-time.After(2 * time.Millisecond):
					}
				}
			}()
			err := probe(&Host{OS: "linux"})
			close(stop)
			all := <-started
			for _, c := range append(all, before) {
				if !lives(t, c) {
					t.Errorf("process %d, which is not the probe's, was ended", c.Process.Pid)
				}
			}
			for _, c := range all {
				_ = c.Process.Kill()
				_ = c.Wait()
			}
			if err != nil {
				t.Skip(err)
			}
		})
	}
}

// /proc has a directory for each thread, which its listing leaves out.
func TestAThreadIsNoProcess(t *testing.T) {
	tid := make(chan int)
	done := make(chan struct{})
	defer close(done)
	go onScratchThread(true, func() {
		tid <- unix.Gettid()
		<-done
	})
	id := <-tid
	if _, err := os.Stat("/proc/" + strconv.Itoa(id) + "/stat"); err != nil || id == os.Getpid() {
		t.Fatalf("thread %d: %v", id, err)
	}
	if st, ok := readStat(id); ok {
		t.Errorf("thread %d is taken for a process: %+v", id, st)
	}
	if _, ok := readStat(os.Getpid()); !ok {
		t.Error("this process is none")
	}
}
