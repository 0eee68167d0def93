package sandbox

import (
	"errors"
	"testing"
	"time"
)

func TestJobPlan(t *testing.T) {
	if got, want := planJob(Limits{}), (jobPlan{killOnClose: true}); got != want {
		t.Errorf("without limits: %+v, want %+v", got, want)
	}
	got := planJob(Limits{CPU: 3 * time.Second, Memory: 5, Processes: 1 << 40, Wall: time.Hour, OpenFiles: 7})
	if want := (jobPlan{killOnClose: true, userTicks: 30_000_000, memory: 5, processes: 1<<32 - 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := planJob(Limits{CPU: 1}); got.userTicks != 1 {
		t.Errorf("a limit of a nanosecond became %d ticks: none would be set", got.userTicks)
	}
}

func TestWhichCeilingEndedAJob(t *testing.T) {
	p := jobPlan{userTicks: 100, memory: 1000, processes: 4}
	for _, tc := range []struct {
		p    jobPlan
		u    jobUse
		want Cap
	}{
		{p, jobUse{userTicks: 100, peakMemory: 1000, processes: 4}, CapCPU},
		{p, jobUse{userTicks: 99, peakMemory: 900, processes: 4}, CapMemory},
		{p, jobUse{userTicks: 99, peakMemory: 899, processes: 4}, CapProcesses},
		{p, jobUse{userTicks: 99, peakMemory: 899, processes: 3}, ""},
		{jobPlan{}, jobUse{userTicks: 1 << 40, peakMemory: 1 << 40, processes: 99}, ""},
	} {
		if got := tc.p.capOf(tc.u); got != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.u, got, tc.want)
		}
	}
}

func TestBatchFilesTakeNoArgumentsThatAreCommands(t *testing.T) {
	for _, tc := range []struct {
		path, arg string
		ok        bool
	}{
		{`c:\npm.cmd`, "install", true},
		{`c:\npm.CMD`, "a&calc", false},
		{`c:\x.bat`, "%PATH%", false},
		{`c:\x.bat`, `a"b`, false},
		{`c:\x.bat`, "a\nb", false},
		{`c:\x.bat`, "^", false},
		{`c:\x.bat.`, "a&calc", false},
		{`c:\x.CMD . `, "a&calc", false},
		{`c:\x.exe`, "a&b", true},
		{`c:\a&b\x.cmd`, "install", false},
		{`c:\a&b\x.exe`, "install", true},
	} {
		if err := checkBatch(tc.path, []string{"first", tc.arg}); (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s %q: %v, want ok %v", tc.path, tc.arg, err, tc.ok)
		}
	}
}
