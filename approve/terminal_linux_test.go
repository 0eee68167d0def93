package approve

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
)

// pseudoTerminal opens a terminal: the keyboard's end, and the program's.
func pseudoTerminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, tty = testkit.Terminal(t)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, keys) // the echo, until the other end is closed
	}()
	t.Cleanup(func() {
		tty.Close()
		<-drained
		keys.Close()
	})
	return keys, tty
}

// typeAhead types and returns when it lies in the terminal's input, to be read.
func typeAhead(t *testing.T, keys, tty *os.File, text string) {
	t.Helper()
	if _, err := keys.WriteString(text); err != nil {
		t.Fatal(err)
	}
	conn, err := tty.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		n := 0
		if err := conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
			t.Fatal(err)
		}
		if n > 0 || !strings.HasSuffix(text, "\n") && time.Until(end) < 9950*time.Millisecond {
			return // a line that is not finished cannot be asked for
		}
	}
	t.Fatal("what was typed did not arrive")
}

// Lines that were pasted into a terminal must not say yes to questions that nobody has
// seen, nor may half a line become part of an answer.
func TestWhatWasTypedBeforeAQuestionWasShownAnswersNothing(t *testing.T) {
	keys, tty := pseudoTerminal(t)
	var out syncBuffer
	term := Stdin(tty, &out)
	for i, tc := range []struct {
		ahead, typed string
		want         DecisionKind
	}{{"y\ny\ny\n", "n\n", DecisionDeny}, {"y\n", "rather not\n", DecisionDeny}, {"half a li", "y\n", DecisionApprove}} {
		typeAhead(t, keys, tty, tc.ahead)
		target := fmt.Sprintf("question %d", i)
		got := make(chan Decision, 1)
		go func() {
			d, err := term.Decide(t.Context(), Request{Act: policy.Exec, Target: target})
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		out.waitFor(t, target+"\n")
		select {
		case d := <-got:
			t.Fatalf("%s was decided before anything was typed: %+v", target, d)
		case <-time.After(20 * time.Millisecond): // a read that finds a line ends sooner
		}
		if _, err := keys.WriteString(tc.typed); err != nil {
			t.Fatal(err)
		}
		if d := <-got; d.Kind != tc.want {
			t.Errorf("%s: %q = %+v", target, tc.typed, d)
		}
	}
}

// In raw mode a terminal gives several lines in one read. Those behind the first were
// typed before the next question was shown as well, though they lie in memory by then.
func TestLinesThatCameWithAnAnswerAnswerNoLaterQuestion(t *testing.T) {
	keys, tty := pseudoTerminal(t)
	raw, err := tty.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := raw.Control(func(fd uintptr) {
		var mode *unix.Termios
		if mode, err = unix.IoctlGetTermios(int(fd), unix.TCGETS); err == nil {
			mode.Lflag &^= unix.ICANON | unix.ECHO
			mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
			err = unix.IoctlSetTermios(int(fd), unix.TCSETS, mode)
		}
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	var out syncBuffer
	term := Stdin(tty, &out)
	decide := func(target, typed string) Decision {
		got := make(chan Decision, 1)
		go func() {
			d, err := term.Decide(t.Context(), Request{Act: policy.Exec, Target: target})
			if err != nil {
				t.Error(err)
			}
			got <- d
		}()
		out.waitFor(t, target+"\n")
		select {
		case d := <-got:
			t.Fatalf("%s was decided before anything was typed: %+v", target, d)
		case <-time.After(20 * time.Millisecond): // a read that finds a line ends sooner
		}
		if _, err := keys.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		return <-got
	}
	if d := decide("question 1", "y\ny\ny\n"); d.Kind != DecisionApprove {
		t.Errorf("the first: %+v", d)
	}
	if d := decide("question 2", "n\n"); d.Kind != DecisionDeny {
		t.Errorf("the second: %+v", d)
	}
}

// Questions that are shown together may be answered together.
func TestABatchAtATerminalMayBeAnsweredAhead(t *testing.T) {
	keys, tty := pseudoTerminal(t)
	var out syncBuffer
	term := Stdin(tty, &out)
	typeAhead(t, keys, tty, "stale\n")
	got := make(chan []Reply, 1)
	go func() {
		r, err := term.AnswerAll(t.Context(), []Question{{Text: "first?"}, {Text: "second?"}})
		if err != nil {
			t.Error(err)
		}
		got <- r
	}()
	out.waitFor(t, "Answer 1 of 2: ")
	if _, err := keys.WriteString("one\ntwo\n"); err != nil {
		t.Fatal(err)
	}
	if r := <-got; r[0] != Say("one") || r[1] != Say("two") {
		t.Errorf("replies: %+v", r)
	}
}
