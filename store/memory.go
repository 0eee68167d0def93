package store

import (
	"context"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

// Limits of what one workspace remembers, and of one entry.
const (
	MemoryMaxEntries    = 64
	MemoryMaxChars      = 16_000
	MemoryMaxEntryChars = 2_000
	MemoryMaxKeyChars   = 200

	// GlobalMemoryWorkspace keeps what is true everywhere. It is no path.
	GlobalMemoryWorkspace = "<global>"

	memoryCut = "…[truncated]" // the visible end of a value that was too long
	// A value restates another when they share at least three fifths of their words.
	similarShared, similarOf = 100, 60
)

// MemoryKind tells a decision from a fact. The value is the stored text; empty
// means a fact.
type MemoryKind string

// The kinds.
const (
	MemoryFact     MemoryKind = "fact"
	MemoryDecision MemoryKind = "decision"
)

// MemoryEntry is one note that outlives the run that wrote it.
type MemoryEntry struct {
	Workspace string // the root with every link resolved, as runs name it, or GlobalMemoryWorkspace
	Key       string
	Value     string
	Kind      MemoryKind
	Pinned    bool        // an operator's: no run replaces, forgets or evicts it
	RunID     trace.RunID // that wrote it last; zero for an operator
	Step      int
	CreatedAt time.Time // of the last write
}

// MemoryLimits bounds one workspace. A zero field means the constant of its
// name. A bound of math.MaxInt64 evicts nothing.
type MemoryLimits struct {
	Entries    int64 // MemoryMaxEntries
	Chars      int64 // MemoryMaxChars, over all values
	EntryChars int64 // MemoryMaxEntryChars
}

func (l MemoryLimits) withDefaults() MemoryLimits {
	for _, f := range []struct {
		v   *int64
		def int64
	}{{&l.Entries, MemoryMaxEntries}, {&l.Chars, MemoryMaxChars}, {&l.EntryChars, MemoryMaxEntryChars}} {
		if *f.v <= 0 {
			*f.v = f.def
		}
	}
	return l
}

// Remembered tells what a write did.
type Remembered struct {
	Refused bool         // the key is pinned; nothing changed
	Chars   int          // stored, after cutting
	Evicted []string     // keys that had to go, in order
	Similar *MemoryEntry // another entry of the workspace that says nearly the same; both stand
}

// Forgotten says what a forget did.
type Forgotten string

// The results of a forget.
const (
	ForgotRemoved Forgotten = "removed"
	ForgotPinned  Forgotten = "pinned"
	ForgotAbsent  Forgotten = "absent"
)

const memoryColumns = `workspace, key, value, kind, pinned, run_id, step, created_at`

var (
	readMemory   = statement{"read memory", `SELECT ` + memoryColumns + ` FROM memory WHERE workspace = ? AND key = ?`}
	listBoth     = statement{"list both", `SELECT ` + memoryColumns + ` FROM memory WHERE workspace IN (?, ?) ORDER BY created_at, key`}
	memoryTexts  = statement{"memory texts", `SELECT key, value, created_at FROM memory WHERE workspace = ? AND key <> ?`}
	listMemory   = statement{"list memory", `SELECT ` + memoryColumns + ` FROM memory WHERE workspace = ? ORDER BY created_at, key`}
	upsertMemory = statement{"upsert memory", `INSERT INTO memory (workspace, key, value, kind, run_id, step, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (workspace, key) DO UPDATE SET value = excluded.value, kind = excluded.kind, run_id = excluded.run_id,
			step = excluded.step, created_at = excluded.created_at`}
	keepMemory = statement{"keep memory", `INSERT INTO memory_snapshots (run_id, workspace, key, ordinal, step, state, before, kind, at)
		SELECT ?1, ?2, ?3, (SELECT coalesce(max(ordinal) + 1, 0) FROM memory_snapshots WHERE run_id = ?1), ?4, ?5, ?6, ?7, ?8
		WHERE true ON CONFLICT (run_id, workspace, key) DO NOTHING`}
	deleteMemory   = statement{"delete memory", `DELETE FROM memory WHERE workspace = ? AND key = ?`}
	clearMemory    = statement{"clear memory", `DELETE FROM memory WHERE workspace = ?`}
	deleteRecalls  = statement{"delete recalls", `DELETE FROM memory_recalls WHERE workspace = ? AND key = ?`}
	pinMemory      = statement{"pin memory", `UPDATE memory SET pinned = ? WHERE workspace = ? AND key = ?`}
	deleteEvidence = statement{"delete evidence", `DELETE FROM memory_evidence WHERE workspace = ? AND key = ?`}
	// evictable orders by the evidence for an entry, which is absent for one that
	// no run has drawn on.
	evictable = statement{"evictable memory", `SELECT m.key, length(m.value) FROM memory m
		LEFT JOIN memory_evidence e ON e.workspace = m.workspace AND e.key = m.key
		WHERE m.workspace = ?1 AND m.key <> ?2 AND m.pinned = 0
		ORDER BY coalesce(e.runs, 0), coalesce(e.last_at, 0), m.created_at, m.id LIMIT ?3`}
	// undrawnMemory is the beginning of the same order: the entries that no run has
	// drawn on. Two indexes side by side tell which those are; only they are looked up.
	undrawnMemory = statement{"undrawn memory", `SELECT m.key, length(m.value)
		FROM memory m WHERE m.workspace = ?1 AND m.key <> ?2 AND m.pinned = 0
			AND m.key IN (SELECT key FROM memory WHERE workspace = ?1 EXCEPT SELECT key FROM memory_evidence WHERE workspace = ?1)
		ORDER BY m.created_at, m.id LIMIT ?3`}
	countDrawn  = statement{"count drawn memory", `SELECT count(*) FROM memory_evidence WHERE workspace = ?`}
	sizeMemory  = statement{"size memory", `SELECT count(*), coalesce(sum(length(value)), 0) FROM memory WHERE workspace = ? AND key <> ?`}
	memoryDraws = statement{"memory draws", `SELECT key, runs FROM memory_evidence WHERE workspace = ?`}
)

// Remember writes a note in the name of a run, evicts what the limits no longer
// hold, and looks for a note that says nearly the same, in one transaction. The
// first write of a key by a run keeps what was there, so that a rewind can put
// it back. A value that is too long is cut, with a visible mark.
func (s *Store) Remember(ctx context.Context, d *Drive, e MemoryEntry, lim MemoryLimits) (Remembered, error) {
	if err := memoryKey("remember", e.Workspace, e.Key); err != nil {
		return Remembered{}, err
	}
	if e.Value == "" {
		return Remembered{}, invalid("remember", "the value of %q is empty", e.Key)
	}
	lim = lim.withDefaults()
	e.Value = cutValue(e.Value, lim.EntryChars)
	if e.Kind == "" {
		e.Kind = MemoryFact
	}
	var out Remembered
	err := d.writeAhead(ctx, "remember", func(t *txn) (err error) {
		out, err = remember(t, d.RunID, e, lim)
		return err
	})
	return out, err
}

func remember(t *txn, run trace.RunID, e MemoryEntry, lim MemoryLimits) (Remembered, error) {
	old, err := memoryEntry(&t.query, e.Workspace, e.Key)
	if err != nil {
		return Remembered{}, err
	}
	if old != nil && old.Pinned {
		return Remembered{Refused: true}, nil
	}
	out := Remembered{Chars: utf8.RuneCountInString(e.Value)}
	sought := newSimilarity(e)
	entries, chars, err := sought.among(&t.query, e.Workspace)
	if err != nil {
		return out, err
	}
	if out.Similar, err = sought.entry(&t.query, e.Workspace); err != nil {
		return out, err
	}
	if err := keepEntry(t, run, e.Step, e.Workspace, e.Key, old); err != nil {
		return out, err
	}
	if _, err := t.exec(upsertMemory, e.Workspace, e.Key, e.Value, string(e.Kind), run, e.Step, t.now); err != nil {
		return out, err
	}
	out.Evicted, err = evict(t, run, e, entries+1, chars+int64(out.Chars), lim)
	return out, err
}

// keepEntry takes the restore point of a key, once for each run.
func keepEntry(t *txn, run trace.RunID, step int, workspace, key string, old *MemoryEntry) error {
	state, value, kind := KeptAbsent, any(nil), any(nil)
	if old != nil {
		state, value, kind = KeptText, old.Value, string(old.Kind)
	}
	_, err := t.exec(keepMemory, run, workspace, key, step, string(state), value, kind, t.now)
	return err
}

// evictedAtOnce is how many entries an eviction looks up in one go. Most writes
// evict one; a sort that keeps a few costs half of one that keeps all.
const evictedAtOnce = 16

// evict removes what the limits no longer hold of so many entries and characters,
// the least recalled first, and never what was just written.
func evict(t *txn, run trace.RunID, e MemoryEntry, entries, chars int64, lim MemoryLimits) ([]string, error) {
	type candidate struct {
		key   string
		chars int64
	}
	fits := func() bool { return entries <= lim.Entries && chars <= lim.Chars }
	if fits() {
		return nil, nil
	}
	order, err := evictionOrder(&t.query, e.Workspace, entries)
	if err != nil {
		return nil, err
	}
	var gone []string
	for len(order) > 0 {
		// Those that went are no longer found, so that the next ones come first.
		next, err := list(&t.query, order[0], []any{e.Workspace, e.Key, evictedAtOnce}, func(r scanner) (c candidate, err error) { return c, r.Scan(&c.key, &c.chars) })
		if err != nil {
			return nil, err
		}
		if len(next) == 0 {
			order = order[1:]
		}
		for _, c := range next {
			old, err := memoryEntry(&t.query, e.Workspace, c.key)
			if err != nil {
				return nil, err
			}
			if err := keepEntry(t, run, e.Step, e.Workspace, c.key, old); err != nil {
				return nil, err
			}
			if _, err := t.exec(deleteMemory, e.Workspace, c.key); err != nil {
				return nil, err
			}
			entries--
			chars -= c.chars
			gone = append(gone, c.key)
			if fits() {
				return gone, nil
			}
		}
	}
	return gone, nil
}

// evictionOrder are the statements that find what goes next, one after the other.
// Where runs have drawn on most entries, looking up the evidence for each costs
// several times what it costs to find the others, which go first; where they have
// drawn on few, it is the other way round.
func evictionOrder(q *query, workspace string, entries int64) ([]statement, error) {
	var drawn int64
	if err := q.row(countDrawn, []any{workspace}, &drawn); err != nil {
		return nil, err
	}
	if drawn*2 > entries {
		return []statement{undrawnMemory, evictable}, nil
	}
	return []statement{evictable}, nil
}

// Forget removes a note in the name of a run, and the evidence for it, so that
// what was found wrong does not come back.
func (s *Store) Forget(ctx context.Context, d *Drive, step int, workspace, key string) (Forgotten, error) {
	out := ForgotAbsent
	err := d.writeAhead(ctx, "forget", func(t *txn) error {
		out = ForgotAbsent
		old, err := memoryEntry(&t.query, workspace, key)
		if err != nil || old == nil {
			return err
		}
		if old.Pinned {
			out = ForgotPinned
			return nil
		}
		if err := keepEntry(t, d.RunID, step, workspace, key, old); err != nil {
			return err
		}
		// The figures first: there is nothing left to bring up to date while the
		// recalls go one by one.
		for _, st := range []statement{deleteEvidence, deleteRecalls} {
			if _, err := t.exec(st, workspace, key); err != nil {
				return err
			}
		}
		_, err = t.exec(deleteMemory, workspace, key)
		out = ForgotRemoved
		return err
	})
	return out, err
}

// MemoryPut writes a note as an operator: over a pin, without a limit and
// without a restore point.
func (s *Store) MemoryPut(ctx context.Context, e MemoryEntry) error {
	if err := memoryKey("put memory", e.Workspace, e.Key); err != nil {
		return err
	}
	if e.Kind == "" {
		e.Kind = MemoryFact
	}
	return s.write(ctx, "put memory", func(t *txn) error {
		if _, err := t.exec(upsertMemory, e.Workspace, e.Key, noteText(e.Value), string(e.Kind), e.RunID, e.Step, t.now); err != nil {
			return err
		}
		if !e.Pinned {
			return nil
		}
		_, err := t.exec(pinMemory, 1, e.Workspace, e.Key)
		return err
	})
}

// MemoryGet reads one note, or nil.
func (s *Store) MemoryGet(ctx context.Context, workspace, key string) (e *MemoryEntry, err error) {
	err = s.read(ctx, "read memory", func(q *query) (err error) {
		e, err = memoryEntry(q, workspace, key)
		return err
	})
	return e, err
}

// MemoryList lists a workspace's notes, the oldest first, those of one
// millisecond by key.
func (s *Store) MemoryList(ctx context.Context, workspace string) (es []MemoryEntry, err error) {
	err = s.read(ctx, "list memory", func(q *query) (err error) {
		es, err = list(q, listMemory, []any{workspace}, scanMemory)
		return err
	})
	return es, err
}

// MemoryListBoth lists a workspace's notes and those kept for every workspace,
// each as MemoryList does.
func (s *Store) MemoryListBoth(ctx context.Context, workspace string) (own, shared []MemoryEntry, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, classify(ctx, "list memory", err)
	}
	// A few rows by their key: hearing a cancellation within would cost more than
	// reading them, because the driver starts goroutines for it.
	n := Notes{Workspace: workspace}
	err = s.read(context.WithoutCancel(ctx), "list memory", n.list)
	return n.Own, n.Shared, err
}

// list reads the notes anew.
func (n *Notes) list(q *query) error {
	n.Own, n.Shared = nil, nil
	all, err := list(q, listBoth, []any{n.Workspace, GlobalMemoryWorkspace}, scanMemory)
	for _, e := range all {
		if e.Workspace == n.Workspace {
			n.Own = append(n.Own, e)
		} else {
			n.Shared = append(n.Shared, e)
		}
	}
	return err
}

// MemoryPin pins or unpins a note and reports whether there is one.
func (s *Store) MemoryPin(ctx context.Context, workspace, key string, pinned bool) (bool, error) {
	n, err := s.changeMemory(ctx, "pin memory", pinMemory, boolInt(pinned), workspace, key)
	return n == 1, err
}

// MemoryDelete removes a note, pinned or not, and reports whether there was one.
func (s *Store) MemoryDelete(ctx context.Context, workspace, key string) (bool, error) {
	n, err := s.changeMemory(ctx, "delete memory", deleteMemory, workspace, key)
	return n == 1, err
}

// MemoryClear removes every note of a workspace, pinned or not, and returns how
// many there were.
func (s *Store) MemoryClear(ctx context.Context, workspace string) (int64, error) {
	return s.changeMemory(ctx, "clear memory", clearMemory, workspace)
}

func (s *Store) changeMemory(ctx context.Context, op string, st statement, args ...any) (n int64, err error) {
	err = s.write(ctx, op, func(t *txn) (err error) {
		n, err = t.exec(st, args...)
		return err
	})
	return n, err
}

// MemoryDraws counts, for each key of a workspace, the distinct runs whose
// prompts carried the note.
func (s *Store) MemoryDraws(ctx context.Context, workspace string) (map[string]int, error) {
	type draw struct {
		key  string
		runs int64 // as the driver has it: any other type takes a text in between
	}
	var all []draw
	err := s.read(ctx, "memory draws", func(q *query) (err error) {
		all, err = list(q, memoryDraws, []any{workspace}, func(r scanner) (d draw, err error) { return d, r.Scan(&d.key, &d.runs) })
		return err
	})
	out := make(map[string]int, len(all))
	for _, d := range all {
		out[d.key] = int(d.runs)
	}
	return out, err
}

func memoryEntry(q *query, workspace, key string) (*MemoryEntry, error) {
	es, err := list(q, readMemory, []any{workspace, key}, scanMemory)
	if err != nil || len(es) == 0 {
		return nil, err
	}
	return &es[0], nil
}

func scanMemory(r scanner) (e MemoryEntry, err error) {
	var at int64
	err = r.Scan(&e.Workspace, &e.Key, &e.Value, &e.Kind, &e.Pinned, &e.RunID, &e.Step, &at)
	if e.Kind != MemoryDecision {
		e.Kind = MemoryFact
	}
	e.CreatedAt = timeOf(at)
	return e, err
}

// memoryKey refuses a key that could not be printed as one line of a list.
func memoryKey(op, workspace, key string) error {
	if err := identifier(op, "workspace", workspace); err != nil {
		return err
	}
	if err := identifier(op, "key", key); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(key); n > MemoryMaxKeyChars {
		return invalid(op, "the key has %d characters and may have %d", n, MemoryMaxKeyChars)
	}
	if strings.ContainsFunc(key, unicode.IsControl) {
		return invalid(op, "the key %q holds a line break or another control character", key)
	}
	return nil
}

// noteText is a value as it is stored. A NUL would end it in every sum of lengths.
func noteText(v string) string { return strings.ReplaceAll(cleanText(v), "\x00", "\uFFFD") }

// cutValue brings a value under its cap, ending it visibly; a cap below the mark
// leaves the mark alone.
func cutValue(v string, limit int64) string {
	v = noteText(v)
	if limit >= math.MaxInt32 || int64(utf8.RuneCountInString(v)) <= limit {
		return v
	}
	keep := max(0, limit-int64(utf8.RuneCountInString(memoryCut)))
	return firstRunes(v, int(keep)) + memoryCut
}
