//go:build unix

package builtin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/policy"
)

// diary is a journal in memory.
type diary struct {
	mu    sync.Mutex
	next  int
	lines map[int]string
	pids  map[int][]int
	read  map[int]string
	over  map[int]HandleState
	fail  error // of Begin
	busy  int   // so many calls of Over fail
}

func newDiary() *diary {
	return &diary{lines: map[int]string{}, pids: map[int][]int{}, read: map[int]string{}, over: map[int]HandleState{}}
}

func (d *diary) Begin(_ context.Context, _ int, line string) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return 0, d.fail
	}
	d.next++
	d.lines[d.next] = line
	return d.next, nil
}

func (d *diary) Processes(_ context.Context, n int, pids []int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pids[n] = pids
	return nil
}

func (d *diary) Read(_, n int, chunk string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read[n] += chunk
}

func (d *diary) Polled(_, _, _ int) {}

func (d *diary) Over(_ context.Context, _, n int, s HandleState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy > 0 {
		d.busy--
		return errors.New("the store is busy")
	}
	if was, ok := d.over[n]; ok {
		return fmt.Errorf("handle %d ended twice: %s, %s", n, was, s)
	}
	d.over[n] = s
	return nil
}

// handleBench is a bench whose tools may leave lines running.
func handleBench(t *testing.T) (*shellBench, *diary) {
	t.Helper()
	return patientBench(t, 0)
}

// patientBench is such a bench that lets a line end by itself when it is to be killed.
func patientBench(t *testing.T, grace time.Duration) (*shellBench, *diary) {
	t.Helper()
	d := newDiary()
	hs := NewHandles(d, grace)
	t.Cleanup(func() {
		if err := hs.End(context.Background(), 0); err != nil {
			t.Error(err)
		}
	})
	return newShellBench(t, policy.Permissive(), func(e *Env) { e.Handles = hs }), d
}

func (b *shellBench) start(line string) string {
	b.t.Helper()
	text, _ := b.call("shell_start", args("line", line))
	return text
}

func (b *shellBench) poll(n int) string {
	b.t.Helper()
	text, _ := b.call("shell_poll", args("handle", n))
	return text
}

// await waits for a file that a line makes.
func (b *shellBench) await(name string) {
	b.t.Helper()
	for range 2000 {
		if b.exists(name) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	b.t.Fatalf("%s was not made", name)
}

func TestALineMayEndByItselfBeforeItIsKilled(t *testing.T) {
	const tidy = `sh -c 'trap "echo tidied; exit 0" TERM; touch up; while :; do sleep 0.02; done'`
	const deaf = `sh -c 'trap "" TERM; touch up; while :; do sleep 0.02; done'`
	kill := func(b *shellBench) string {
		b.t.Helper()
		text, _ := b.call("shell_kill", args("handle", 1))
		return text
	}
	t.Run("one that heeds", func(t *testing.T) {
		b, d := patientBench(t, time.Minute)
		b.start(tidy)
		b.await("up")
		if text := kill(b); !strings.Contains(text, "exited 0") || !strings.Contains(text, "tidied") {
			t.Errorf("it ended so: %s", text)
		}
		if s := d.over[1]; s.Killed || s.Code == nil || *s.Code != 0 {
			t.Errorf("on record: %+v", s)
		}
	})
	t.Run("one that does not", func(t *testing.T) {
		b, d := patientBench(t, 50*time.Millisecond)
		b.start(deaf)
		b.await("up")
		if text := kill(b); !strings.Contains(text, "killed") {
			t.Errorf("it ended so: %s", text)
		}
		if s := d.over[1]; !s.Killed || s.Reason != "shell_kill" {
			t.Errorf("on record: %+v", s)
		}
	})
	t.Run("nothing more of the line begins", func(t *testing.T) {
		b, _ := patientBench(t, time.Minute)
		b.start(tidy + `; touch second`)
		b.await("up")
		kill(b)
		if b.exists("second") {
			t.Error("the next command of the line ran")
		}
	})
	t.Run("at the end of the run", func(t *testing.T) {
		b, d := patientBench(t, time.Minute)
		b.start(tidy)
		b.await("up")
		if err := b.env.Handles.End(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if s := d.over[1]; s.Killed || s.Code == nil || *s.Code != 0 {
			t.Errorf("on record: %+v", s)
		}
	})
	t.Run("a cancelled caller waits for nobody", func(t *testing.T) {
		b, d := patientBench(t, time.Hour)
		b.start(deaf)
		b.await("up")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.env.Handles.End(ctx, 1); err != nil {
			t.Fatal(err)
		}
		if s := d.over[1]; !s.Killed || s.Reason != "run ended" {
			t.Errorf("on record: %+v", s)
		}
	})
	t.Run("without grace nobody is asked", func(t *testing.T) {
		b, d := handleBench(t)
		b.start(tidy)
		b.await("up")
		if text := kill(b); strings.Contains(text, "tidied") || !d.over[1].Killed {
			t.Errorf("it ended so: %s; %+v", text, d.over[1])
		}
	})
}

func TestAFloodIsPolledByItsNewestAndTheRestIsCounted(t *testing.T) {
	b, d := handleBench(t)
	const lines, width = 100_000, 13 // "flood 000001\n"
	b.start(fmt.Sprintf(`sh -c 'i=0; while [ $i -lt %d ]; do i=$((i+1)); printf "flood %%06d\n" $i; done; touch all'`, lines))
	total := 0
	skipped := regexp.MustCompile(`; ([0-9,]+) bytes before this are passed over`)
	last := ""
	count := func() {
		text := b.poll(1)
		_, body, _ := strings.Cut(text, "]\n")
		if body == "(no new output)\n" {
			return
		}
		if len(body) > pollWindow+1 {
			t.Fatalf("one poll returns %d bytes", len(body))
		}
		last = body
		if m := skipped.FindStringSubmatch(text); m != nil {
			n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	for !b.exists("all") {
		count()
		time.Sleep(20 * time.Millisecond)
	}
	h, _, _ := b.env.Handles.find(1)
	<-h.done
	count()
	total += len(d.read[1])
	if total != lines*width {
		t.Errorf("%d bytes told of or counted, want %d", total, lines*width)
	}
	if want := fmt.Sprintf("flood %06d\n", lines); !strings.HasSuffix(last, want) {
		t.Errorf("the last poll ends with %q, want %q", last[max(0, len(last)-40):], want)
	}
}

func TestATapeKeepsBothEndsAndCountsTheRest(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	alphabet := []rune("aé漢🙂\n")
	for range 300 {
		head, tail := rnd.IntN(40), 1+rnd.IntN(40)
		tp := newTape(head, tail)
		var all []byte
		for range rnd.IntN(30) {
			var piece []byte
			for range rnd.IntN(12) {
				piece = utf8.AppendRune(piece, alphabet[rnd.IntN(len(alphabet))])
			}
			if len(piece) > 0 && rnd.IntN(2) == 0 { // a write may end inside of a character
				k := rnd.IntN(len(piece))
				_, _ = tp.Write(piece[:k])
				_, _ = tp.Write(piece[k:])
			} else {
				_, _ = tp.Write(piece)
			}
			all = append(all, piece...)
		}
		got := tp.String()
		before, rest, cut := strings.Cut(got, "\n[… ")
		if !cut {
			if got != string(all) {
				t.Fatalf("head %d, tail %d: %q became %q", head, tail, all, got)
			}
			continue
		}
		number, after, _ := strings.Cut(rest, " characters left out …]\n")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.ValidString(got) || !strings.HasPrefix(string(all), before) || !strings.HasSuffix(string(all), after) {
			t.Fatalf("head %d, tail %d: %q became %q", head, tail, all, got)
		}
		if sum := utf8.RuneCountInString(before) + n + utf8.RuneCountInString(after); sum != utf8.RuneCount(all) {
			t.Fatalf("head %d, tail %d: %d characters told of, %d written: %q", head, tail, sum, utf8.RuneCount(all), got)
		}
	}
}

func TestAPollNeverCutsACharacter(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		tp := newTape(0, 64)
		var all []byte
		var told int64
		var cursor int64
		text := strings.Repeat("aé漢🙂", 1+rnd.IntN(20))
		for rest := []byte(text); len(rest) > 0; {
			k := 1 + rnd.IntN(min(len(rest), 30))
			_, _ = tp.Write(rest[:k])
			rest = rest[k:]
			if rnd.IntN(3) > 0 && len(rest) > 0 {
				continue
			}
			chunk, skipped, next := tp.since(cursor, 16, len(rest) == 0)
			if !utf8.Valid(chunk) {
				t.Fatalf("a poll returns %q", chunk)
			}
			cursor, told = next, told+int64(len(chunk))+skipped
			all = append(all, chunk...)
		}
		if told != int64(len(text)) || !strings.HasSuffix(text, string(all[max(0, len(all)-4):])) {
			t.Fatalf("%d bytes told of, %d written", told, len(text))
		}
	}
}

func TestAHandleThatFailsAtOnceSaysWhy(t *testing.T) {
	b, d := handleBench(t)
	for _, tc := range []struct{ line, want string }{
		{"no-such-program-here", `"no-such-program-here" is not on this machine`},
		{"cat < missing", "shell: missing:"},
		{"sh -c 'echo no port >&2; exit 4'", "no port"},
	} {
		text := b.start(tc.line)
		if strings.Contains(text, "running") { // it ended after the answer
			waitFor(t, func() bool { text = b.poll(d.next); return !strings.Contains(text, "(no new output)") })
		}
		wantHas(t, text, tc.want)
	}
	d.fail = errors.New("the disk is full")
	wantHas(t, b.start("sleep 300"), "the disk is full")
	if len(d.lines) != 3 {
		t.Errorf("%d lines were begun, want 3", len(d.lines))
	}
}

func TestAnEarlierHandleIsNeverReached(t *testing.T) {
	b, d := handleBench(t)
	code := 2
	d.next = 3
	b.env.Handles.Adopt(1, HandleState{Orphaned: true, Reason: "gone"})
	b.env.Handles.Adopt(2, HandleState{Code: &code})
	b.env.Handles.Adopt(3, HandleState{Killed: true, Reason: "run ended"})
	wantHas(t, b.poll(1), "handle 1: orphaned (gone)")
	wantHas(t, b.poll(2), "handle 2: exited 2")
	wantHas(t, b.poll(3), "handle 3: killed (run ended)")
	text, res := b.call("shell_kill", args("handle", 1))
	wantHas(t, text, "refused", "orphaned (gone)")
	if !res.Failed {
		t.Error("killing an orphan is no failure")
	}
	text, _ = b.call("shell_kill", args("handle", 2))
	wantHas(t, text, "had ended already: exited 2")
	wantHas(t, b.start("sleep 300"), "handle 4: running")
	if len(d.over) != 0 {
		t.Errorf("ends recorded: %v", d.over)
	}
}

func TestNothingStartsOnceTheRunIsOver(t *testing.T) {
	b, d := handleBench(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() { b.start("sleep 300 | sleep 300") })
	}
	time.Sleep(5 * time.Millisecond)
	if err := b.env.Handles.End(context.Background(), 1); err != nil {
		t.Error(err)
	}
	wg.Wait()
	wantHas(t, b.start("sleep 300"), "the run is over")
	if err := b.env.Handles.End(context.Background(), 1); err != nil {
		t.Error(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.lines {
		if s, ok := d.over[n]; !ok || !s.Killed {
			t.Errorf("handle %d: %v, recorded %v", n, s, ok)
		}
	}
}

func TestRedirectsOfALineThatIsLeftRunningWin(t *testing.T) {
	b, _ := handleBench(t)
	b.start("sh -c 'echo out; echo err >&2' > o 2>&1; sh -c 'echo two; echo bad >&2' | cat > p; touch " + filepath.Join(b.root, "end"))
	waitFor(t, func() bool { return b.exists("end") })
	waitFor(t, func() bool { return strings.Contains(b.poll(1), "exited 0") })
	if b.read("o") != "out\nerr\n" || b.read("p") != "two\n" {
		t.Errorf("files hold %q and %q", b.read("o"), b.read("p"))
	}
	if _, err := os.Stat(filepath.Join(b.root, "end")); err != nil {
		t.Error(err)
	}
}

func TestAnEndThatCouldNotBeRecordedIsRecordedLater(t *testing.T) {
	for name, again := range map[string]func(hs *Handles) error{
		"with the next step": func(hs *Handles) error { return hs.Housekeep(context.Background(), 2) },
		"with the run":       func(hs *Handles) error { return hs.End(context.Background(), 2) },
	} {
		t.Run(name, func(t *testing.T) {
			b, d := handleBench(t)
			hs := b.env.Handles
			b.start("true")
			h, _, _ := hs.find(1)
			<-h.done
			d.busy = 1
			if err := hs.Housekeep(context.Background(), 1); err == nil {
				t.Fatal("a failure of the journal was not told")
			}
			if err := again(hs); err != nil {
				t.Fatal(err)
			}
			if s, ok := d.over[1]; !ok || s.Code == nil || *s.Code != 0 {
				t.Errorf("recorded: %v, %+v", ok, s)
			}
			if err := again(hs); err != nil {
				t.Errorf("and once more: %v", err)
			}
		})
	}
}
