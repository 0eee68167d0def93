package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// StoreSize is what a store takes on the disk.
type StoreSize struct {
	FileBytes int64 // of the main file
	FreeBytes int64 // of pages in it that hold nothing, until Compact
	WALBytes  int64 // of the write-ahead log beside it
	Sessions  int64
	Runs      int64
	Tables    []TableSize // the largest first, indexes included; empty where SQLite cannot tell
}

// TableSize is what one table or index takes.
type TableSize struct {
	Name  string
	Bytes int64
}

var (
	pageFacts  = statement{"page facts", `SELECT page_size, page_count, freelist_count FROM pragma_page_size, pragma_page_count, pragma_freelist_count`}
	countAll   = statement{"count sessions and runs", `SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM runs)`}
	tableSizes = statement{"table sizes", `SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC, 1`}
	liveLeases = statement{"leases", `SELECT run_id FROM run_leases ORDER BY run_id`}
)

// StoreSize measures the whole store.
func (s *Store) StoreSize(ctx context.Context) (out StoreSize, err error) {
	err = s.snapshot(ctx, "store size", func(q *query) error {
		var size, pages, free int64
		if err := q.row(pageFacts, nil, &size, &pages, &free); err != nil {
			return err
		}
		out.FileBytes, out.FreeBytes = size*pages, size*free
		if err := q.row(countAll, nil, &out.Sessions, &out.Runs); err != nil {
			return err
		}
		tables, err := list(q, tableSizes, nil, func(r scanner) (t TableSize, err error) { return t, r.Scan(&t.Name, &t.Bytes) })
		if err != nil && ctx.Err() != nil {
			return err
		}
		out.Tables = tables
		return nil
	})
	if err == nil && s.path != "" {
		if fi, serr := os.Stat(s.path + "-wal"); serr == nil {
			out.WALBytes = fi.Size()
		}
	}
	return out, err
}

// Compact gives the pages that hold nothing back to the file system and returns
// by how many bytes the file shrank. It rewrites the whole file, holds up every
// writer meanwhile, and needs as much free space as the file takes; it is
// refused with a ConflictError while anybody drives a run. An error of kind
// KindWALNotTruncated says that another reader kept the log from being cut, so
// that the file shrinks later.
func (s *Store) Compact(ctx context.Context) (int64, error) {
	const op = "compact"
	if s.opt.readOnly {
		return 0, &Error{Kind: KindReadOnly, Op: op, Path: s.path, Err: errors.New("the store was opened for reading")}
	}
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if err := s.w.take(ctx); err != nil {
		return 0, s.failure(ctx, op, err)
	}
	defer s.w.give()
	conn, err := s.w.connect(ctx)
	if err != nil {
		return 0, s.failure(ctx, op, err)
	}
	if err := s.nobodyDrives(ctx); err != nil {
		return 0, s.failure(ctx, op, err)
	}
	if s.path == "" {
		_, err := conn.ExecContext(ctx, `VACUUM`)
		return 0, s.failure(ctx, op, err)
	}
	// What lies in the log is not in the file yet, so that the file must be
	// measured behind it.
	if err := s.truncate(ctx, op); err != nil {
		return 0, err
	}
	before, err := fileSize(s.path)
	if err != nil {
		return 0, &Error{Kind: KindIO, Op: op, Path: s.path, Err: err}
	}
	if _, err := conn.ExecContext(ctx, `VACUUM`); err != nil {
		return 0, s.failure(ctx, op, err)
	}
	terr := s.truncate(ctx, op)
	after, err := fileSize(s.path)
	if err != nil {
		return 0, &Error{Kind: KindIO, Op: op, Path: s.path, Err: err}
	}
	return max(0, before-after), terr
}

// nobodyDrives refuses while a lease is live; the caller has the writer.
func (s *Store) nobodyDrives(ctx context.Context) error {
	q := &query{ctx: ctx, prepare: s.w.prepare(ctx), fail: s.opt.fail}
	held, err := list(q, liveLeases, nil, func(r scanner) (id trace.RunID, err error) { return id, r.Scan(&id) })
	if err != nil {
		return err
	}
	now := s.stamp()
	for _, root := range held {
		if _, _, _, err := s.available(q, root, now); err != nil {
			return err
		}
	}
	return nil
}

// scrub cuts the write-ahead log after words were removed: it holds them until
// then.
func (s *Store) scrub(ctx context.Context, op string) error {
	if s.path == "" || !s.opt.secureDelete {
		return nil
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.w.take(ctx); err != nil {
		return s.failure(ctx, op, err)
	}
	defer s.w.give()
	if _, err := s.w.connect(ctx); err != nil {
		return s.failure(ctx, op, err)
	}
	return s.truncate(ctx, op)
}

// truncate copies the log into the file and cuts it; the caller has the writer.
// A reader that looks at an older state keeps the log for as long as it does.
func (s *Store) truncate(ctx context.Context, op string) error {
	deadline := time.Now().Add(s.opt.busyTimeout)
	for {
		if _, err := s.w.connect(ctx); err != nil {
			return s.failure(ctx, op, err)
		}
		left, err := s.w.cutLog(ctx)
		if err != nil {
			return s.failure(ctx, op, err)
		}
		if left == 0 {
			return nil
		}
		if !time.Now().Before(deadline) {
			return &Error{Kind: KindWALNotTruncated, Op: op, Path: s.path,
				Err: fmt.Errorf("it is done, but a reader keeps %d pages of the write-ahead log: call Compact when it has gone", left)}
		}
		if err := pause(ctx, cutPause/2+rand.N(cutPause)); err != nil {
			return s.failure(ctx, op, err)
		}
	}
}

// cutPause is about how long writers have the file between two tries to cut its log.
const cutPause = 20 * time.Millisecond

// cutLog copies the log into the file and cuts it, and returns how many pages of it
// stay because somebody reads or writes; zero when none do. It does not wait: SQLite
// would wait for the readers with the file held against all writers.
func (w *writer) cutLog(ctx context.Context) (left int, err error) {
	var wait int
	if err := w.conn.QueryRowContext(ctx, `PRAGMA busy_timeout`).Scan(&wait); err != nil {
		return 0, err
	}
	if _, err := w.conn.ExecContext(ctx, `PRAGMA busy_timeout=0`); err != nil {
		return 0, err
	}
	defer func() {
		if _, rerr := w.conn.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf(`PRAGMA busy_timeout=%d`, wait)); rerr != nil {
			w.drop() // the next one is made anew, and waits as it should
		}
	}()
	var busy, pages, done int
	if err := w.conn.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&busy, &pages, &done); err != nil {
		return 0, err
	}
	if busy == 0 {
		return 0, nil
	}
	return max(1, pages), nil
}

func fileSize(path string) (int64, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}
