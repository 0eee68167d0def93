package store

import (
	"context"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// RewindKind says what an item of a rewind is about. The value is the stored text.
type RewindKind string

// The kinds.
const (
	RewindFile           RewindKind = "file"
	RewindMemoryRestored RewindKind = "memory_restored"
	RewindMemoryRemoved  RewindKind = "memory_removed"
	RewindQueue          RewindKind = "queue"
)

// RewindItem is one thing that a rewind did or could not do.
type RewindItem struct {
	Ordinal int // set by the store
	Kind    RewindKind
	Name    string // path, key or goal
	Verdict string // restored, removed, applied, stale, not_kept, no_hunk, refused, failed …
	Detail  string
}

// RewindRow is one rewind of a run, finished or not.
type RewindRow struct {
	ID        int64
	UndidStep int  // zero when the whole run or one file was undone
	Done      bool // false when the process died in the middle
	Items     []RewindItem
	At        time.Time
}

// Rewinding is a rewind in progress. It holds the run's lease, so that nobody
// drives the run meanwhile, and is recorded before anything is undone. It is
// safe for concurrent use.
type Rewinding struct {
	ID    int64
	RunID trace.RunID

	store *Store
	lease *lease

	mu   sync.Mutex
	next int
	done bool
}

var (
	insertRewind = statement{"insert rewind", `INSERT INTO rewinds (run_id, undid_step, state, at) VALUES (?, ?, 'started', ?) RETURNING id`}
	insertItem   = statement{"insert rewind item", `INSERT INTO rewind_items (rewind_id, ordinal, kind, name, verdict, detail) VALUES (?, ?, ?, ?, ?, ?)`}
	finishRewind = statement{"finish rewind", `UPDATE rewinds SET state = 'done' WHERE id = ?`}
	markReverted = statement{"mark reverted", `UPDATE edits SET reverted_by = ? WHERE id = ? AND run_id = ?`}
	readRewinds  = statement{"read rewinds", `SELECT id, coalesce(undid_step, 0), state = 'done', at FROM rewinds WHERE run_id = ? ORDER BY id`}
	readItems    = statement{"read rewind items", `SELECT i.rewind_id, i.ordinal, i.kind, i.name, i.verdict, coalesce(i.detail, '')
		FROM rewind_items i JOIN rewinds r ON r.id = i.rewind_id WHERE r.run_id = ? ORDER BY i.rewind_id, i.ordinal`}
	readKept = statement{"read kept memory", `SELECT workspace, key, state, coalesce(before, ''), coalesce(kind, '') FROM memory_snapshots
		WHERE run_id = ? ORDER BY ordinal`}
	restoreMemory = statement{"restore memory", `INSERT INTO memory (workspace, key, value, kind, run_id, step, created_at) VALUES (?, ?, ?, ?, ?, 0, ?)
		ON CONFLICT (workspace, key) DO UPDATE SET value = excluded.value, kind = excluded.kind`}
	clearQueue = statement{"clear queue", `DELETE FROM agent_queue WHERE parent_run_id = ? RETURNING goal, ticket`}
)

// BeginRewind takes the lease of a run and records that it is being undone:
// one step when undidStep is greater than zero, otherwise the run or a file of
// it. A run that somebody drives is a ConflictError, one that is not there
// ErrNotFound, and one that was archived ErrArchived: what its files were is gone,
// so it could only be undone by half. The caller must call Done.
func (s *Store) BeginRewind(ctx context.Context, run trace.RunID, undidStep int) (*Rewinding, error) {
	rw := &Rewinding{RunID: run, store: s}
	err := s.write(ctx, "begin rewind", func(t *txn) error {
		info, err := withWords(&t.query, "begin rewind", run)
		if err != nil {
			return err
		}
		if rw.lease, _, err = s.acquire(t, info.RootID, 0); err != nil {
			return err
		}
		rw.ID, err = t.insert(insertRewind, run, nullID(max(0, undidStep)), t.now)
		return err
	})
	if err != nil {
		return nil, err
	}
	rw.lease.hold()
	return rw, nil
}

// write runs fn under the rewind's lease.
func (r *Rewinding) write(ctx context.Context, op string, fn func(*txn) error) error {
	return r.store.write(ctx, op, func(t *txn) error {
		if err := r.lease.renew(t); err != nil {
			return err
		}
		return fn(t)
	})
}

func (r *Rewinding) add(t *txn, it RewindItem) error {
	_, err := t.exec(insertItem, r.ID, r.next, string(it.Kind), cleanText(it.Name), cleanText(it.Verdict), null(it.Detail))
	r.next++
	return err
}

// Add records what became of one thing. The edits named are marked as taken back.
func (r *Rewinding) Add(ctx context.Context, it RewindItem, edits ...int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.numbered(func() error {
		return r.write(ctx, "add rewind item", func(t *txn) error {
			for _, id := range edits {
				if _, err := t.exec(markReverted, r.ID, id, r.RunID); err != nil {
					return err
				}
			}
			return r.add(t, it)
		})
	})
}

// numbered gives the numbers of items back when their transaction failed.
func (r *Rewinding) numbered(fn func() error) error {
	before := r.next
	err := fn()
	if err != nil {
		r.next = before
	}
	return err
}

// Memory brings every note that the run wrote or removed back to what it was
// before the run first touched it, pinned or not, and returns the items. What
// an archive emptied is left alone and said to be.
func (r *Rewinding) Memory(ctx context.Context) (items []RewindItem, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.numbered(func() error {
		return r.write(ctx, "rewind memory", func(t *txn) error {
			items, err = r.memory(t)
			return err
		})
	})
	return items, err
}

func (r *Rewinding) memory(t *txn) ([]RewindItem, error) {
	type kept struct{ workspace, key, state, before, kind string }
	ks, err := list(&t.query, readKept, []any{r.RunID}, func(sc scanner) (k kept, err error) {
		return k, sc.Scan(&k.workspace, &k.key, &k.state, &k.before, &k.kind)
	})
	if err != nil {
		return nil, err
	}
	var items []RewindItem
	for _, k := range ks {
		it := RewindItem{Kind: RewindMemoryRestored, Name: k.key, Verdict: "restored"}
		switch RestoreState(k.state) {
		case KeptText:
			if k.kind == "" {
				k.kind = string(MemoryFact)
			}
			_, err = t.exec(restoreMemory, k.workspace, k.key, k.before, k.kind, r.RunID, t.now)
		case KeptAbsent:
			it.Kind, it.Verdict = RewindMemoryRemoved, "removed"
			var n int64
			if n, err = t.exec(deleteMemory, k.workspace, k.key); n == 0 {
				it.Verdict = "absent"
			}
		default:
			it.Verdict, it.Detail = "not_kept", "the words were archived"
		}
		if err != nil {
			return nil, err
		}
		it.Ordinal = r.next
		if err := r.add(t, it); err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

// Queue takes the run's own waiting children out of the queue and returns the items.
func (r *Rewinding) Queue(ctx context.Context) (items []RewindItem, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.numbered(func() error {
		return r.write(ctx, "rewind queue", func(t *txn) error {
			items = nil
			goals, err := list(&t.query, clearQueue, []any{r.RunID}, func(sc scanner) (g string, err error) {
				var ticket int64
				return g, sc.Scan(&g, &ticket)
			})
			if err != nil {
				return err
			}
			for _, g := range goals {
				it := RewindItem{Ordinal: r.next, Kind: RewindQueue, Name: g, Verdict: "removed"}
				if err := r.add(t, it); err != nil {
					return err
				}
				items = append(items, it)
			}
			return nil
		})
	})
	return items, err
}

// Done records that the rewind came to its end, and frees the run. After a
// failure, pass complete as false: the rewind then reads as broken off. It may
// be called twice, and ignores the cancellation of ctx.
func (r *Rewinding) Done(ctx context.Context, complete bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return nil
	}
	r.done = true
	var err error
	if complete {
		err = r.store.writeSurely(ctx, "finish rewind", func(t *txn) error {
			_, err := t.exec(finishRewind, r.ID)
			return err
		})
	}
	if rerr := r.lease.release(ctx); rerr != nil {
		err = joinErrors(rerr, err)
	}
	return err
}

// Rewinds lists how often a run was undone, the oldest first, with what became
// of each thing.
func (s *Store) Rewinds(ctx context.Context, run trace.RunID) (rows []RewindRow, err error) {
	err = s.snapshot(ctx, "read rewinds", func(q *query) error {
		rows, err = list(q, readRewinds, []any{run}, func(sc scanner) (r RewindRow, err error) {
			var at int64
			err = sc.Scan(&r.ID, &r.UndidStep, &r.Done, &at)
			r.At = timeOf(at)
			return r, err
		})
		if err != nil {
			return err
		}
		at := map[int64]*RewindRow{}
		for i := range rows {
			at[rows[i].ID] = &rows[i]
		}
		return q.each(readItems, []any{run}, func(sc scanner) error {
			var id int64
			var it RewindItem
			if err := sc.Scan(&id, &it.Ordinal, &it.Kind, &it.Name, &it.Verdict, &it.Detail); err != nil {
				return err
			}
			if r := at[id]; r != nil {
				r.Items = append(r.Items, it)
			}
			return nil
		})
	})
	return rows, err
}
