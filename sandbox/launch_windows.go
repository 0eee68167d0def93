package sandbox

import (
	"errors"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// launch starts s without a window, in a group of its own, and under the job rungs in
// a job that it is in before its first instruction.
func launch(s *spec, a *Applied) (*child, error) {
	if err := checkBatch(s.path, s.argv[1:]); err != nil {
		return nil, err
	}
	apparatus := func(op string, err error) error {
		return &Error{Kind: ErrApparatus, Op: op, Program: s.argv[0], Rung: s.rung, Err: err}
	}
	j, err := newJob(s)
	if err != nil && s.rung != RungNone {
		return nil, apparatus("make job", err)
	}
	if j == nil {
		a.Kill = KillGroup
	}
	var box *container
	if s.rung == RungAppContainer {
		if box, err = openContainer(s); err != nil {
			j.close()
			return nil, apparatus("make container", err)
		}
	}
	proc, err := spawn(s, j.object(), box)
	if err != nil {
		j.close()
		var refused *os.PathError
		if errors.As(err, &refused) { // the program's own fault, or its directory's
			return nil, startError(s, err)
		}
		return nil, apparatus("prepare start", err)
	}
	c := &child{
		pid:       proc.pid,
		exited:    make(chan struct{}),
		pids:      func() []int { return j.pids(proc.pid) },
		release:   func() {},
		monitor:   func(Limits, <-chan struct{}) <-chan Cap { return nil },
		terminate: func() {}, // without a console there is nothing to ask with
		kill: func() bool {
			left := j.occupied()
			proc.kill()
			j.close()
			return left
		},
	}
	go func() {
		defer close(c.exited)
		c.end = proc.wait()
		if c.end.code != 0 {
			c.end.cap = j.ceiling()
		}
		c.end.leftover = j.occupied()
		j.close() // ends whatever is left
	}()
	return c, nil
}

// job is a job object; nil on the floor, where its methods do nothing. A command that
// is not contained has one as well: to end what it started, and for nothing else.
type job struct {
	plan jobPlan

	mu     sync.Mutex
	handle windows.Handle // 0 once closed
}

func newJob(s *spec) (*job, error) {
	limits := s.profile.Limits
	switch s.rung {
	case RungJobObject, RungAppContainer:
	case RungNone:
		limits = Limits{}
	default:
		return nil, nil
	}
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	j := &job{plan: planJob(limits), handle: h}
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	basic := &info.BasicLimitInformation
	basic.LimitFlags = windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
	if j.plan.userTicks > 0 {
		basic.LimitFlags |= windows.JOB_OBJECT_LIMIT_JOB_TIME
		basic.PerJobUserTimeLimit = j.plan.userTicks
	}
	if j.plan.memory > 0 {
		basic.LimitFlags |= windows.JOB_OBJECT_LIMIT_PROCESS_MEMORY
		info.ProcessMemoryLimit = uintptr(j.plan.memory)
	}
	if j.plan.processes > 0 {
		basic.LimitFlags |= windows.JOB_OBJECT_LIMIT_ACTIVE_PROCESS
		basic.ActiveProcessLimit = j.plan.processes
	}
	_, err = windows.SetInformationJobObject(h, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

// object is the handle of the job, 0 on the floor.
func (j *job) object() windows.Handle {
	if j == nil {
		return 0
	}
	return j.handle
}

// pids are the processes in the job, main first.
func (j *job) pids(main int) []int {
	out := []int{main}
	if j == nil {
		return out
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle == 0 {
		return out
	}
	// JOBOBJECT_BASIC_PROCESS_ID_LIST, with room for more than a command has.
	var list struct {
		assigned, listed uint32
		ids              [1024]uintptr
	}
	err := windows.QueryInformationJobObject(j.handle, windows.JobObjectBasicProcessIdList, uintptr(unsafe.Pointer(&list)), uint32(unsafe.Sizeof(list)), nil)
	if err != nil && !errors.Is(err, windows.ERROR_MORE_DATA) {
		return out
	}
	for _, id := range list.ids[:min(int(list.listed), len(list.ids))] {
		if int(id) != main {
			out = append(out, int(id))
		}
	}
	return out
}

// close ends every process in the job.
func (j *job) close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle != 0 {
		_ = windows.CloseHandle(j.handle)
		j.handle = 0
	}
}

// accounting is the kernel's JOBOBJECT_BASIC_ACCOUNTING_INFORMATION.
type accounting struct {
	TotalUserTime, TotalKernelTime                     int64
	ThisPeriodTotalUserTime, ThisPeriodTotalKernelTime int64
	TotalPageFaultCount, TotalProcesses                uint32
	ActiveProcesses, TotalTerminatedProcesses          uint32
}

// query reads the accounting and the peak of committed memory.
func (j *job) query() (accounting, uint64, bool) {
	var acc accounting
	var info windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION
	if j == nil {
		return acc, 0, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.handle == 0 {
		return acc, 0, false
	}
	const basicAccounting = 1
	if windows.QueryInformationJobObject(j.handle, basicAccounting, uintptr(unsafe.Pointer(&acc)), uint32(unsafe.Sizeof(acc)), nil) != nil {
		return acc, 0, false
	}
	if windows.QueryInformationJobObject(j.handle, windows.JobObjectExtendedLimitInformation, uintptr(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)), nil) != nil {
		return acc, 0, false
	}
	return acc, uint64(info.PeakProcessMemoryUsed), true
}

func (j *job) ceiling() Cap {
	acc, peak, ok := j.query()
	if !ok {
		return ""
	}
	return j.plan.capOf(jobUse{userTicks: acc.TotalUserTime, peakMemory: peak, processes: acc.TotalProcesses})
}

func (j *job) occupied() bool {
	acc, _, ok := j.query()
	return ok && acc.ActiveProcesses > 0
}

func probeHost(h *Host) {
	j, err := newJob(&spec{rung: RungJobObject})
	j.close()
	h.JobObject = works(err)
	h.AppContainer = Feature{Why: "not asked for, so not tried"}
}

func (s *spec) killScope(r Rung) KillScope {
	if r == RungFloor {
		return KillGroup
	}
	return KillJob
}

func (s *spec) holds(c Cap, r Rung) bool {
	return c == CapWall || (r == RungJobObject || r == RungAppContainer) && c != CapOpenFiles
}
