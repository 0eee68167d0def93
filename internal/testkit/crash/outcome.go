package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// An outcome is everything that a run leaves behind and that must not depend on
// how often its process died.
type outcome struct {
	steps   []int
	tokens  int64
	ledger  map[string][]string // by the call's key without the run
	drives  int
	handles []store.ProcessHandle
	settled map[string]string // text told of a call that a person settled -> what it would have told by itself

	parts []part // compared one by one
}

// part is one comparable piece of an outcome.
type part struct{ name, text string }

// read collects the outcome of the last run in dir.
func read(ctx context.Context, dir string) (*outcome, error) {
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"), store.WithReadOnly())
	if err != nil {
		return nil, err
	}
	o, err := collect(ctx, st, dir)
	return o, errors.Join(err, st.Close())
}

func collect(ctx context.Context, st *store.Store, dir string) (*outcome, error) {
	run, err := st.LastRun(ctx)
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, errors.New("the store has no run")
	}
	rep, err := st.Check(ctx)
	if err != nil {
		return nil, err
	}
	o := &outcome{tokens: run.Tokens, settled: map[string]string{}}
	o.add("check", strings.Join(rep.Problems, "\n"))
	o.add("end", fmt.Sprintf("%s, %s, last step %d", run.Status, run.Outcome, run.LastStep))
	canonical, err := st.CanonicalTrace(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	o.add("trace", canonical)
	for _, read := range []func(context.Context, *store.Store, trace.RunID) error{o.readSteps, o.readObservations, o.readEdits, o.readVerdicts} {
		if err := read(ctx, st, run.ID); err != nil {
			return nil, err
		}
	}
	drives, err := st.Drives(ctx, run.ID)
	if err != nil {
		return nil, err
	}
	o.drives = len(drives)
	if o.handles, err = st.ProcessHandles(ctx, run.ID); err != nil {
		return nil, err
	}
	if err := o.readLedger(dir); err != nil {
		return nil, err
	}
	return o, o.readFiles(filepath.Join(dir, "work"))
}

func (o *outcome) add(name, text string) { o.parts = append(o.parts, part{name, text}) }

func (o *outcome) part(name string) string {
	for _, p := range o.parts {
		if p.name == name {
			return p.text
		}
	}
	return ""
}

func (o *outcome) readSteps(ctx context.Context, st *store.Store, run trace.RunID) error {
	var b strings.Builder
	for s, err := range st.Steps(ctx, run) {
		if err != nil {
			return err
		}
		o.steps = append(o.steps, s.Step)
		fmt.Fprintf(&b, "%d %d %v %q %q\n", s.Step, s.Tokens, s.Changed, s.Decision, s.ToolCall)
	}
	o.add("steps", b.String())
	return nil
}

// readObservations reads the run's ledger. A person's word about a call stands
// there by itself before its step, and again as the call's answer: the first is
// left out, and the second is put back to what the tool would have told.
func (o *outcome) readObservations(ctx context.Context, st *store.Store, run trace.RunID) error {
	obs, err := store.Collect(st.Observations(ctx, run))
	if err != nil {
		return err
	}
	for i, a := range obs {
		if !strings.HasPrefix(a.Text, "entry ") || a.CallID == "" {
			continue
		}
		o.settled[prompt.Settled(a.Target, a.Text)] = prompt.ToolResult(a.Target, a.Text)
		obs[i].CallID = "left out"
	}
	var b strings.Builder
	for _, a := range obs {
		if a.CallID == "left out" {
			continue
		}
		if own, ok := o.settled[a.Text]; ok {
			a.Text = own
		}
		fmt.Fprintf(&b, "%d %s %q %q %d %d %q %q\n", a.Step, a.Kind, a.Target, a.CallID, a.First, a.Count, a.Digest, a.Text)
	}
	o.add("observations", b.String())
	return nil
}

// readEdits reads what makes the run's changes undoable: every change once, and
// each file as it was before the run and not before the replay.
func (o *outcome) readEdits(ctx context.Context, st *store.Store, run trace.RunID) error {
	var b strings.Builder
	for e, err := range st.Edits(ctx, run) {
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%d %s %s +%d -%d %q\n", e.Step, e.Tool, e.Path, e.Added, e.Removed, e.Hunk)
	}
	points, err := st.RestorePoints(ctx, run)
	if err != nil {
		return err
	}
	for _, p := range points {
		fmt.Fprintf(&b, "before step %d %s was %s %q %o\n", p.Step, p.Path, p.State, p.Before, p.Mode)
	}
	o.add("edits", b.String())
	return nil
}

// readVerdicts reads the gate's verdicts, each once, and which refusals there
// were: a step that died behind one is refused again in its replay.
func (o *outcome) readVerdicts(ctx context.Context, st *store.Store, run trace.RunID) error {
	var b strings.Builder
	for g, err := range st.GateAttempts(ctx, run) {
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%d %s %s %q\n", g.Step, g.Phase, g.Outcome, g.Detail)
	}
	o.add("gate", b.String())
	refused := map[string]bool{}
	for p, err := range st.Refusals(ctx, run) {
		if err != nil {
			return err
		}
		refused[fmt.Sprintf("%d %s %s %s %s\n", p.Step, p.Act, p.Target, p.Rule, p.Layer)] = true
	}
	o.add("refusals", strings.Join(slices.Sorted(maps.Keys(refused)), ""))
	if turn, err := st.TurnForRun(ctx, run); err != nil {
		return err
	} else if turn != nil {
		head, err := st.SessionHead(ctx, turn.SessionID)
		if err != nil {
			return err
		}
		o.add("turn", fmt.Sprintf("%q %q %s, head %v", turn.Prompt, turn.Reply, turn.Outcome, head == turn.ID))
	}
	return nil
}

func (o *outcome) readLedger(dir string) error {
	lines, err := readLedger(dir)
	if err != nil {
		return err
	}
	o.ledger = map[string][]string{}
	for key, entries := range lines {
		parts := strings.Split(key, "/") // store, run, step and place
		call := strings.Join(parts[len(parts)-2:], "/")
		o.ledger[call] = append(o.ledger[call], entries...)
	}
	var b strings.Builder
	for _, call := range slices.Sorted(maps.Keys(o.ledger)) {
		fmt.Fprintf(&b, "%s %v\n", call, o.ledger[call])
	}
	o.add("effects", b.String())
	return nil
}

func (o *outcome) readFiles(root string) error {
	var b strings.Builder
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		fmt.Fprintf(&b, "%s %q\n", filepath.ToSlash(rel), raw)
		return err
	})
	o.add("files", b.String())
	return err
}

// damage counts what must be zero.
type damage struct{ lost, doubled, charged int }

func (d *damage) add(e damage) {
	d.lost += e.lost
	d.doubled += e.doubled
	d.charged += e.charged
}

// compare tells how got differs from the undisturbed run.
func (o *outcome) compare(got *outcome) (damage, []string) {
	var d damage
	var diffs []string
	seen := map[int]int{}
	for i, n := range got.steps {
		if seen[n]++; seen[n] > 1 {
			d.doubled++
		}
		if n != i+1 {
			diffs = append(diffs, fmt.Sprintf("step %d stands where %d should", n, i+1))
		}
	}
	for _, n := range o.steps {
		if seen[n] == 0 {
			d.lost++
		}
	}
	for call, want := range o.ledger {
		switch n := len(got.ledger[call]); {
		case n < len(want):
			d.lost++
		case n > len(want):
			d.doubled++
		}
	}
	if got.tokens != o.tokens {
		diffs = append(diffs, fmt.Sprintf("tokens: %d, and undisturbed %d", got.tokens, o.tokens))
		if got.tokens > o.tokens {
			d.charged++
		}
	}
	for _, h := range got.handles {
		if h.State == store.HandleRunning {
			diffs = append(diffs, fmt.Sprintf("handle %d of step %d reads as running, and the run is over", h.Handle, h.Step))
		}
	}
	if len(got.handles) < len(o.handles) {
		d.lost++
		diffs = append(diffs, fmt.Sprintf("%d handles are on record, and undisturbed %d", len(got.handles), len(o.handles)))
	}
	for _, want := range o.parts {
		if want.name == "trace" && len(got.settled) > 0 {
			continue // a person's word is in the prompts; the steps and observations are compared without it
		}
		if len(o.handles) > 0 && (want.name == "trace" || want.name == "observations" || want.name == "steps") {
			continue // a command dies with its process, and the model is told: what it says and asks differs
		}
		if diff := firstDifference(want.text, got.part(want.name)); diff != "" {
			diffs = append(diffs, want.name+": "+diff)
		}
	}
	return d, diffs
}

// shownLine bounds a line of a difference.
const shownLine = 600

// firstDifference shows the first line in which two texts differ.
func firstDifference(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "(nothing)", "(nothing)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			at := commonPrefix(a, b)
			return fmt.Sprintf("line %d differs at character %d\n  undisturbed: %s\n  after kills: %s", i+1, at, around(a, at), around(b, at))
		}
	}
	return ""
}

func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// around is a line near the place where it differs.
func around(s string, at int) string {
	if len(s) <= shownLine {
		return s
	}
	from := max(0, at-shownLine/4)
	to := min(len(s), from+shownLine)
	return strconv.Itoa(from) + "…" + strings.ToValidUTF8(s[from:to], "?")
}
