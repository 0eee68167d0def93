package sandbox

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// commonRefused are the calls that every known architecture has and that no
// build or test needs: they reach other processes, the kernel or the mounts.
var commonRefused = []int32{
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_SETNS,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT,
	unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY, unix.SYS_USERFAULTFD,
	unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_REBOOT, unix.SYS_ACCT,
	unix.SYS_PIDFD_GETFD,
}

// commonUnknown are refused as if the kernel were older. The ring can open
// sockets without the call that is filtered.
var commonUnknown = []int32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// filters are the programs that were built, by their plans: there are few plans,
// and nobody changes a program.
var filters sync.Map

// filterFor is the program for one command, or the reason why there is none.
func filterFor(p filterPlan) ([]unix.SockFilter, error) {
	if hostCalls.arch == 0 {
		return nil, errors.New("no table of system calls for this architecture")
	}
	if built, ok := filters.Load(p); ok {
		return built.([]unix.SockFilter), nil
	}
	ops := buildFilter(hostCalls, p)
	out := make([]unix.SockFilter, len(ops))
	for i, o := range ops {
		out[i] = unix.SockFilter{Code: o.code, Jt: o.jt, Jf: o.jf, K: o.k}
	}
	filters.Store(p, out)
	return out, nil
}

// probeSeccomp loads a filter on a throw-away thread and looks whether a call
// gets the filter's answer instead of the kernel's.
func probeSeccomp() error {
	prog, err := filterFor(filterPlan{})
	if err != nil {
		return err
	}
	result := make(chan error, 1)
	go onScratchThread(true, func() {
		if err := noNewPrivs(); err != nil {
			result <- err
			return
		}
		if err := loadFilter(prog); err != nil {
			result <- err
			return
		}
		_, _, e := unix.RawSyscall(unix.SYS_CLONE3, 0, 0, 0)
		if e != unix.ENOSYS {
			result <- fmt.Errorf("a filtered call answered %v", e)
			return
		}
		result <- nil
	})
	return <-result
}
