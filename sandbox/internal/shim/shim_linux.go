package shim

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// init turns this process into the shim when it was started as one. Three
// things must agree that it was: its name, the variable, and the token that
// comes over a socket. Otherwise the program goes on as if nothing were here.
func init() {
	token, ok := syscall.Getenv(Env)
	if !ok || token == "" || len(os.Args) != 1 || os.Args[0] != Arg0 {
		return
	}
	if _, err := unix.GetsockoptInt(FDSocket, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return
	}
	o, err := receive()
	if err != nil || o.Token != token {
		return
	}
	runtime.LockOSThread() // the death signal and the restrictions belong to this thread
	// Straight to the kernel: what the host program hangs on an ordinary exit is
	// not for here.
	unix.Exit(run(o))
}

// exitBroken is the status of a shim that could not do its work. What happened
// is in its message.
const exitBroken = 125

// receive reads one order: its length and then it.
func receive() (*Order, error) {
	var size [4]byte
	if err := readFull(size[:]); err != nil {
		return nil, err
	}
	n := uint32(size[0])<<24 | uint32(size[1])<<16 | uint32(size[2])<<8 | uint32(size[3])
	const most = 16 << 20 // argv and environment together are bounded by the kernel well below
	if n > most {
		return nil, errShort
	}
	b := make([]byte, n)
	if err := readFull(b); err != nil {
		return nil, err
	}
	return Decode(b)
}

func readFull(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(FDSocket, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errShort
		}
		b = b[n:]
	}
	return nil
}

// step is one thing the shim does, named for the report of its failure.
type step struct {
	what string
	do   func() error
}

func run(o *Order) int {
	listener := -1
	var locked []string
	var taken []device
	steps := []step{
		{"close the way for descriptors", func() error {
			return unix.CloseRange(FDSocket, 1<<32-1, unix.CLOSE_RANGE_CLOEXEC)
		}},
		{"keep the mounts to itself", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"look at the mounts", func() (err error) { locked, err = readOnlyMounts(o.Writable); return err }},
		{"bind the writable directories", func() error { return bindAll(o.Writable) }},
		{"mount /proc", func() error {
			return unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		}},
		{"take the devices", func() (err error) { taken, err = takeDevices(); return err }},
		{"make everything read-only", closeAll},
		{"make the writable directories writable", func() error { return reopen(o, locked) }},
		{"mount /dev", func() error { return mountDevices(taken, o.Shm) }},
		// In this order: what lies in something hidden cannot be found any more.
		{"protect paths in the workspace", func() error { return protect(o.Protect) }},
		{"hide what must not be read", func() error { return hide(o) }},
		{"bring the loopback up", func() error { return loopback(o.OwnNet) }},
		{"listen for the proxy", func() (err error) { listener, err = listen(o.Listen); return err }},
		{"limit processor time", func() error { return limit(unix.RLIMIT_CPU, o.CPUSeconds) }},
		{"limit open files", func() error { return limit(unix.RLIMIT_NOFILE, o.OpenFiles) }},
		{"drop capabilities", func() error { return drop(o.AsRoot) }},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"restrict files", func() error { return restrict(o) }},
		{"restrict system calls", func() error { return loadFilter(o.Filter) }},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			send(MsgBroken, append(errno(err), s.what...), -1)
			return exitBroken
		}
	}
	if o.Probe != "" {
		return probe(o.Probe)
	}
	pid, err := syscall.ForkExec(o.Path, o.Argv, &syscall.ProcAttr{
		Dir:   o.Dir,
		Env:   o.Env,
		Files: []uintptr{FDStdin, FDStdout, FDStderr},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		send(MsgFailed, errno(err), -1)
		return exitBroken
	}
	// Our copies of the streams must not keep them open beyond the command.
	for _, fd := range []int{FDStdin, FDStdout, FDStderr} {
		_ = unix.Close(fd)
	}
	send(MsgStarted, nil, listener)
	return collect(pid)
}

// collect reaps until the command has ended. The end of this process is then
// the end of all others in the namespace.
func collect(pid int) int {
	for {
		var ws unix.WaitStatus
		var use unix.Rusage
		got, err := unix.Wait4(-1, &ws, 0, &use)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return exitBroken
		}
		if got != pid || !ws.Exited() && !ws.Signaled() {
			continue
		}
		var e encoder
		e.number(uint64(ws))
		e.number(uint64(use.Utime.Sec+use.Stime.Sec)*1e6 + uint64(use.Utime.Usec+use.Stime.Usec))
		e.flag(othersLive())
		send(MsgEnded, e.b, -1)
		return 0
	}
}

// othersLive reports whether something of the command's still runs. The dead that
// nobody waited for came to this process with the end of the command, and would be
// taken for living.
func othersLive() bool {
	for {
		got, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			break
		}
	}
	return unix.Kill(-1, 0) == nil
}

// probe looks whether a write that must be refused is refused.
func probe(path string) int {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		_ = unix.Close(fd)
		_ = unix.Unlink(path)
		send(MsgBroken, append(errno(unix.ENOTRECOVERABLE), "refuse a write"...), -1)
		return exitBroken
	}
	send(MsgStarted, nil, -1)
	return 0
}

func errno(err error) []byte {
	n, _ := err.(syscall.Errno)
	return []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

// send writes a message: its kind, its length and its body, with a descriptor
// beside it when there is one. There is nobody to tell of a failure.
func send(kind byte, body []byte, fd int) {
	var e encoder
	e.b = append(e.b, kind)
	e.number(uint64(len(body)))
	e.b = append(e.b, body...)
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	_ = unix.Sendmsg(FDSocket, e.b, rights, nil, unix.MSG_NOSIGNAL)
}

// restrict adds Landlock to the mounts, where the parent built a ruleset.
func restrict(o *Order) error {
	if !o.Ruleset {
		return nil
	}
	if o.Shm && o.ShmRights != 0 {
		// What is mounted over a granted directory hides the grant.
		if err := grant("/dev/shm", o.ShmRights); err != nil {
			return err
		}
	}
	_, _, e := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, FDRuleset, uintptr(o.RulesetFlags), 0)
	if e != 0 {
		return e
	}
	return nil
}

// grant adds a rule to the ruleset. The kernel's structure is packed: eight
// bytes of rights and four of a descriptor.
func grant(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var attr [12]byte
	parent := int32(fd)
	copy(attr[:8], (*[8]byte)(unsafe.Pointer(&rights))[:])
	copy(attr[8:], (*[4]byte)(unsafe.Pointer(&parent))[:])
	_, _, e := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, FDRuleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr[0])), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// filterOp is the size of one instruction in the kernel's format.
const filterOp = 8

func loadFilter(prog []byte) error {
	if len(prog) == 0 {
		return nil
	}
	if len(prog)%filterOp != 0 {
		return unix.EINVAL
	}
	// Aligned as the kernel's type is.
	ops := make([]unix.SockFilter, len(prog)/filterOp)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&ops[0])), len(prog)), prog)
	f := unix.SockFprog{Len: uint16(len(ops)), Filter: &ops[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&f)))
	if e != 0 {
		return e
	}
	return nil
}

// limit lowers a limit of this process, and so of the command. Through package
// syscall: it would otherwise restore the descriptor limit at the start of the
// command.
func limit(resource int, value uint64) error {
	if value == 0 {
		return nil
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(resource, &old); err != nil {
		return err
	}
	hard := min(old.Max, value+1)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: min(value, hard), Max: hard})
}

// lastCap is above every capability that a kernel may know.
const lastCap = 63

// KeptByRoot reports whether a command of root keeps a capability: those that
// builds use on files and accounts of their own, and none that reaches the
// system.
func KeptByRoot(c uintptr) bool {
	switch c {
	case unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID,
		unix.CAP_KILL, unix.CAP_SETGID, unix.CAP_SETUID:
		return true
	}
	return false
}

// drop leaves the command no capability, in whatever user it runs as, or as the
// real root those of KeptByRoot.
func drop(asRoot bool) error {
	for c := uintptr(0); c <= lastCap; c++ {
		if asRoot && KeptByRoot(c) {
			continue
		}
		in, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0)
		if err != nil {
			break // the kernel knows no higher one
		}
		if in == 1 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if asRoot {
		// At the start of the command the kernel makes its set from the bounding
		// one; this process keeps no more meanwhile.
		if err := unix.Capget(&hdr, &sets[0]); err != nil {
			return err
		}
		var kept [2]uint32
		for c := uintptr(0); c <= lastCap; c++ {
			if KeptByRoot(c) {
				kept[c/32] |= 1 << (c % 32)
			}
		}
		for i := range sets {
			sets[i].Permitted &= kept[i]
			sets[i].Effective = sets[i].Permitted
			sets[i].Inheritable = 0
		}
	}
	return unix.Capset(&hdr, &sets[0])
}
