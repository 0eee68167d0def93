package store

import (
	"context"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

// MaxKept is the largest file of which a restore point or a hunk keeps the
// bytes: 1 MiB.
const MaxKept = 1 << 20

// RestoreState says what a restore point holds. The value is the stored text; a
// text that this version does not know reads as Unkept, so that no undo deletes
// a file for an unknown word.
type RestoreState string

// The states.
const (
	KeptText     RestoreState = "text"     // the bytes before the run's first write
	KeptAbsent   RestoreState = "absent"   // the run created the file
	NotKept      RestoreState = "unkept"   // the bytes are not kept; Reason says why
	KeptArchived RestoreState = "archived" // an archive emptied it
)

// RestorePoint is what a file was before the run first wrote it.
type RestorePoint struct {
	Ordinal int // set by the store: the order of the first writes
	Step    int
	Path    string // relative to the root, with slashes
	State   RestoreState
	Before  []byte
	Mode    uint32 // permission bits of the file; zero when it was absent
	Reason  string
}

var (
	insertSnapshot = statement{"insert snapshot", `INSERT INTO snapshots (run_id, path, ordinal, step, state, before, mode, reason, at)
		SELECT ?1, ?2, (SELECT count(*) FROM snapshots WHERE run_id = ?1), ?3, ?4, ?5, ?6, ?7, ?8
		WHERE true ON CONFLICT (run_id, path) DO NOTHING`}
	hasSnapshot   = statement{"has snapshot", `SELECT 1 FROM snapshots WHERE run_id = ? AND path = ?`}
	readSnapshots = statement{"read snapshots", `SELECT ordinal, step, path, state, before, mode, coalesce(reason, '') FROM snapshots WHERE run_id = ? ORDER BY ordinal`}
	readSnapshot  = statement{"read snapshot", `SELECT ordinal, step, path, state, before, mode, coalesce(reason, '') FROM snapshots WHERE run_id = ? AND path = ?`}
)

// PutRestorePoint keeps what a file is before the run first touches it, and is
// committed before the write may happen: when it fails, the write must not. A
// second point for the same path changes nothing. Bytes that are larger than
// MaxKept or no text are not kept, and the point says so.
func (s *Store) PutRestorePoint(ctx context.Context, d *Drive, p RestorePoint) error {
	p, err := p.checked()
	if err != nil {
		return err
	}
	known, err := s.hasRestorePoint(ctx, d.RunID, p.Path)
	if err != nil || known {
		return err
	}
	return d.writeAhead(ctx, "put restore point", func(t *txn) error {
		_, err := t.exec(insertSnapshot, d.RunID, p.Path, p.Step, string(p.State), p.Before, p.Mode, null(p.Reason), t.now)
		return err
	})
}

// checked is p as it is stored.
func (p RestorePoint) checked() (RestorePoint, error) {
	if err := identifier("put restore point", "path", p.Path); err != nil {
		return p, err
	}
	switch p.State {
	case KeptText:
		switch {
		case len(p.Before) > MaxKept:
			p.State, p.Before, p.Reason = NotKept, nil, "the file was larger than 1 MiB"
		case !utf8.Valid(p.Before):
			p.State, p.Before, p.Reason = NotKept, nil, "the file was not UTF-8 text"
		case p.Before == nil:
			p.Before = []byte{}
		}
	case KeptAbsent, NotKept:
		p.Before = nil
	default:
		return p, invalid("put restore point", "the state %q is none of text, absent and unkept", p.State)
	}
	return p, nil
}

// hasRestorePoint spares the synced transaction of every write but the first.
func (s *Store) hasRestorePoint(ctx context.Context, run trace.RunID, path string) (bool, error) {
	var found bool
	err := s.read(ctx, "has restore point", func(q *query) error {
		var one int
		err := q.row(hasSnapshot, []any{run, path}, &one)
		if noRows(err) {
			return nil
		}
		found = err == nil
		return err
	})
	return found, err
}

func scanSnapshot(r scanner) (p RestorePoint, err error) {
	err = r.Scan(&p.Ordinal, &p.Step, &p.Path, &p.State, &p.Before, &p.Mode, &p.Reason)
	switch p.State {
	case KeptText, KeptAbsent, NotKept, KeptArchived:
	default:
		p.State, p.Reason = NotKept, "written by newer software as "+string(p.State)
	}
	return p, err
}

// RestorePoints lists what a run kept, in the order of its first writes.
func (s *Store) RestorePoints(ctx context.Context, run trace.RunID) (ps []RestorePoint, err error) {
	err = s.read(ctx, "read restore points", func(q *query) (err error) {
		ps, err = list(q, readSnapshots, []any{run}, scanSnapshot)
		return err
	})
	return ps, err
}

// RestorePointOf reads one restore point; ErrNotFound when the run never wrote
// the path.
func (s *Store) RestorePointOf(ctx context.Context, run trace.RunID, path string) (RestorePoint, error) {
	var ps []RestorePoint
	err := s.read(ctx, "read restore point", func(q *query) (err error) {
		ps, err = list(q, readSnapshot, []any{run, path}, scanSnapshot)
		return err
	})
	if err == nil && len(ps) == 0 {
		return RestorePoint{}, notFound("restore point of "+path+" in run", int64(run))
	}
	if err != nil {
		return RestorePoint{}, err
	}
	return ps[0], nil
}
