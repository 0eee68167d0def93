package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
)

// Backup writes a consistent copy of the store to path, with mode 0600. The
// file must not exist. Copying the file by hand is no backup, because its
// write-ahead log holds what is newest.
func (s *Store) Backup(ctx context.Context, path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return &Error{Kind: KindCantOpen, Op: "backup", Err: err}
	}
	// VACUUM INTO accepts an empty file and would otherwise create one that the
	// umask leaves open to others.
	f, err := os.OpenFile(abs, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return &Error{Kind: KindCantOpen, Op: "backup", Err: err}
	}
	if err := f.Close(); err != nil {
		return &Error{Kind: KindIO, Op: "backup", Err: err}
	}
	if err := s.vacuumInto(ctx, abs); err != nil {
		return errors.Join(err, os.Remove(abs))
	}
	return nil
}

// vacuumInto copies through a connection of its own, which holds up no writer:
// it only looks at one state of the file.
func (s *Store) vacuumInto(ctx context.Context, path string) error {
	const op = "backup"
	if s.opt.readOnly {
		return &Error{Kind: KindReadOnly, Op: op, Path: s.path, Err: errors.New("the store was opened for reading")}
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.path == "" {
		if err := s.w.take(ctx); err != nil {
			return s.failure(ctx, op, err)
		}
		defer s.w.give()
		conn, err := s.w.connect(ctx)
		if err == nil {
			_, err = conn.ExecContext(ctx, `VACUUM INTO ?`, path)
		}
		return s.failure(ctx, op, err)
	}
	db, err := sql.Open("sqlite", dsn(s.path, s.opt, "plain"))
	if err != nil {
		return s.failure(ctx, op, err)
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `VACUUM INTO ?`, path)
	return s.failure(ctx, op, errors.Join(err, db.Close()))
}
