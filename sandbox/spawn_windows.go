package sandbox

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Attributes of a new process that golang.org/x/sys/windows does not name.
const (
	attributeSecurityCapabilities = 0x20009
	attributeJobList              = 0x2000D
)

// spawn starts the program of s with its three streams and no other handle, without
// a window and in a group of its own. With a job the process is in it before its
// first instruction; with a container it is inside that. An *os.PathError means that
// the system would not start the program; any other error, that it was not asked.
func spawn(s *spec, job windows.Handle, box *container) (*winProcess, error) {
	program, err := windows.UTF16PtrFromString(s.path)
	if err != nil {
		return nil, err
	}
	line, err := windows.UTF16PtrFromString(commandLine(s.path, s.argv))
	if err != nil {
		return nil, err
	}
	dir, err := windows.UTF16PtrFromString(s.dir)
	if err != nil {
		return nil, err
	}
	env := environmentBlock(s.env)

	// The copies that the child inherits can be inherited by any child that is made
	// meanwhile without a list of its own: this lock is the one that the standard
	// library's starts take.
	syscall.ForkLock.Lock()
	defer syscall.ForkLock.Unlock()
	streams := make([]windows.Handle, len(s.files))
	self := windows.CurrentProcess()
	defer func() {
		for _, h := range streams {
			if h != 0 {
				_ = windows.CloseHandle(h)
			}
		}
	}()
	for i, f := range s.files {
		if err := windows.DuplicateHandle(self, windows.Handle(f.Fd()), self, &streams[i], 0, true, windows.DUPLICATE_SAME_ACCESS); err != nil {
			return nil, os.NewSyscallError("DuplicateHandle", err)
		}
	}

	attributes, err := windows.NewProcThreadAttributeList(3)
	if err != nil {
		return nil, os.NewSyscallError("InitializeProcThreadAttributeList", err)
	}
	defer attributes.Delete()
	// The list keeps what it points to from being collected until Delete.
	if err := attributes.Update(windows.PROC_THREAD_ATTRIBUTE_HANDLE_LIST, unsafe.Pointer(&streams[0]), uintptr(len(streams))*unsafe.Sizeof(streams[0])); err != nil {
		return nil, os.NewSyscallError("UpdateProcThreadAttribute(handles)", err)
	}
	if job != 0 {
		jobs := &[1]windows.Handle{job}
		if err := attributes.Update(attributeJobList, unsafe.Pointer(jobs), unsafe.Sizeof(*jobs)); err != nil {
			return nil, os.NewSyscallError("UpdateProcThreadAttribute(job)", err)
		}
	}
	if box != nil {
		capabilities := box.capabilities()
		if err := attributes.Update(attributeSecurityCapabilities, unsafe.Pointer(capabilities), unsafe.Sizeof(*capabilities)); err != nil {
			return nil, os.NewSyscallError("UpdateProcThreadAttribute(capabilities)", err)
		}
	}

	start := windows.StartupInfoEx{ProcThreadAttributeList: attributes.List()}
	start.Cb = uint32(unsafe.Sizeof(start))
	start.Flags = windows.STARTF_USESTDHANDLES
	start.StdInput, start.StdOutput, start.StdErr = streams[0], streams[1], streams[2]
	const flags = windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP | windows.CREATE_UNICODE_ENVIRONMENT | windows.EXTENDED_STARTUPINFO_PRESENT
	var made windows.ProcessInformation
	err = windows.CreateProcess(program, line, nil, nil, true, flags, &env[0], dir, &start.StartupInfo, &made)
	runtime.KeepAlive(s.files)
	runtime.KeepAlive(box)
	if err != nil {
		return nil, &os.PathError{Op: "CreateProcess", Path: s.path, Err: err}
	}
	_ = windows.CloseHandle(made.Thread)
	return &winProcess{pid: int(made.ProcessId), handle: made.Process}, nil
}

// commandLine joins argv by the rules that programs take a line apart with. A batch
// file is found a second time, by its interpreter and in the working directory first,
// so its whole path stands in the place of what it was asked for as.
func commandLine(path string, argv []string) string {
	if isBatch(path) {
		argv = append([]string{path}, argv[1:]...)
	}
	return windows.ComposeCommandLine(argv)
}

// environmentBlock is env as CreateProcess takes it: strings that end in a zero, and
// one more zero. Entries with a zero inside were removed by the scrub.
func environmentBlock(env []string) []uint16 {
	var block []uint16
	for _, kv := range env {
		// With its zero, and halves of characters, which the system allows, as they are.
		if text, err := windows.UTF16FromString(kv); err == nil {
			block = append(block, text...)
		}
	}
	if len(block) == 0 {
		block = append(block, 0)
	}
	return append(block, 0)
}

// winProcess is a started process. Its handle keeps the number from being given to
// another one.
type winProcess struct {
	pid int

	mu     sync.Mutex
	handle windows.Handle // 0 once the end is known
}

// kill ends the process itself. It does nothing once the end is known.
func (p *winProcess) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.handle != 0 {
		_ = windows.TerminateProcess(p.handle, 1)
	}
}

// wait returns how the process ended, and is called once.
func (p *winProcess) wait() ending {
	_, err := windows.WaitForSingleObject(p.handle, windows.INFINITE)
	end := ending{code: -1}
	var code uint32
	if err == nil && windows.GetExitCodeProcess(p.handle, &code) == nil {
		end.code = int(code)
	}
	var created, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(p.handle, &created, &exited, &kernel, &user) == nil {
		end.cpu = span(kernel) + span(user)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = windows.CloseHandle(p.handle)
	p.handle = 0
	return end
}

// span is a Filetime that counts from zero, in units of 100 ns.
func span(t windows.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
