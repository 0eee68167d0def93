//go:build unix

package builtin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
)

// watchedLine is a line that does something as soon as a command of it has ended.
type watchedLine struct {
	startedBy
	ended func()
}

func (l watchedLine) Ended(*sandbox.Result) { l.ended() }

func watch(b *shellBench, ended func()) func(tool.Call, string, bool) Line {
	return func(tool.Call, string, bool) Line {
		return watchedLine{func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Process, error) {
			return sandbox.Start(ctx, cmd, sandbox.Profile{Workspace: b.root})
		}, ended}
	}
}

func TestALineThatEndsAsItsTimeIsOverEndedByItself(t *testing.T) {
	b := newShellBench(t, policy.Permissive(), func(e *Env) { e.ExecTimeout = 400 * time.Millisecond })
	for line, want := range map[string]string{
		"true && false": "shell exit 1",
		"false && true": "shell exit 1", // what the operators skip is not cut off
		"true; true":    "shell timed out",
	} {
		n := 0
		b.env.Begin = watch(b, func() {
			if n++; n == 1 && line == "true && false" {
				return
			}
			time.Sleep(500 * time.Millisecond) // the command is over, and so is the time of the line now
		})
		if text, res := b.shell(line); res.Decision != want {
			t.Errorf("%q: decision %q, want %q: %s", line, res.Decision, want, text)
		}
	}
}

func TestWhatIsLeftRunningAndEndsAsItIsKilledEndedByItself(t *testing.T) {
	for line, want := range map[string]HandleState{
		"sh -c 'exit 3'":           {Code: ptr(3)},
		"sh -c 'exit 3'; sleep 60": {Killed: true, Reason: "shell_kill"},
	} {
		b, d := handleBench(t)
		b.env.Begin = watch(b, func() {
			h, _, _ := b.env.Handles.find(1)
			h.kill("shell_kill")
		})
		b.start(line)
		h, _, _ := b.env.Handles.find(1)
		<-h.done
		if err := b.env.Handles.Housekeep(context.Background(), 1); err != nil {
			t.Fatal(err)
		}
		if got := d.over[1]; got.String() != want.String() {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

func ptr[T any](v T) *T { return &v }

// A poll is the only chance to see what was printed: what it returns is shown whole,
// however little an observation may have.
func TestAPollReturnsNoMoreThanIsShown(t *testing.T) {
	const room, lines, width = 2000, 1000, 13 // "flood 000001\n"
	flood := fmt.Sprintf(`sh -c 'i=0; while [ $i -lt %d ]; do i=$((i+1)); printf "flood %%06d\n" $i; done; touch all'`, lines)
	for name, read := range map[string]func(b *shellBench) string{
		"poll": func(b *shellBench) string { return b.poll(1) },
		"kill": func(b *shellBench) string { text, _ := b.call("shell_kill", args("handle", 1)); return text },
	} {
		b, d := handleBench(t)
		b.env.EntryCap = func() int { return room }
		text := b.start(flood)
		h, _, _ := b.env.Handles.find(1)
		<-h.done
		if !strings.Contains(text, "\nflood") { // else it was over at once, and the start told all
			text = read(b)
		}
		if runes(text) > room || !strings.HasSuffix(text, fmt.Sprintf("flood %06d\n", lines)) {
			t.Errorf("%s: %d characters that end with %q", name, runes(text), text[max(0, len(text)-40):])
		}
		wantHas(t, text, commas(lines*width-len(d.read[1]))+" bytes before this are passed over")
	}
}
