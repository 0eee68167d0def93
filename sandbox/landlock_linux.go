package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/initorigin/io-harness-go/sandbox/internal/shim"
)

// newRuleset builds p in the kernel. The library is told exactly what to
// handle and never to make do with less, so that what is recorded is what
// holds.
func newRuleset(p landlockPlan) (fd int, flags uint32, err error) {
	cfg := landlock.Config{
		HandledAccessFS:  landlock.AccessFSSet(p.fs),
		HandledAccessNet: landlock.AccessNetSet(p.net),
		Scoped:           landlock.ScopedSet(p.scope),
	}
	var rules []landlock.Rule
	for _, r := range p.rules {
		// The plan may name what is not there, or has gone since.
		rules = append(rules, landlock.PathAccess(landlock.AccessFSSet(r.rights), r.path).IgnoreIfMissing())
	}
	if p.connect != 0 {
		rules = append(rules, landlock.ConnectTCP(p.connect))
	}
	fd, flags, err = cfg.NewRulesetFD(rules...)
	if err == nil && fd < 0 {
		err = errors.New("the ruleset restricts nothing")
	}
	return fd, flags, err
}

// landlockInfo asks the kernel for one of its numbers about Landlock: flag 1 is
// the version, flag 2 the mask of fixed faults.
func landlockInfo(flag uint) (int, error) {
	n, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, uintptr(flag))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

func restrictSelf(fd int, flags uint32) error {
	return ll.LandlockRestrictSelf(fd, flags)
}

// probeLandlock restricts a throw-away thread for real and looks whether a
// write that must be refused is refused.
func probeLandlock(h *Host) error {
	abi, err := landlockInfo(1)
	if err != nil {
		return fmt.Errorf("the kernel has none: %w", err)
	}
	h.LandlockABI = abi
	h.LandlockErrata, _ = landlockInfo(2) // older kernels have no such question
	dir, remove, err := NewTemp()
	if err != nil {
		return err
	}
	defer remove()
	p := planLandlock(&spec{}, abi, h.LandlockErrata, listHost)
	fd, flags, err := newRuleset(p)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	result := make(chan error, 1)
	go onScratchThread(true, func() {
		if err := noNewPrivs(); err != nil {
			result <- err
			return
		}
		if err := restrictSelf(fd, flags); err != nil {
			result <- err
			return
		}
		f, err := os.Create(dir + "/probe")
		if err == nil {
			_ = f.Close()
			result <- errors.New("a write that should be refused was not")
			return
		}
		if !errors.Is(err, unix.EACCES) {
			result <- err
			return
		}
		result <- nil
	})
	return <-result
}

func noNewPrivs() error {
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}

// lastCap is above every capability that a kernel may know.
const lastCap = 63

// dropCapabilities bounds what the calling thread can hand to a child. Root
// keeps the few of shim.KeptByRoot; every other user keeps none.
func dropCapabilities() error {
	root := unix.Geteuid() == 0
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if !root && data[0].Permitted|data[1].Permitted|data[0].Inheritable|data[1].Inheritable == 0 {
		return nil // nothing to lose, and no_new_privs keeps it so
	}
	bounded := true
	for c := uintptr(0); c <= lastCap; c++ {
		if root && shim.KeptByRoot(c) {
			continue
		}
		// Dropping one that is gone already does no harm, and asking first would take
		// another call for each.
		switch err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); {
		case err == nil:
			continue
		case errors.Is(err, unix.EINVAL): // the kernel knows no higher one
		case root && !errors.Is(err, unix.EPERM):
			return fmt.Errorf("drop capability %d: %w", c, err)
		default:
			bounded = false // without the right to drop
		}
		break
	}
	if !root {
		data = [2]unix.CapUserData{}
	} else {
		data[0].Inheritable, data[1].Inheritable = 0, 0
	}
	if root && !bounded {
		// Such as a root that another sandbox contains. Under no_new_privs a program
		// gets no capability that the thread has not, whatever the bound.
		for c := range uintptr(64) {
			if !shim.KeptByRoot(c) {
				data[c/32].Permitted &^= 1 << (c % 32)
			}
		}
		data[0].Effective, data[1].Effective = data[0].Permitted, data[1].Permitted
	}
	if err := unix.Capset(&hdr, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	return nil
}

// loadFilter installs a seccomp program on the calling thread only.
func loadFilter(prog []unix.SockFilter) error {
	if len(prog) == 0 {
		return nil
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	_, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	if e != 0 {
		return fmt.Errorf("install system call filter: %w", e)
	}
	return nil
}
