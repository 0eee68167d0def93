package sandbox

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// launchBubblewrap starts s in bubblewrap. Whether it was bubblewrap that failed
// or the command is read from its status channel, which the command cannot
// write to, and never from its messages, which the command can forge.
func launchBubblewrap(s *spec, a *Applied) (*child, error) {
	apparatus := func(op string, err error) error {
		return &Error{Kind: ErrApparatus, Op: op, Program: s.argv[0], Rung: s.rung, Err: err}
	}
	if err := startable(s.path); err != nil {
		// Bubblewrap would report it as an exit code of the command's own.
		return nil, startError(s, &os.PathError{Op: "exec", Path: s.path, Err: err})
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		return nil, apparatus("open status channel", err)
	}
	defer theirs.Close()
	files := append(append([]*os.File{}, s.files...), theirs)
	fds := bwrapFDs{status: 3}
	if s.host.Seccomp.Works {
		r, err := s.bwrapFilter()
		if err != nil {
			_ = status.Close()
			return nil, apparatus("build filter", err)
		}
		defer r.Close()
		files, fds.seccomp = append(files, r), 4
	}
	argv := bwrapArgv(s.host.BubblewrapPath, s, fds, func(p string) bool {
		fi, err := os.Stat(p)
		return err == nil && fi.IsDir()
	})
	t := &tree{marker: s.marker, sure: true}
	if err := t.makeGroup(s); err != nil {
		_ = status.Close()
		return nil, err
	}
	limits := s.profile.Limits
	hold := t.group != nil || s.host.Stop.Works && limits.kept()
	lines := bufio.NewReader(status)
	outcome := make(chan error, 1)
	c := &child{exited: make(chan struct{})}
	go onScratchThread(false, func() {
		defer close(c.exited)
		proc, err := os.StartProcess(s.host.BubblewrapPath, argv, &os.ProcAttr{
			Dir:   "/",
			Env:   s.env,
			Files: onlyThese(files),
			Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Ptrace: hold},
		})
		if errors.Is(err, unix.E2BIG) {
			outcome <- startError(s, err) // the arguments are the command's
			return
		}
		if err != nil {
			outcome <- apparatus("start bubblewrap", err)
			return
		}
		t.pid, t.born = proc.Pid, time.Now()
		if hold {
			err = held(t.pid, t.group, limiter(t.pid, limits))
		}
		_ = theirs.Close()
		inner := 0
		if err == nil {
			inner, err = awaitChild(lines)
		}
		t.helpers = []int{t.pid, inner}
		if err != nil {
			_ = unix.Kill(-t.pid, unix.SIGKILL)
			_, _ = proc.Wait()
			outcome <- apparatus("start bubblewrap", err)
			return
		}
		outcome <- nil
		c.end = t.reapBubblewrap(proc, lines)
	})
	if err := <-outcome; err != nil {
		<-c.exited
		_ = status.Close()
		t.release()
		return nil, err
	}
	c.pid, c.kill, c.pids, c.monitor = t.pid, t.kill, t.pids, t.monitor
	c.terminate, c.overMemory = t.terminateRest, t.overMemory
	c.release = func() {
		_ = status.Close()
		t.release()
	}
	return c, nil
}

// bwrapFilter is the filter as a stream to read. It is far smaller than the
// room of a pipe, so that writing it cannot block.
func (s *spec) bwrapFilter() (*os.File, error) {
	prog, err := filterFor(filterPlan{ownNet: s.profile.Egress.denied(), tcpOnly: s.profile.Egress.proxied(), noUnix: s.closesUnix(), nestedUsers: s.profile.NestedUserNamespaces})
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	_, err = w.Write(unsafe.Slice((*byte)(unsafe.Pointer(&prog[0])), len(prog)*int(unsafe.Sizeof(prog[0]))))
	if err = errors.Join(err, w.Close()); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// awaitChild reads until bubblewrap says that the boundary stands and the
// command is its child's: the first process of the namespace, which only waits. It
// returns that one's id.
func awaitChild(lines *bufio.Reader) (int, error) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return 0, errors.New("bubblewrap ended before it had a child")
		}
		var st bwrapStatus
		if json.Unmarshal(line, &st) == nil && st.ChildPID != nil {
			return *st.ChildPID, nil
		}
	}
}

// reapBubblewrap waits for the end and takes the command's status from the
// channel.
func (t *tree) reapBubblewrap(proc *os.Process, lines *bufio.Reader) ending {
	e := t.reap(proc)
	for {
		line, err := lines.ReadBytes('\n')
		var st bwrapStatus
		if json.Unmarshal(line, &st) == nil && st.ExitCode != nil {
			var signal int
			e.code, signal = bwrapEnd(*st.ExitCode)
			e.signal, e.cap = "", ""
			if signal != 0 {
				e.signal = unix.SignalName(syscall.Signal(signal))
				if syscall.Signal(signal) == unix.SIGXCPU {
					e.cap = CapCPU
				}
			}
		}
		if err != nil {
			return e
		}
	}
}

// probeBubblewrap runs the exact command line of a real command, with a write
// that must be refused as its payload.
func probeBubblewrap(h *Host) error {
	if os.Geteuid() == 0 && tryBubblewrap(h, true) == nil {
		return nil
	}
	return tryBubblewrap(h, false)
}

func tryBubblewrap(h *Host, asRoot bool) error {
	path, err := ResolveTrusted("bwrap")
	if err != nil {
		return errors.New("bwrap is not installed")
	}
	dir, remove, err := NewTemp()
	if err != nil {
		return err
	}
	defer remove()
	temp := filepath.Join(dir, "t")
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	host := *h
	host.BubblewrapPath = path
	// In a user namespace root loses its rights on files that belong to others, so
	// it does without where it may.
	host.bwrapAsRoot = asRoot
	sh, err := Resolve("sh", "/", os.Environ())
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	marker := newMarker()
	s := &spec{
		argv: []string{"sh", "-c", `: > "$1"`, "sh", filepath.Join(dir, "probe")}, path: sh, dir: "/", temp: temp, marker: marker,
		env: []string{"PATH=/usr/bin:/bin", marker}, files: []*os.File{null, null, null}, host: host, rung: RungBubblewrap,
	}
	c, err := launchBubblewrap(s, &Applied{})
	if err != nil {
		return err
	}
	<-c.exited
	c.release()
	if _, err := os.Stat(filepath.Join(dir, "probe")); err == nil {
		return errors.New("a write that should be refused was not")
	}
	if c.end.code == 0 {
		return errors.New("the probe said that a refused write succeeded")
	}
	h.BubblewrapPath, h.bwrapAsRoot = path, asRoot
	return nil
}
