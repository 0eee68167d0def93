package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/trace"
)

func TestAPromptThatWasTakenApartIsPutTogetherAgain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		pieces := rapid.SliceOfN(rapid.StringN(0, 900, -1), 1, 12)
		var last lastPrompt
		before := ""
		for step := 1; step <= 80; step++ {
			parts := pieces.Draw(rt, "parts")
			// Half of the time most of the prompt before is kept.
			text := strings.Join(parts, "")
			if cut := runeBorder(before, rapid.IntRange(0, len(before)).Draw(rt, "cut")); rapid.Bool().Draw(rt, "keeps") {
				text = before[:cut] + parts[0] + before[cut:]
			}
			text = cleanText(text)
			p := last.take(step, text)
			if got := p.after(before); got != text {
				rt.Fatalf("step %d: %q came back as %q", step, text, got)
			}
			if p.change != nil && (!utf8.ValidString(*p.change) || len(*p.change) > len(text)/2 || step-p.from > promptChain) {
				rt.Fatalf("step %d keeps the change %q of %d bytes, from step %d", step, *p.change, len(text), p.from)
			}
			last.keep(step, text, p)
			before = text
		}
	})
}

func runeBorder(s string, n int) int {
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// growing is the prompt of a run's step n: what was seen piles up, something in the
// middle changes now and then, and the end stays.
func growing(n int) string {
	var b strings.Builder
	b.WriteString("The task: make it work.\n")
	for i := 1; i <= n; i++ {
		if i == n/2 {
			fmt.Fprintf(&b, "[read f%d.go] (elided: superseded)\n", i)
			continue
		}
		fmt.Fprintf(&b, "[read f%d.go] %s\n", i, strings.Repeat(fmt.Sprintf("ünïcode line %d; ", i), 40))
	}
	b.WriteString("Go on.\n")
	return b.String()
}

func longPrompts(t testing.TB, s *Store, steps int) *Drive {
	t.Helper()
	d := start(t, s, RunStart{Goal: "g"})
	for n := 1; n <= steps; n++ {
		c := aStep(n)
		c.Prompt = growing(n)
		commit(t, s, d, c)
	}
	return d
}

// Prompts are read as they were sent from every place of a run, by a fork of it too,
// and take up what changes and not what is repeated.
func TestPromptsAreStoredByWhatChanges(t *testing.T) {
	ctx := context.Background()
	const steps = 300 // more than a page, and several whole ones
	s := newFile(t)
	d := longPrompts(t, s, steps)
	prompts := func(run trace.RunID, opts ...ReadOption) map[int]string {
		t.Helper()
		out := map[int]string{}
		for r, err := range s.Steps(ctx, run, opts...) {
			if err != nil {
				t.Fatal(err)
			}
			out[r.Step] = r.Prompt
		}
		return out
	}
	whole := 0
	for n, p := range prompts(d.RunID) {
		if p != growing(n) {
			t.Fatalf("the prompt of step %d came back with %d bytes, want %d", n, len(p), len(growing(n)))
		}
		whole += len(p)
	}
	for range 20 {
		n := 1 + rand.IntN(steps)
		if got := prompts(d.RunID, After(int64(n-1)), Limit(2)); got[n] != growing(n) {
			t.Errorf("step %d read by itself has another prompt", n)
		}
	}
	var stored, wholes int
	queryRaw(t, s.Path(), `SELECT sum(octet_length(prompt) + coalesce(octet_length(prompt_change), 0)), sum(prompt_change IS NULL) FROM steps`, &stored, &wholes)
	if stored*8 > whole || wholes < steps/promptChain || wholes > steps/10 {
		t.Errorf("prompts of %d bytes take %d, and %d of %d are whole", whole, stored, wholes, steps)
	}
	release(t, d)
	fork, err := s.ForkRun(ctx, d.RunID, 100)
	if err != nil {
		t.Fatal(err)
	}
	got := prompts(fork)
	for n := 1; n <= 100; n++ {
		if got[n] != growing(n) {
			t.Fatalf("the fork has another prompt at step %d", n)
		}
	}
	sound(t, s)
}

// A drive that takes a run up knows no prompt to compare with and begins with a whole
// one; what a run without prompts leaves out is not taken for a piece.
func TestADriveBeginsWithAWholePrompt(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := longPrompts(t, s, 5)
	release(t, d)
	silent := openAt(t, s.Path(), WithoutPromptTrace())
	d2, _ := enter(t, silent, d.RunID, EnterOptions{})
	for n := 6; n <= 7; n++ {
		c := aStep(n)
		c.Prompt = growing(n)
		commit(t, silent, d2, c)
	}
	release(t, d2)
	d3, _ := enter(t, s, d.RunID, EnterOptions{})
	for n := 8; n <= 10; n++ {
		c := aStep(n)
		c.Prompt = growing(n)
		commit(t, s, d3, c)
	}
	for r, err := range s.Steps(ctx, d.RunID) {
		want := growing(r.Step)
		if r.Step == 6 || r.Step == 7 {
			want = ""
		}
		if err != nil || r.Prompt != want {
			t.Errorf("step %d: %d bytes, want %d, %v", r.Step, len(r.Prompt), len(want), err)
		}
	}
	var from int
	queryRaw(t, s.Path(), `SELECT prompt_from FROM steps WHERE step = 10`, &from)
	if from != 8 {
		t.Errorf("the third drive builds on the prompt of step %d", from)
	}
	sound(t, s)
}

func TestAnArchiveTakesThePiecesOfPromptsToo(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess, err := s.CreateSession(ctx, ws)
	if err != nil {
		t.Fatal(err)
	}
	d := start(t, s, RunStart{Goal: "g", Turn: &TurnStart{Session: sess, Prompt: "p"}})
	for n := 1; n <= 4; n++ {
		c := aStep(n)
		c.Prompt = growing(n + 4)
		commit(t, s, d, c)
	}
	finish(t, s, d, trace.Finished, 4)
	if _, err := s.ArchiveSession(ctx, sess); err != nil {
		t.Fatal(err)
	}
	for r, err := range s.Steps(ctx, d.RunID) {
		if err != nil || r.Prompt != "" {
			t.Errorf("step %d keeps %q, %v", r.Step, r.Prompt, err)
		}
	}
	sound(t, s)
}
