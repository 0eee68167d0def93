package sandbox

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/initorigin/io-harness-go/sandbox/internal/shim"
)

// startWithin is how long the helper may take to report. Before it can, the
// packages of the host program that it is built from initialise.
const startWithin = 10 * time.Second

// maxRelays are the connections to the proxy that are carried at one time; more
// wait. Each takes descriptors of this process, of which the command must not be
// able to take all.
const maxRelays = 256

// launchNamespaces starts s in fresh namespaces. The first process there is
// this executable again, as the shim; its end is the end of all others.
func launchNamespaces(s *spec, a *Applied) (*child, error) {
	apparatus := func(op string, err error) error {
		return &Error{Kind: ErrApparatus, Op: op, Program: first(s.argv), Rung: s.rung, Err: err}
	}
	order, ruleset, err := s.order()
	if err != nil {
		return nil, apparatus("build boundary", err)
	}
	if ruleset >= 0 {
		defer unix.Close(ruleset)
	}
	h := &helper{tree: &tree{marker: s.marker, sure: true}}
	if err := h.makeGroup(s); err != nil { // the namespace kills without it; the group only counts
		return nil, err
	}
	fail := func(err error) (*child, error) {
		h.tree.release()
		return nil, err
	}
	outcome := make(chan error, 1)
	c := &child{exited: make(chan struct{})}
	go onScratchThread(false, func() {
		defer close(c.exited)
		if err := h.start(s, order, ruleset); err != nil {
			outcome <- err
			return
		}
		outcome <- nil
		c.end = h.collect()
	})
	if err := <-outcome; err != nil {
		<-c.exited
		var e *Error
		if errors.As(err, &e) {
			return fail(err)
		}
		return fail(apparatus("start helper", err))
	}
	if h.listener != nil {
		h.forward(s.profile.Egress.Proxy)
	}
	c.pid, c.kill, c.pids, c.monitor = h.pid, h.kill, h.pids, h.tree.monitor
	c.release, c.terminate, c.overMemory = h.release, h.terminateRest, h.overMemory
	return c, nil
}

// helper is a running shim.
type helper struct {
	*tree
	proc     *os.Process
	sock     *os.File
	listener net.Listener // on the private loopback, when there is a proxy
	relays   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil once released
}

// order is what the shim is told, and the ruleset that goes with it.
func (s *spec) order() (*shim.Order, int, error) {
	writable := append(slices.Clone(s.roots), s.temp)
	slices.Sort(writable) // a directory sorts before what is in it
	o := &shim.Order{
		Token:     rand.Text(),
		Writable:  slices.Compact(writable),
		Temp:      s.temp,
		Mask:      s.denied,
		Protect:   s.protected(),
		Shm:       s.profile.Mode != ReadOnly,
		AsRoot:    s.host.asRoot,
		OwnNet:    !s.profile.Egress.Open,
		OpenFiles: s.profile.Limits.OpenFiles,
		Path:      s.path,
		Dir:       s.dir,
		Argv:      s.argv,
		Env:       s.env,
	}
	if s.profile.Egress.proxied() {
		o.Listen = s.profile.Egress.Proxy.Port()
	}
	if cpu := s.profile.Limits.CPU; cpu > 0 {
		o.CPUSeconds = uint64((cpu + time.Second - 1) / time.Second)
	}
	if s.host.Seccomp.Works {
		prog, err := filterFor(filterPlan{ownNet: o.OwnNet, noUnix: s.closesUnix(), nestedUsers: s.profile.NestedUserNamespaces})
		if err != nil {
			return nil, -1, err
		}
		o.Filter = unsafe.Slice((*byte)(unsafe.Pointer(&prog[0])), len(prog)*int(unsafe.Sizeof(prog[0])))
	}
	if !s.host.Landlock.Works {
		return o, -1, nil
	}
	// The mounts hide what must not be read and the network is the command's own,
	// so Landlock has neither to do: it holds the writes a second time, and the
	// signals.
	inner := *s
	inner.denied = nil
	plan := planLandlock(&inner, s.host.LandlockABI, s.host.LandlockErrata, listHost)
	plan.net, plan.connect = 0, 0
	fd, flags, err := newRuleset(plan)
	if err != nil {
		return nil, -1, err
	}
	o.Ruleset, o.RulesetFlags = true, flags
	o.ShmRights = plan.writeRights()
	return o, fd, nil
}

// start runs the shim and waits for its word. It runs on the thread whose end
// would kill it.
func (h *helper) start(s *spec, o *shim.Order, ruleset int) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	h.sock = os.NewFile(uintptr(pair[0]), "shim")
	theirs := os.NewFile(uintptr(pair[1]), "shim")
	defer theirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	files := []*os.File{null, null, null, theirs, null, null, null}
	copy(files[shim.FDStdin:], s.files)
	if ruleset >= 0 {
		dup, err := unix.FcntlInt(uintptr(ruleset), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(dup), "ruleset")
		defer f.Close()
		files = append(files, f)
	}
	sys := &syscall.SysProcAttr{
		Setsid:     true,
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
	}
	if o.OwnNet {
		sys.Cloneflags |= unix.CLONE_NEWNET
	}
	if !o.AsRoot {
		uid, gid := os.Geteuid(), os.Getegid()
		sys.Cloneflags |= unix.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		// An ordinary user loses the rights in its new namespace at the start of a
		// program, unless they are ambient.
		sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	}
	h.proc, err = os.StartProcess("/proc/self/exe", []string{shim.Arg0}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{shim.Env + "=" + o.Token},
		Files: onlyThese(files),
		Sys:   sys,
	})
	if err != nil {
		_ = h.sock.Close()
		return err
	}
	h.pid, h.born = h.proc.Pid, time.Now()
	h.helpers = []int{h.pid}
	if h.group != nil {
		if err = h.group.add(h.pid); err != nil && s.profile.Cgroup == "" {
			h.group.remove()
			h.group, err = nil, nil
		}
	}
	_ = theirs.Close()
	if err == nil {
		err = h.greet(s, o)
	}
	if err != nil {
		_ = h.proc.Kill()
		_, _ = h.proc.Wait()
		_ = h.sock.Close()
		return err
	}
	return nil
}

// greet sends the order and reads the answer.
func (h *helper) greet(s *spec, o *shim.Order) error {
	fd := int(h.sock.Fd())
	within := unix.NsecToTimeval(startWithin.Nanoseconds())
	for _, opt := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, opt, &within); err != nil {
			return err
		}
	}
	b := o.Encode()
	b = append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("send the order: %w", err)
		}
		b = b[n:]
	}
	kind, body, passed, err := readMessage(fd)
	if err != nil {
		return fmt.Errorf("the helper gave no answer: %w", err)
	}
	if passed >= 0 {
		f := os.NewFile(uintptr(passed), "listener")
		h.listener, err = net.FileListener(f)
		_ = f.Close()
		if err != nil {
			return err
		}
	}
	switch kind {
	case shim.MsgStarted:
		if s.profile.Egress.proxied() && h.listener == nil {
			return errors.New("the helper sent no listener")
		}
		never := unix.Timeval{}
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &never)
	case shim.MsgFailed:
		return startError(s, &os.PathError{Op: "exec", Path: s.path, Err: syscall.Errno(binary.BigEndian.Uint32(body))})
	case shim.MsgBroken:
		return fmt.Errorf("%s: %w", body[4:], syscall.Errno(binary.BigEndian.Uint32(body)))
	}
	return fmt.Errorf("the helper sent %q", kind)
}

// readMessage reads one message of the shim, and the descriptor beside it.
func readMessage(fd int) (kind byte, body []byte, passed int, err error) {
	passed = -1
	head := make([]byte, 9)
	oob := make([]byte, unix.CmsgSpace(4))
	got := 0
	for got < len(head) {
		n, oobn, _, _, err := unix.Recvmsg(fd, head[got:], oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, nil, passed, err
		}
		if n == 0 {
			return 0, nil, passed, io.ErrUnexpectedEOF
		}
		got += n
		if oobn > 0 {
			if msgs, err := unix.ParseSocketControlMessage(oob[:oobn]); err == nil && len(msgs) == 1 {
				if fds, err := unix.ParseUnixRights(&msgs[0]); err == nil && len(fds) == 1 {
					passed = fds[0]
				}
			}
		}
	}
	size := binary.BigEndian.Uint64(head[1:])
	const most = 64 << 10
	if size > most {
		return 0, nil, passed, fmt.Errorf("a message of %d bytes", size)
	}
	body = make([]byte, size)
	for off := 0; off < len(body); {
		n, err := unix.Read(fd, body[off:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, nil, passed, err
		}
		if n == 0 {
			return 0, nil, passed, io.ErrUnexpectedEOF
		}
		off += n
	}
	if (head[0] == shim.MsgFailed || head[0] == shim.MsgBroken) && len(body) < 4 {
		return 0, nil, passed, io.ErrUnexpectedEOF
	}
	return head[0], body, passed, nil
}

// collect waits for the command's end. Without a last word from the shim it was
// killed, and the command with it.
func (h *helper) collect() ending {
	kind, body, _, err := readMessage(int(h.sock.Fd()))
	h.awaitEnd()
	h.markReaped()
	_, _ = h.proc.Wait()
	_ = h.sock.Close()
	if err != nil || kind != shim.MsgEnded || len(body) < 17 {
		return ending{code: -1, signal: unix.SignalName(unix.SIGKILL)}
	}
	ws := unix.WaitStatus(binary.BigEndian.Uint64(body))
	e := ending{
		code:     ws.ExitStatus(),
		cpu:      time.Duration(binary.BigEndian.Uint64(body[8:])) * time.Microsecond,
		leftover: body[16] == 1,
	}
	if ws.Signaled() {
		e.code, e.signal = -1, unix.SignalName(ws.Signal())
		if ws.Signal() == unix.SIGXCPU {
			e.cap = CapCPU
		}
	}
	return e
}

// kill ends the shim, which ends the namespace: nothing can be left to be found.
func (h *helper) kill() bool {
	h.tree.mu.Lock()
	defer h.tree.mu.Unlock()
	if !h.reaped {
		_ = unix.Kill(h.pid, unix.SIGKILL)
	}
	return false
}

// forward carries connections from the private loopback to the proxy, which
// listens on the host's at the same port.
func (h *helper) forward(proxy netip.AddrPort) {
	h.conns = map[net.Conn]bool{}
	slots := make(chan struct{}, maxRelays)
	h.relays.Go(func() {
		for {
			slots <- struct{}{}
			in, err := h.listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				// Out of descriptors, as a rule: what is open must close first.
				<-slots
				time.Sleep(50 * time.Millisecond)
				continue
			}
			h.relays.Go(func() {
				defer func() { <-slots }()
				h.relay(in, proxy)
			})
		}
	})
}

func (h *helper) relay(in net.Conn, proxy netip.AddrPort) {
	defer h.forget(in)
	if !h.remember(in) {
		return
	}
	out, err := net.DialTimeout("tcp", proxy.String(), startWithin)
	if err != nil {
		return
	}
	defer h.forget(out)
	if !h.remember(out) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			if _, err := io.Copy(way[0], way[1]); err != nil {
				_ = way[0].Close()
				return
			}
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	both.Wait()
}

func (h *helper) remember(c net.Conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns == nil {
		return false
	}
	h.conns[c] = true
	return true
}

func (h *helper) forget(c net.Conn) {
	_ = c.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

func (h *helper) release() {
	if h.listener != nil {
		_ = h.listener.Close()
		h.mu.Lock()
		for c := range h.conns {
			_ = c.Close()
		}
		h.conns = nil
		h.mu.Unlock()
		h.relays.Wait()
	}
	h.tree.release()
}

// probeNamespaces looks how the rung can be had. Root does without a user
// namespace where it may: inside one it would lose its rights on files that
// belong to others, such as a workspace that was mounted into a container.
func probeNamespaces(h *Host) Feature {
	if os.Geteuid() == 0 {
		h.asRoot = true
		if tryNamespaces(h) == nil {
			return Feature{Works: true}
		}
		h.asRoot = false
	}
	return works(tryNamespaces(h))
}

// tryNamespaces lets the helper build a boundary for nothing and look whether a
// write is refused in it.
func tryNamespaces(h *Host) error {
	if unix.Getuid() != unix.Geteuid() || unix.Getgid() != unix.Getegid() {
		return errors.New("this program runs with rights that are not its caller's")
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
	s := &spec{temp: temp, dir: "/", host: *h, rung: RungNamespaces}
	o, ruleset, err := s.order()
	if err != nil {
		return err
	}
	if ruleset >= 0 {
		defer unix.Close(ruleset)
	}
	o.Probe = filepath.Join(dir, "probe")
	result := make(chan error, 1)
	go onScratchThread(false, func() {
		p := &helper{tree: &tree{}}
		null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err != nil {
			result <- err
			return
		}
		defer null.Close()
		s.files = []*os.File{null, null, null}
		if err := p.start(s, o, ruleset); err != nil {
			result <- err
			return
		}
		p.collect()
		result <- nil
	})
	if err := <-result; err != nil {
		return err
	}
	if _, err := os.Stat(o.Probe); err == nil {
		return errors.New("a write that should be refused was not")
	}
	return nil
}
