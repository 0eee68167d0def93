package store

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// PollLimit is how many events one read returns at most.
const PollLimit = 512

// EventCursor is a place in the stream of all events of a store: the last one
// handled. It can be kept and continued from in another process.
type EventCursor int64

// EventRow is one event as its observer got it.
type EventRow struct {
	ID    EventCursor
	Event trace.Event
	At    time.Time
}

var (
	// insertEvent leaves out what comes late of a run that was archived: somebody who
	// watches there has a drive of this process, which is its newest and was not ended
	// by somebody else, to be seen by its lacking an outcome.
	insertEvent = statement{"insert event", `INSERT INTO run_events (run_id, root_run_id, step, depth, kind, json, at)
		SELECT id, root_run_id, ?2, ?3, ?4, ?5, ?6 FROM runs r WHERE id = ?1 AND (archived_at IS NULL OR EXISTS (
			SELECT 1 FROM drives d WHERE d.id = (SELECT max(id) FROM drives WHERE run_id = r.id)
				AND substr(d.owner, 1, length(?7)) = ?7 AND (d.ended_at IS NULL OR d.outcome IS NOT NULL)))`}
	lastEvent = statement{"last event", `SELECT coalesce(max(id), 0) FROM run_events`}
	// eventsSince and treeEventsSince seek in (run_id, id) and (root_run_id, id).
	eventsSince     = statement{"events since", `SELECT id, run_id, step, depth, kind, json, at FROM run_events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?`}
	treeEventsSince = statement{"tree events since", `SELECT id, run_id, step, depth, kind, json, at FROM run_events WHERE root_run_id = ? AND id > ? ORDER BY id LIMIT ?`}
)

// PutEvents makes events durable, so that another process can follow the run.
// They are evidence: not synced by themselves, and an event of a run that was
// deleted is left out, as is one of a run that was archived and is not driven in this
// process since.
func (s *Store) PutEvents(ctx context.Context, events ...trace.Event) error {
	if len(events) == 0 {
		return nil
	}
	err := s.writeSync(ctx, "put events", SyncNormal, func(t *txn) error {
		for _, e := range events {
			raw, err := json.Marshal(e)
			if err != nil {
				return invalid("put events", "an event of run %d: %v", e.RunID, err)
			}
			if _, err := t.exec(insertEvent, e.RunID, e.Step, e.Depth, e.Kind(), cleanText(string(raw)), t.now, s.host.owners()); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.wakeFollowers()
	}
	return err
}

// wakeFollowers tells the readers of this handle that there is something new.
func (s *Store) wakeFollowers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.wake)
	s.wake = make(chan struct{})
}

// EventCursor is the place behind the newest event of the whole store: what a
// reader starts from that wants only what happens next.
func (s *Store) EventCursor(ctx context.Context) (c EventCursor, err error) {
	err = s.read(ctx, "event cursor", func(q *query) error { return q.row(lastEvent, nil, &c) })
	return c, err
}

// EventsSince reads the events of one run behind a cursor, the oldest first, at
// most limit of them. A limit that is not between 1 and PollLimit means
// PollLimit. Events whose words were archived are left out; one that cannot be
// read is an UnknownFact with the bytes that were found.
func (s *Store) EventsSince(ctx context.Context, run trace.RunID, after EventCursor, limit int) ([]EventRow, error) {
	return s.events(ctx, eventsSince, run, after, limit)
}

// TreeEventsSince is EventsSince for every run of the tree under a root.
func (s *Store) TreeEventsSince(ctx context.Context, root trace.RunID, after EventCursor, limit int) ([]EventRow, error) {
	return s.events(ctx, treeEventsSince, root, after, limit)
}

func (s *Store) events(ctx context.Context, st statement, run trace.RunID, after EventCursor, limit int) (rows []EventRow, err error) {
	if limit <= 0 || limit > PollLimit {
		limit = PollLimit
	}
	err = s.read(ctx, st.name, func(q *query) error {
		for {
			found, last := 0, after
			err := q.each(st, []any{run, after, limit - len(rows)}, func(r scanner) error {
				row, archived, err := scanEvent(r)
				if err != nil {
					return err
				}
				found, last = found+1, row.ID
				if !archived {
					rows = append(rows, row)
				}
				return nil
			})
			// A page of archived events must not look like the end.
			if err != nil || len(rows) == limit || found == 0 || last == after {
				return err
			}
			after = last
		}
	})
	return rows, err
}

func scanEvent(r scanner) (row EventRow, archived bool, err error) {
	var run trace.RunID
	var step, depth int
	var kind string
	var raw []byte
	var at int64
	if err := r.Scan(&row.ID, &run, &step, &depth, &kind, &raw, &at); err != nil {
		return row, false, err
	}
	row.At = timeOf(at)
	if raw == nil {
		return row, true, nil
	}
	if err := json.Unmarshal(raw, &row.Event); err != nil {
		// One row that cannot be read must not end the stream for everybody who
		// follows it: it is passed on as what it is.
		row.Event = trace.Event{RunID: run, Step: step, Depth: depth, Fact: trace.UnknownFact{Name: kind, Raw: raw}}
	}
	return row, false, nil
}

// followEvery is how often Follow looks for events of other processes.
const followEvery = 200 * time.Millisecond

// Follow yields the events of a tree behind a cursor as they come, until ctx
// ends, which it yields as its last error. Events of this process arrive at
// once, those of others within 200 ms.
func (s *Store) Follow(ctx context.Context, root trace.RunID, after EventCursor) iter.Seq2[EventRow, error] {
	return func(yield func(EventRow, error) bool) {
		for {
			s.mu.Lock()
			wake := s.wake
			s.mu.Unlock()
			rows, err := s.TreeEventsSince(ctx, root, after, PollLimit)
			if err != nil {
				yield(EventRow{}, err)
				return
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
				after = r.ID
			}
			if len(rows) > 0 {
				continue
			}
			t := time.NewTimer(followEvery)
			select {
			case <-wake:
			case <-t.C:
			case <-ctx.Done():
			}
			t.Stop()
		}
	}
}
