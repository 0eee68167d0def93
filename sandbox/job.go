package sandbox

import (
	"fmt"
	"path/filepath"
	"strings"
)

// jobPlan is what a Windows job object is told. A limit of zero sets nothing.
type jobPlan struct {
	killOnClose bool   // always: closing the handle is the kill
	userTicks   int64  // user time of the whole job, in 100 ns
	memory      uint64 // committed memory of each process, in bytes
	processes   uint32 // processes at one time
}

const tickOf100ns = 100

func planJob(l Limits) jobPlan {
	p := jobPlan{killOnClose: true, memory: l.Memory}
	if l.CPU > 0 {
		p.userTicks = int64((l.CPU + tickOf100ns - 1) / tickOf100ns)
	}
	p.processes = uint32(min(l.Processes, 1<<32-1))
	return p
}

// jobUse is what a job reports after the end.
type jobUse struct {
	userTicks  int64
	peakMemory uint64
	processes  uint32 // ever
}

// capOf names the ceiling that ended a failed command. The system does not say:
// it is inferred from what was used.
func (p jobPlan) capOf(u jobUse) Cap {
	switch {
	case p.userTicks > 0 && u.userTicks >= p.userTicks:
		return CapCPU
	// A refused allocation leaves the peak a little below the limit.
	case p.memory > 0 && u.peakMemory >= p.memory/10*9:
		return CapMemory
	case p.processes > 0 && u.processes >= p.processes:
		return CapProcesses
	}
	return ""
}

// isBatch reports whether path is a file that the command interpreter reads. The
// system passes over points and spaces at the end of a name.
func isBatch(path string) bool {
	switch strings.ToLower(filepath.Ext(strings.TrimRight(path, ". "))) {
	case ".bat", ".cmd":
		return true
	}
	return false
}

// checkBatch refuses arguments that the interpreter of a batch file would read
// again as commands: it takes the whole line apart a second time, by rules that
// no quoting holds against.
func checkBatch(path string, args []string) error {
	const commands = "\"%!&|<>^\r\n"
	refuse := func(what string) error {
		return &Error{Kind: ErrInvalid, Op: "check command", Program: path,
			Err: fmt.Errorf("%s holds a character that a batch file reads as a command", what)}
	}
	if !isBatch(path) {
		return nil
	}
	if strings.ContainsAny(path, commands) {
		return refuse("its path")
	}
	for i, a := range args {
		if strings.ContainsAny(a, commands) {
			return refuse(fmt.Sprintf("argument %d", i+1))
		}
	}
	return nil
}
