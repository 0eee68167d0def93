package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// Size is how much of a store something takes.
type Size struct {
	Turns int64
	Runs  int64
	Rows  int64 // of all tables, the session's own included
	Bytes int64 // of text and blobs, exact; keys, numbers and indexes come on top
}

// Removed tells what a deletion took.
type Removed struct {
	Sessions      int64
	Turns         int64
	Runs          int64
	Rows          int64
	Bytes         int64 // of text and blobs
	RestorePoints int64 // files whose earlier contents are gone with it

	// Forks are the runs that stay and were forked from one that goes, or from
	// such a fork. Each holds a copy of the words up to its step, until DeleteRun
	// takes it.
	Forks []trace.RunID

	// Refused names what a sweep left alone, because a run of it is driven,
	// waits, or was left behind.
	Refused     []trace.SessionID
	RefusedRuns []trace.RunID
}

type sweepOptions struct{ dry bool }

// A SweepOption changes what a sweep does.
type SweepOption func(*sweepOptions)

// DryRun reports what a sweep would take and refuse, and takes nothing.
func DryRun() SweepOption { return func(o *sweepOptions) { o.dry = true } }

type removeOptions struct{ force bool }

// A RemoveOption changes what DeleteSession and ArchiveSession do.
type RemoveOption func(*removeOptions)

// Force takes a session although somebody drives a run of it. The driver learns it
// with whatever it writes next, before its next call and its next command at the
// latest: that fails with a ConflictError, and no word of it is written any more, only
// what completions of an archived run have cost. What it does to files and to the
// outside until then stays. Use it for a driver that cannot be stopped, as on another
// machine.
func Force() RemoveOption { return func(o *removeOptions) { o.force = true } }

// The sets that retention works on, as subselects with the one parameter ?1.
const (
	oneSession = `SELECT id FROM sessions WHERE id = ?1`
	// stillOpen says that something of the tree of run t.run_id may go on. A status
	// that only newer software knows may be one of a run that does.
	stillOpen = `EXISTS (SELECT 1 FROM runs r WHERE r.root_run_id = t.run_id AND r.status NOT IN ('completed', 'failed'))
		OR EXISTS (SELECT 1 FROM run_leases l WHERE l.run_id = t.run_id)`
	oldSessions  = `SELECT s.id FROM sessions s WHERE s.created_at < ?1 AND NOT EXISTS (SELECT 1 FROM session_turns t WHERE t.session_id = s.id AND (` + stillOpen + `))`
	keptSessions = `SELECT s.id FROM sessions s WHERE s.created_at < ?1 AND EXISTS (SELECT 1 FROM session_turns t WHERE t.session_id = s.id AND (` + stillOpen + `)) ORDER BY s.id`
	oneRoot      = `SELECT id AS run_id FROM runs WHERE id = ?1 AND root_run_id = id`
	looseRoots   = `SELECT t.id AS run_id FROM runs t WHERE t.started_at < ?1 AND t.root_run_id = t.id AND NOT EXISTS (SELECT 1 FROM session_turns st WHERE st.run_id = t.id)`
	oldRuns      = `SELECT t.run_id FROM (` + looseRoots + `) t WHERE NOT (` + stillOpen + `)`
	keptRuns     = `SELECT t.run_id FROM (` + looseRoots + `) t WHERE ` + stillOpen + ` ORDER BY t.run_id`
)

// runsOfSessions selects the runs that go with a set of sessions.
func runsOfSessions(sessions string) string {
	return `SELECT r.id FROM runs r WHERE r.root_run_id IN (SELECT t.run_id FROM session_turns t WHERE t.session_id IN (` + sessions + `))`
}

// A removal is one way to choose what goes.
type removal struct {
	op       string
	sessions string // subselect; empty when only runs go
	roots    string // subselect of the roots of the runs that go
}

func sessionRemoval(op, sessions string) removal {
	return removal{op: op, sessions: sessions, roots: `SELECT t.run_id FROM session_turns t WHERE t.session_id IN (` + sessions + `)`}
}

func runRemoval(op, roots string) removal { return removal{op: op, roots: roots} }

// chosen is what a removal takes, settled once: its statements work on these ids and
// do not make the choice again, which looks at rows that go. An id set is the JSON
// array of its ids, because one statement with one parameter then serves every set.
type chosen struct {
	runs     string
	sessions string // of no session when only runs go
}

// idSet selects the ids of the set in a parameter.
func idSet(param string) string { return `SELECT value FROM json_each(` + param + `)` }

func (r removal) choose(q *query, arg any) (c chosen, err error) {
	c.sessions = "[]"
	if r.sessions != "" {
		if err := q.row(jsonSet("sessions of "+r.op, r.sessions), []any{arg}, &c.sessions); err != nil {
			return c, err
		}
	}
	var roots string
	if err := q.row(jsonSet("roots of "+r.op, r.roots), []any{arg}, &roots); err != nil {
		return c, err
	}
	err = q.row(runsOfRootSet, []any{roots}, &c.runs)
	return c, err
}

var runsOfRootSet = jsonSet("runs of roots", `SELECT r.id FROM runs r WHERE r.root_run_id IN (`+idSet("?1")+`)`)

// jsonSet selects the one column of a query as a JSON array.
func jsonSet(name, ids string) statement {
	return statement{name, `WITH chosen (id) AS (` + ids + `) SELECT json_group_array(id) FROM chosen`}
}

// measureChosen counts the rows and the bytes of every table that belong to a set
// of runs, and of the sessions themselves, in one statement.
var measureChosen = sync.OnceValue(func() statement {
	var parts []string
	add := func(t table, where string) {
		sum := "0"
		for _, col := range t.columns {
			if col.bytes {
				sum += " + coalesce(octet_length(" + col.name + "), 0)"
			}
		}
		parts = append(parts, fmt.Sprintf("SELECT '%s', count(*), coalesce(sum(%s), 0) FROM %s WHERE %s", t.name, sum, t.name, where))
	}
	for _, t := range runTables() {
		add(t, fmt.Sprintf(t.of, idSet("?1")))
	}
	for _, t := range otherTables() {
		if t.name == "sessions" {
			add(t, "id IN ("+idSet("?2")+")")
		}
	}
	return statement{"measure", strings.Join(parts, "\nUNION ALL ")}
})

// deleteChosen empties table by table what belongs to a set of runs, the runs last. The
// foreign keys would take the rows along with their run just as well, but a cascade
// costs twice as much for each row; it is left to tables that only newer software knows.
var deleteChosen = sync.OnceValue(func() []statement {
	tables := runTables()
	out := make([]statement, 0, len(tables))
	for _, t := range slices.Backward(tables[:len(tables)-1]) {
		out = append(out, statement{"delete " + t.name, "DELETE FROM " + t.name + " WHERE " + fmt.Sprintf(t.of, idSet("?1"))})
	}
	runs := tables[len(tables)-1]
	return append(out, statement{"delete " + runs.name, "DELETE FROM " + runs.name + " WHERE " + fmt.Sprintf(runs.of, idSet("?1"))})
})

var deleteSessions = statement{"delete sessions", `DELETE FROM sessions WHERE id IN (` + idSet("?1") + `)`}

// forksOfChosen selects the runs outside of a set that hold a copy of what is in it.
var forksOfChosen = statement{"forks", `WITH RECURSIVE gone (id) AS MATERIALIZED (` + idSet("?1") + `),
	copies (id) AS (
		SELECT f.id FROM gone CROSS JOIN runs f ON f.forked_run_id = gone.id
		UNION SELECT f.id FROM copies CROSS JOIN runs f ON f.forked_run_id = copies.id)
	SELECT id FROM copies WHERE id NOT IN (SELECT id FROM gone) ORDER BY id`}

func (c chosen) forks(q *query) ([]trace.RunID, error) {
	return list(q, forksOfChosen, []any{c.runs}, func(sc scanner) (id trace.RunID, err error) { return id, sc.Scan(&id) })
}

// measure counts what the removal would take.
func (c chosen) measure(q *query) (out Removed, err error) {
	err = q.each(measureChosen(), []any{c.runs, c.sessions}, func(sc scanner) error {
		var name string
		var rows, bytes int64
		if err := sc.Scan(&name, &rows, &bytes); err != nil {
			return err
		}
		out.Rows += rows
		out.Bytes += bytes
		switch name {
		case "sessions":
			out.Sessions = rows
		case "session_turns":
			out.Turns = rows
		case "runs":
			out.Runs = rows
		case "snapshots":
			out.RestorePoints = rows
		}
		return nil
	})
	if err == nil {
		out.Forks, err = c.forks(q)
	}
	return out, err
}

// take removes it.
func (c chosen) take(t *txn) error {
	for _, st := range deleteChosen() {
		if _, err := t.exec(st, c.runs); err != nil {
			return err
		}
	}
	_, err := t.exec(deleteSessions, c.sessions)
	return err
}

// outlive takes a lease from a holder that gave no sign of life for its whole term: it
// may wake up, and would go on where it was. To everybody else it has lapsed as before.
var outlive = statement{"outlive lease", `UPDATE run_leases SET generation = generation + 1 WHERE run_id = ?`}

// free refuses what somebody drives, or takes it from its driver. It returns the roots
// whose drivers may still be there and have lost them.
func (s *Store) free(t *txn, r removal, arg any, opts ...RemoveOption) (lost []trace.RunID, err error) {
	var o removeOptions
	for _, opt := range opts {
		opt(&o)
	}
	held, err := list(&t.query, statement{"leases of " + r.op, `SELECT run_id FROM run_leases WHERE run_id IN (` + r.roots + `) ORDER BY run_id`}, []any{arg},
		func(sc scanner) (id trace.RunID, err error) { return id, sc.Scan(&id) })
	if err != nil {
		return nil, err
	}
	if o.force {
		_, err := t.exec(statement{"drop leases of " + r.op, `DELETE FROM run_leases WHERE run_id IN (` + r.roots + `)`}, arg)
		return held, err
	}
	for _, root := range held {
		_, _, how, err := s.available(&t.query, root, t.now)
		if err != nil {
			return nil, err
		}
		if how != TookLapsed {
			continue
		}
		if _, err := t.exec(outlive, root); err != nil {
			return nil, err
		}
		lost = append(lost, root)
	}
	return lost, nil
}

// remove measures and takes in one transaction, then makes sure that the words
// are not left in the log.
func (s *Store) remove(ctx context.Context, r removal, arg any, before func(*txn) error, opts ...RemoveOption) (out Removed, err error) {
	err = s.write(ctx, r.op, func(t *txn) error {
		if before != nil {
			if err := before(t); err != nil {
				return err
			}
		}
		if _, err := s.free(t, r, arg, opts...); err != nil {
			return err
		}
		gone, err := r.choose(&t.query, arg)
		if err != nil {
			return err
		}
		if out, err = gone.measure(&t.query); err != nil {
			return err
		}
		return gone.take(t)
	})
	if err != nil {
		return Removed{}, err
	}
	return out, s.scrub(ctx, r.op)
}

// SessionSize measures a session with its turns, their runs and everything
// those started; nil when there is no such session. DeleteSession directly
// afterwards reports the same figures.
func (s *Store) SessionSize(ctx context.Context, id trace.SessionID) (*Size, error) {
	var m Removed
	err := s.snapshot(ctx, "session size", func(q *query) (err error) {
		c, err := sessionRemoval("session size", oneSession).choose(q, id)
		if err == nil {
			m, err = c.measure(q)
		}
		return err
	})
	if err != nil || m.Sessions == 0 {
		return nil, err
	}
	return &Size{Turns: m.Turns, Runs: m.Runs, Rows: m.Rows, Bytes: m.Bytes}, nil
}

// DeleteSession removes a session with its turns, their runs and everything
// those started, resumable or not, all or nothing. A session of which somebody
// drives a run is a ConflictError, unless Force is given; one that is not there
// gives zeros. Notes stay, but the evidence for those that the runs drew on goes.
//
// An error of kind KindWALNotTruncated says that the session is gone and that
// its words may still be read in the write-ahead log until Compact.
func (s *Store) DeleteSession(ctx context.Context, id trace.SessionID, opts ...RemoveOption) (Removed, error) {
	return s.remove(ctx, sessionRemoval("delete session", oneSession), id, nil, opts...)
}

// SweepSessions removes every session that was created before the given time,
// as DeleteSession does, but leaves alone those of which a run is driven,
// waits, or was left behind by a crash: they are named in Refused. It issues
// the same number of statements whatever the number of sessions.
func (s *Store) SweepSessions(ctx context.Context, before time.Time, opts ...SweepOption) (Removed, error) {
	r := sessionRemoval("sweep sessions", oldSessions)
	return s.sweep(ctx, r, before, opts, func(q *query, out *Removed) (err error) {
		out.Refused, err = list(q, statement{"refused sessions", keptSessions}, []any{before.UnixMilli()},
			func(sc scanner) (id trace.SessionID, err error) { return id, sc.Scan(&id) })
		return err
	})
}

// DeleteRun removes a root run that no session reaches, with every run that it
// started. A run that somebody drives is a ConflictError, one that belongs to a
// session or to a tree above it KindInvalid; one that is not there gives zeros.
func (s *Store) DeleteRun(ctx context.Context, root trace.RunID) (Removed, error) {
	return s.remove(ctx, runRemoval("delete run", oneRoot), root, func(t *txn) error {
		info, err := runInfo(&t.query, root)
		if noRows(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if info.RootID != root {
			return invalid("delete run", "run %d belongs to the tree of run %d: delete that one", root, info.RootID)
		}
		turns, err := list(&t.query, readTurnOfRun, []any{root}, scanSessionTurn)
		if err == nil && len(turns) > 0 {
			return invalid("delete run", "run %d is a turn of session %d: delete the session", root, turns[0].SessionID)
		}
		return err
	})
}

// SweepRuns removes every root run that no session reaches and that started
// before the given time, with every run that it started; those that are driven,
// wait, or were left behind by a crash are left alone and named in RefusedRuns.
func (s *Store) SweepRuns(ctx context.Context, before time.Time, opts ...SweepOption) (Removed, error) {
	r := runRemoval("sweep runs", oldRuns)
	return s.sweep(ctx, r, before, opts, func(q *query, out *Removed) (err error) {
		out.RefusedRuns, err = list(q, statement{"refused runs", keptRuns}, []any{before.UnixMilli()},
			func(sc scanner) (id trace.RunID, err error) { return id, sc.Scan(&id) })
		return err
	})
}

func (s *Store) sweep(ctx context.Context, r removal, before time.Time, opts []SweepOption, refused func(*query, *Removed) error) (out Removed, err error) {
	var o sweepOptions
	for _, opt := range opts {
		opt(&o)
	}
	cut := before.UnixMilli()
	measure := func(q *query) (gone chosen, err error) {
		if gone, err = r.choose(q, cut); err != nil {
			return gone, err
		}
		if out, err = gone.measure(q); err != nil {
			return gone, err
		}
		return gone, refused(q, &out)
	}
	if o.dry {
		err = s.snapshot(ctx, r.op, func(q *query) error {
			_, err := measure(q)
			return err
		})
		return out, err
	}
	err = s.write(ctx, r.op, func(t *txn) error {
		gone, err := measure(&t.query)
		if err != nil {
			return err
		}
		return gone.take(t)
	})
	if err != nil {
		return Removed{}, err
	}
	return out, s.scrub(ctx, r.op)
}
