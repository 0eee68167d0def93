package trace

import (
	"bytes"
	"testing"
	"time"
)

func TestPrinterShowsDialsAndWhatIsLeftRunning(t *testing.T) {
	code := 3
	var out bytes.Buffer
	p := newPrinter(&out, false, time.Now)
	for _, f := range []Fact{
		Dialed{Host: "docs.example", Port: 443, Allowed: true},
		Dialed{Host: "evil\x1b[31m.test", Port: 80},
		HandleStarted{Handle: 1, Line: "go run .\n&& x"},
		HandlePolled{Handle: 1, Bytes: 10},
		HandleKilled{Handle: 1},
		HandleExited{Handle: 2, Code: &code},
		HandleExited{Handle: 3},
		HandleOrphaned{Handle: 4, Reason: "its process is gone"},
	} {
		p.Observe(Event{RunID: 1, Step: 2, Fact: f})
	}
	want := "    dialled docs.example:443\n" +
		"    refused net evil[31m.test:80\n" +
		"    left running 1 go run . && x\n" +
		"    ended 1\n" +
		"    2 exited with 3\n" +
		"    3 exited without an exit code\n" +
		"    4 was lost: its process is gone\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
