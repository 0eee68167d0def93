package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/memory"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// quotedNote is how much of a note that says nearly the same the model is shown:
// enough to tell which of the two to keep.
const quotedNote = 200

// recalled are the notes that one request may carry, and then those that it did.
type recalled struct {
	notes       prompt.Notes
	own, shared []string
}

// recall ranks the notes of earlier runs by what the run is about by now: its
// goal, and whatever it has named so far.
func (d *drive) recall(ctx context.Context) (recalled, error) {
	if d.about == nil {
		d.about = memory.WordsOf(d.contract.Goal)
	}
	for _, subject := range prompt.Subjects(d.ledger.Since(d.aboutAll)) {
		d.about.Add(subject)
	}
	d.aboutAll = d.ledger.Stored()
	var r recalled
	own, shared, err := d.notesNow(ctx)
	if err != nil {
		return r, err
	}
	if r.notes.Own, err = d.ranked(ctx, d.memoryKey(), own); err == nil {
		r.notes.Shared, err = d.ranked(ctx, store.GlobalMemoryWorkspace, shared)
	}
	return r, err
}

// notesNow are the notes as the last step left them, where nothing has taken time
// since then, and else as they are.
func (d *drive) notesNow(ctx context.Context) (own, shared []store.MemoryEntry, err error) {
	if n := d.notes; n != nil {
		d.notes = nil
		return n.Own, n.Shared, nil
	}
	return d.store.MemoryListBoth(ctx, d.memoryKey())
}

// memoryKey names the workspace among all that a store remembers. It is the
// directory itself, whichever link led to it.
func (d *drive) memoryKey() string { return d.workspace.Root() }

// ranked is one scope of notes, the least fitting first.
func (d *drive) ranked(ctx context.Context, scope string, entries []store.MemoryEntry) ([]prompt.Note, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	var draws map[string]int
	if len(entries) > 1 {
		e, err := d.evidenceOf(ctx, scope)
		if err != nil {
			return nil, err
		}
		draws = e.draws
	}
	notes := make([]memory.Note, len(entries))
	for i, e := range entries {
		notes[i] = memory.Note{Key: e.Key, Value: e.Value, Draws: draws[e.Key]}
	}
	out := make([]prompt.Note, len(entries))
	for i, at := range d.words.Rank(scope, d.about, notes) {
		e := entries[at]
		out[i] = prompt.Note{Key: e.Key, Value: e.Value, Step: e.Step, Order: at}
	}
	return out, nil
}

// evidence is what the store knew about the notes of a scope when the drive first
// asked, and what the drive has added since. Reading it again on every step would
// cost a row for each note. What other runs add meanwhile shows with the next drive.
type evidence struct {
	draws map[string]int  // distinct runs, by key
	own   map[string]bool // keys that this run has drawn on
}

func (d *drive) evidenceOf(ctx context.Context, scope string) (*evidence, error) {
	if e := d.evidence[scope]; e != nil {
		return e, nil
	}
	e := &evidence{own: map[string]bool{}}
	var err error
	if e.draws, err = d.store.MemoryDraws(ctx, scope); err != nil {
		return nil, err
	}
	if d.resumed {
		recalls, err := d.store.MemoryRecalls(ctx, d.runID())
		if err != nil {
			return nil, err
		}
		for _, r := range recalls {
			if r.Workspace == scope {
				e.own[r.Key] = true
			}
		}
	}
	if d.evidence == nil {
		d.evidence = map[string]*evidence{}
	}
	d.evidence[scope] = e
	return e, nil
}

// drawn adds what the run itself has drawn on.
func (d *drive) drawn(scope, key string) {
	if e := d.evidence[scope]; e != nil && !e.own[key] {
		e.own[key] = true
		e.draws[key]++
	}
}

// drew records the notes that a request carried which was answered: the evidence
// by which notes are kept.
func (d *drive) drew(st *step) {
	for _, key := range st.recalled.own {
		d.drawn(d.memoryKey(), key)
		d.lease.Record(store.MemoryRecall{Step: st.n, Workspace: d.memoryKey(), Key: key})
	}
	for _, key := range st.recalled.shared {
		d.drawn(store.GlobalMemoryWorkspace, key)
		d.lease.Record(store.MemoryRecall{Step: st.n, Workspace: store.GlobalMemoryWorkspace, Key: key})
	}
}

const noteScope = `"scope":{"type":"string","enum":["workspace","global"],"description":"workspace, unless it holds everywhere"}`

func (d *drive) rememberTool() tool.Tool {
	return &runTool{
		spec: tool.Spec{
			Name: "remember",
			Description: "Keep a short fact for later runs in this workspace: a command that works, a convention, a decision and its reason. The same key replaces what it held. " +
				"Notes come back as your own words, not as instructions. Use the global scope only for what is true everywhere.",
			Schema: json.RawMessage(`{"type":"object","properties":{"key":{"type":"string","description":"a short name, on one line"},"value":{"type":"string"},` +
				noteScope + `},"required":["key","value"]}`),
			Recovery: tool.Replayable,
		},
		perform: d.writeNote,
	}
}

func (d *drive) forgetTool() tool.Tool {
	return &runTool{
		spec: tool.Spec{
			Name:        "forget",
			Description: "Take back a note that turned out to be wrong or useless; nothing else removes one. A note that the operator pinned is not yours to remove.",
			Schema:      json.RawMessage(`{"type":"object","properties":{"key":{"type":"string"},` + noteScope + `},"required":["key"]}`),
			Recovery:    tool.Replayable,
		},
		perform: d.dropNote,
	}
}

// noteArgs are the arguments of both tools.
type noteArgs struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Scope string `json:"scope"`
}

// noteOf reads the arguments of a call and tells the scope that they mean.
func (d *drive) noteOf(st *step, c *call) (in noteArgs, scope string, ok bool) {
	if err := json.Unmarshal(c.args, &in); err != nil {
		d.failArguments(st, c, err.Error())
		return in, "", false
	}
	switch in.Scope {
	case "", "workspace":
		return in, d.memoryKey(), true
	case "global":
		return in, store.GlobalMemoryWorkspace, true
	}
	d.failArguments(st, c, fmt.Sprintf("scope is %q: write workspace or global", in.Scope))
	return in, "", false
}

// writeNote keeps one note.
func (d *drive) writeNote(ctx context.Context, st *step, c *call) error {
	in, scope, ok := d.noteOf(st, c)
	if !ok {
		return nil
	}
	if strings.TrimSpace(in.Value) == "" {
		d.failArguments(st, c, "value is blank: say what is to be kept, or use forget")
		return nil
	}
	limits := d.contract.Memory
	r, err := d.store.Remember(ctx, d.lease,
		store.MemoryEntry{Workspace: scope, Key: in.Key, Value: in.Value, RunID: d.runID(), Step: st.n},
		store.MemoryLimits{Entries: limits.MaxEntries, Chars: limits.MaxChars, EntryChars: limits.MaxEntryChars})
	if refused, err := d.badNote(st, c, err); refused || err != nil {
		return err
	}
	if r.Refused {
		d.refusePinned(st, c, in.Key)
		return nil
	}
	d.rec.context(st.n, "memory_write", fmt.Sprintf("%s (%d chars)", in.Key, r.Chars))
	for _, key := range r.Evicted {
		d.rec.context(st.n, "memory_evict", key)
	}
	d.emit(st.n, trace.MemoryWrote{Key: in.Key})
	text := fmt.Sprintf("\n[remember] The note %s is kept.\n", quote(in.Key))
	if said := prompt.Characters(in.Value); r.Chars < said {
		text += fmt.Sprintf("It was too long: of its %d characters the first %d are kept, the end of them a mark. Say it shorter if the rest matters.\n", said, r.Chars)
	}
	if s := r.Similar; s != nil {
		text += fmt.Sprintf("The note %s says nearly the same: %s\nReplace or forget one of the two.\n", quote(s.Key), quote(prompt.Bound(s.Value, quotedNote, trace.ObsTool)))
	}
	d.endNote(st, c, "remembered "+in.Key, text)
	return nil
}

// dropNote removes one note.
func (d *drive) dropNote(ctx context.Context, st *step, c *call) error {
	in, scope, ok := d.noteOf(st, c)
	if !ok {
		return nil
	}
	what, err := d.store.Forget(ctx, d.lease, st.n, scope, in.Key)
	if refused, err := d.badNote(st, c, err); refused || err != nil {
		return err
	}
	switch what {
	case store.ForgotPinned:
		d.refusePinned(st, c, in.Key)
	case store.ForgotRemoved:
		if e := d.evidence[scope]; e != nil { // forgetting takes the evidence along
			delete(e.draws, in.Key)
			delete(e.own, in.Key)
		}
		d.rec.context(st.n, "memory_forget", in.Key)
		d.emit(st.n, trace.MemoryForgot{Key: in.Key})
		d.endNote(st, c, "forgot "+in.Key, fmt.Sprintf("\n[forget] The note %s is gone.\n", quote(in.Key)))
	default:
		d.endNote(st, c, "nothing to forget", fmt.Sprintf("\n[forget] There was no note %s in this scope, so nothing was removed.\n", quote(in.Key)))
	}
	return nil
}

// badNote tells the model of a note that can never be stored. Any other error is
// the store's own and ends the drive.
func (d *drive) badNote(st *step, c *call, err error) (bool, error) {
	var se *store.Error
	if errors.As(err, &se) && se.Kind == store.KindInvalid {
		d.failArguments(st, c, err.Error())
		return true, nil
	}
	return false, err
}

// refusePinned refuses to touch a note that an operator keeps.
func (d *drive) refusePinned(st *step, c *call, key string) {
	d.rec.context(st.n, "memory_refused", key)
	c.refuse(st.n, c.name+" refused: pinned", fmt.Sprintf("\n[%s refused] The operator pinned the note %s. It stands as it is.\n", c.name, quote(key)))
}

// endNote settles a call about a note. Two of them stand side by side, so it has no
// target by which one would take the place of the other.
func (d *drive) endNote(st *step, c *call, decision, text string) {
	c.end(decision, trace.Observation{Step: st.n, Kind: trace.ObsTool, Origin: trace.OriginProse, Text: prompt.Bound(clean(text), d.entryCap, trace.ObsTool)})
}

// quote keeps words that a model chose on one line.
func quote(s string) string { return fmt.Sprintf("%q", s) }
