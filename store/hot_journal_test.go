package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// leftBehind makes a store at whose writer died while it committed, in the time
// before there is a write-ahead log: its file is half changed, and a rollback
// journal lies beside it.
func leftBehind(t *testing.T, at string) {
	t.Helper()
	from := filepath.Join(t.TempDir(), "whole.db")
	s := openAt(t, from)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(from)+"?_pragma=journal_mode(DELETE)&_pragma=cache_size(1)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	// More than the cache holds, so that pages reach the file before the commit.
	for range 200 {
		if _, err := tx.Exec(`INSERT INTO store_meta (key, value) VALUES (hex(randomblob(16)), hex(randomblob(4000)))`); err != nil {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{"", "-journal"} {
		raw, err := os.ReadFile(from + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAStoreWhoseWriterDiedBeforeItsFirstLogIsRolledBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	leftBehind(t, path)
	_, err := Open(context.Background(), path, WithReadOnly())
	var se *Error
	if !errors.As(err, &se) || se.Kind != KindReadOnly {
		t.Errorf("opening for reading = %v, want KindReadOnly", err)
	}
	s := openAt(t, path)
	sound(t, s)
	if s.JournalMode() != "wal" {
		t.Errorf("journal mode %q", s.JournalMode())
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
