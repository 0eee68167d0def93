package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// looking is a drive that has read n files of about 400 tokens each.
func (f *fixture) looking(n int) *drive {
	f.t.Helper()
	d, err := newDrive(context.Background(), f.host.withDefaults(), f.contract(func(c *task.Contract) { c.MaxReadChars = 5000 }))
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(d.close)
	for i := range n {
		name := fmt.Sprintf("f%d.txt", i)
		f.write(name, strings.Repeat("x", 1600)+"\n")
		s, err := d.workspace.ReadLines(context.Background(), name, 1, 0, 0)
		if err != nil {
			f.t.Fatal(err)
		}
		d.ledger.Add(trace.Observation{Step: i + 1, Kind: trace.ObsRead, Target: name, Text: s.Text, Digest: s.Digest})
	}
	time.Sleep(120 * time.Millisecond) // until the files are older than a tick of the clock
	return d
}

func (d *drive) mustRefresh(t *testing.T, room int) map[int]prompt.Fresh {
	t.Helper()
	out, err := d.refresh(context.Background(), room)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAFileThatStaysAsItIsIsNotReadForEveryRequest(t *testing.T) {
	f := newFixture(t)
	d := f.looking(3)
	for range 5 {
		if fresh := d.mustRefresh(t, 24_000); len(fresh) != 0 {
			t.Fatalf("%+v", fresh)
		}
	}
	if d.looks.read != 0 {
		t.Errorf("%d reads of files that did not change", d.looks.read)
	}
	f.write("f1.txt", "changed by somebody else\n")
	for range 5 {
		if got := d.mustRefresh(t, 24_000)[1].Text; got != "changed by somebody else\n" {
			t.Fatalf("shown is %q", got)
		}
	}
	if d.looks.read != 1 {
		t.Errorf("%d reads of a file that changed once", d.looks.read)
	}
	// As large as before: it is not the size that tells.
	f.write("f1.txt", "changed by somebody elsa\n")
	if got := d.mustRefresh(t, 24_000)[1].Text; got != "changed by somebody elsa\n" {
		t.Errorf("shown is %q", got)
	}
	f.write("f1.txt", "\x00\x01")
	for range 5 {
		if got := d.mustRefresh(t, 24_000)[1]; got.Why == "" {
			t.Fatalf("%+v", got)
		}
	}
	if d.looks.read != 3 {
		t.Errorf("%d reads, want one for each content", d.looks.read)
	}
}

func TestWhatTheRunWroteIsReadAgainOnce(t *testing.T) {
	f := newFixture(t)
	d := f.looking(2)
	f.write("f0.txt", "what the run wrote\n")
	d.ledger.Add(trace.Observation{Step: 3, Kind: trace.ObsWrite, Target: "f0.txt", Text: "[wrote f0.txt]"})
	for range 5 {
		if got := d.mustRefresh(t, 24_000)[0].Text; got != "what the run wrote\n" {
			t.Fatalf("shown is %q", got)
		}
	}
	if d.looks.read != 1 {
		t.Errorf("%d reads", d.looks.read)
	}
}

func TestReadsOutsideTheWindowAreNotLookedAt(t *testing.T) {
	f := newFixture(t)
	d := f.looking(10)
	for i := range 10 {
		f.write(fmt.Sprintf("f%d.txt", i), strings.Repeat("y", 1600)+"\n")
	}
	fresh := d.mustRefresh(t, 2000)
	if d.looks.read != 5 {
		t.Errorf("%d reads for a window of five", d.looks.read)
	}
	for i := range 10 {
		if got := fresh[i]; got.Beyond != (i < 5) || (got.Text == "") != (i < 5) {
			t.Errorf("file %d: %+v", i, got)
		}
	}
	a := prompt.Assemble(prompt.Input{Ledger: d.ledger.Live(), Tokens: 2000, Fresh: fresh})
	if a.Reread != 5 || strings.Contains(a.Text, "xxx") {
		t.Errorf("%s: text that is not known to hold is shown", a.Detail())
	}
}

func TestWhatACommandChangedIsShownAsItIs(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "OLD-WORDS\n")
	m := f.script(readCall("./a.txt"), command("sh", "-c", "printf 'NEW-WORDS\\n' > a.txt"), scripted.Say("done"))
	res := f.must(trace.Finished)
	last := lastUser(m)
	if strings.Contains(last, "OLD-WORDS") || strings.Count(last, "NEW-WORDS") < 1 {
		t.Errorf("the model is shown:\n%s", last)
	}
	if rows := f.contextKinds(res.RunID, "reread"); len(rows) != 1 {
		t.Errorf("rows %v", rows)
	}
}
