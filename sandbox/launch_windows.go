package sandbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// launch starts s without a window, in a group of its own, and under the job
// rung in a job that it is in before its first instruction.
func launch(s *spec, a *Applied) (*child, error) {
	if err := checkBatch(s.path, s.argv[1:]); err != nil {
		return nil, err
	}
	j, err := newJob(s)
	if err != nil {
		return nil, &Error{Kind: ErrApparatus, Op: "make job", Program: s.argv[0], Rung: s.rung, Err: err}
	}
	flags := uint32(windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP)
	if j != nil {
		flags |= windows.CREATE_SUSPENDED
	}
	proc, err := os.StartProcess(s.path, s.argv, &os.ProcAttr{
		Dir:   s.dir,
		Env:   s.env,
		Files: s.files,
		Sys:   &syscall.SysProcAttr{CreationFlags: flags},
	})
	if err != nil {
		j.close()
		return nil, startError(s, err)
	}
	if j != nil {
		if err := j.take(proc); err != nil {
			_ = proc.Kill()
			_, _ = proc.Wait()
			j.close()
			return nil, &Error{Kind: ErrApparatus, Op: "put into job", Program: s.argv[0], Rung: s.rung, Err: err}
		}
	}
	c := &child{
		pid:       proc.Pid,
		exited:    make(chan struct{}),
		pids:      func() []int { return []int{proc.Pid} },
		release:   func() {},
		monitor:   func(Limits, <-chan struct{}) <-chan Cap { return nil },
		terminate: func() {}, // without a console there is nothing to ask with
		kill: func() {
			_ = proc.Kill()
			j.close()
		},
	}
	go func() {
		defer close(c.exited)
		state, err := proc.Wait()
		if err != nil {
			c.end = ending{code: -1}
		} else {
			c.end = ending{code: state.ExitCode(), cpu: state.UserTime() + state.SystemTime()}
		}
		if c.end.code != 0 {
			c.end.cap = j.ceiling()
		}
		c.end.leftover = j.occupied()
		j.close() // ends whatever is left
	}()
	return c, nil
}

// job is a job object; nil on the floor, where its methods do nothing.
type job struct {
	plan jobPlan

	mu     sync.Mutex
	handle windows.Handle // 0 once closed
}

func newJob(s *spec) (*job, error) {
	if s.rung != RungJobObject {
		return nil, nil
	}
	h, err := windows.CreateJobObject(nil, nil)
	if err != nil {
		return nil, err
	}
	j := &job{plan: planJob(s.profile.Limits), handle: h}
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

// take puts a suspended process into the job and lets it run.
func (j *job) take(proc *os.Process) error {
	var failed error
	err := proc.WithHandle(func(h uintptr) {
		failed = windows.AssignProcessToJobObject(j.handle, windows.Handle(h))
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return resume(uint32(proc.Pid))
}

// resume wakes the threads of a process that was made suspended; it has one.
func resume(pid uint32) error {
	snap, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPTHREAD, 0)
	if err != nil {
		return err
	}
	defer windows.CloseHandle(snap)
	var e windows.ThreadEntry32
	e.Size = uint32(unsafe.Sizeof(e))
	woken := 0
	for err = windows.Thread32First(snap, &e); err == nil; err = windows.Thread32Next(snap, &e) {
		if e.OwnerProcessID != pid {
			continue
		}
		t, err := windows.OpenThread(windows.THREAD_SUSPEND_RESUME, false, e.ThreadID)
		if err != nil {
			return err
		}
		_, err = windows.ResumeThread(t)
		_ = windows.CloseHandle(t)
		if err != nil {
			return err
		}
		woken++
	}
	if woken == 0 {
		return fmt.Errorf("process %d has no thread to wake", pid)
	}
	return nil
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
	h.AppContainer = Feature{Why: "not built in this version"}
}

func (s *spec) killScope(r Rung) KillScope {
	if r == RungJobObject {
		return KillJob
	}
	return KillGroup
}

func (s *spec) holds(c Cap, r Rung) bool {
	return c == CapWall || r == RungJobObject && c != CapOpenFiles
}
