package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/initorigin/io-harness-go/internal/testkit"
)

func TestAFileThatOthersCanReadIsRefusedOnDemand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("permission bits do not say who can read on windows")
	}
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	wantKind(t, func() error { _, err := Open(context.Background(), path, WithStrictPermissions()); return err }, KindCantOpen)
	openAt(t, path)
	if fi, _ := os.Stat(path); fi.Mode().Perm() != 0o644 {
		t.Errorf("Open changed the mode of a file that it did not create to %04o", fi.Mode().Perm())
	}
}

func TestAPlainConnectionSeesTheWriteAheadLog(t *testing.T) {
	s := newFile(t)
	if s.JournalMode() != "wal" {
		t.Skipf("this file system has no write-ahead log: %s", s.JournalMode())
	}
	db, err := sql.Open("sqlite", testkit.DSN(s.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var mode string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
		t.Errorf("journal mode is %q, %v", mode, err)
	}
}

func TestOddPathsNameOneFile(t *testing.T) {
	for _, name := range []string{"with space.db", "q?x=1.db", "h#ash.db", "per%20cent.db", "ümläut.db", "semi;amp&.db", "'quote\".db"} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && name != "with space.db" && name != "ümläut.db" {
				t.Skip("not a file name on windows")
			}
			dir := t.TempDir()
			s := openAt(t, filepath.Join(dir, name))
			start(t, s, RunStart{})
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != 1 || entries[0].Name() != name {
				t.Fatalf("directory holds %v, %v; want only %q", entries, err, name)
			}
			again := openAt(t, filepath.Join(dir, name))
			if r, err := again.LastRun(context.Background()); err != nil || r == nil {
				t.Fatalf("the run is not there: %v, %v", r, err)
			}
		})
	}
}

// sqliteFile makes a database with the given script, outside of the store.
func sqliteFile(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", testkit.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(script); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sum(t *testing.T, path string) [32]byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(raw)
}

func TestARefusedFileKeepsEveryByte(t *testing.T) {
	ours := fmt.Sprintf("PRAGMA application_id=%d;", applicationID)
	for _, tc := range []struct {
		name   string
		script string
		want   error
	}{
		{"another program's tables", "CREATE TABLE notes (x TEXT); INSERT INTO notes VALUES ('mine')", ErrForeignStore},
		{"another program's application id", "PRAGMA application_id=77; CREATE TABLE notes (x TEXT)", ErrForeignStore},
		{"a store of another implementation", "PRAGMA user_version=7; CREATE TABLE runs (id INTEGER PRIMARY KEY); CREATE TABLE steps (id INTEGER); CREATE TABLE run_leases (run_id INTEGER)", ErrForeignStore},
		{"a store of another implementation in WAL mode", "PRAGMA journal_mode=WAL; PRAGMA user_version=7; CREATE TABLE runs (id INTEGER PRIMARY KEY); CREATE TABLE steps (id INTEGER); CREATE TABLE run_leases (run_id INTEGER)", ErrForeignStore},
		{"a store that demands newer software", ours + "PRAGMA user_version=900; CREATE TABLE store_meta (key TEXT PRIMARY KEY, value TEXT); INSERT INTO store_meta VALUES ('min_reader', '900')", ErrNewerStore},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := sqliteFile(t, tc.script)
			before := sum(t, path)
			_, err := Open(context.Background(), path)
			if !errors.Is(err, tc.want) {
				t.Errorf("Open: %v, want %v", err, tc.want)
			}
			if sum(t, path) != before {
				t.Error("the file was changed")
			}
			for _, suffix := range []string{"-wal", "-shm", "-journal"} {
				if _, err := os.Stat(path + suffix); err == nil {
					t.Errorf("%s was left behind", suffix)
				}
			}
		})
	}
}

func TestAFileThatIsNoDatabaseIsRefusedAndKept(t *testing.T) {
	for name, content := range map[string]string{
		"one byte":        "x",
		"two bytes":       "xy",
		"a line":          "hello\n",
		"a long text":     strings.Repeat("this is no database. ", 500),
		"zeros":           strings.Repeat("\x00", 8192),
		"half the header": "SQLite for",
	} {
		for _, opts := range [][]Option{nil, {WithReadOnly()}} {
			t.Run(fmt.Sprintf("%s %d", name, len(opts)), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "notes.txt")
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				_, err := Open(context.Background(), path, opts...)
				if !errors.Is(err, ErrForeignStore) || !strings.Contains(err.Error(), path) {
					t.Errorf("Open: %v", err)
				}
				if got, err := os.ReadFile(path); err != nil || string(got) != content {
					t.Errorf("the file was changed to %d bytes, %v", len(got), err)
				}
				if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			})
		}
	}
}

func TestAnEmptyFileBecomesAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sound(t, openAt(t, path))
}

func TestADamagedStoreIsNotTakenForAForeignFile(t *testing.T) {
	for name, damage := range map[string]func(raw []byte) []byte{
		"its page size":   func(raw []byte) []byte { raw[16], raw[17] = 0x12, 0x34; return raw },
		"its first pages": func(raw []byte) []byte { return append(raw[:100], bytes.Repeat([]byte{0xA5}, len(raw)-100)...) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFile(t)
			path := s.Path()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			wantKind(t, func() error { _, err := Open(context.Background(), path); return err }, KindCorrupt)
		})
	}
}

func TestOpenNamesWhatIsWrongWithThePath(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		name, path string
		opts       []Option
		want       ErrorKind
	}{
		{"no path", "", nil, KindInvalid},
		{"memory as a path", ":memory:", nil, KindInvalid},
		{"a missing directory", filepath.Join(dir, "no", "runs.db"), nil, KindCantOpen},
		{"a directory", dir, nil, KindCantOpen},
		{"a missing file, to be read only", filepath.Join(dir, "absent.db"), []Option{WithReadOnly()}, KindCantOpen},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Open(context.Background(), tc.path, tc.opts...)
			wantKind(t, func() error { return err }, tc.want)
			if text := fmt.Sprint(err); tc.want == KindInvalid && !strings.Contains(text, "use Memory") ||
				tc.want != KindInvalid && !strings.Contains(text, tc.path) {
				t.Errorf("%s says neither which file nor what to do", text)
			}
			var se *Error
			if errors.As(err, &se) && (se.Path == "") != (tc.want == KindInvalid) {
				t.Errorf("the path is %q", se.Path)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "absent.db")); err == nil {
		t.Error("a handle for reading created a file")
	}
}

func wantKind(t *testing.T, fn func() error, want ErrorKind) {
	t.Helper()
	err := fn()
	var se *Error
	if !errors.As(err, &se) || se.Kind != want {
		t.Errorf("got %v, want an error of kind %s", err, want)
	}
}

func TestAFileOfANewerGenerationThatAllowsUsIsUsed(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openAt(t, path)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, path, `PRAGMA user_version=5; ALTER TABLE steps ADD COLUMN novelty TEXT; CREATE TABLE inventions (x INTEGER) STRICT`)
	s = openAt(t, path)
	d2, res := enter(t, s, d.RunID, EnterOptions{})
	if res.LastStep != 1 {
		t.Errorf("last step is %d", res.LastStep)
	}
	commit(t, s, d2, aStep(2))
	release(t, d2)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var version int
	queryRaw(t, path, `PRAGMA user_version`, &version)
	if version != 5 {
		t.Errorf("the generation went from 5 to %d", version)
	}
	raw(t, path, `UPDATE store_meta SET value = '2' WHERE key = 'checkpoint_format'`)
	s = openAt(t, path)
	_, _, err := s.EnterDrive(ctx, d.RunID, EnterOptions{})
	var re *ResumeError
	if !errors.As(err, &re) || re.Reason != NewerFormat {
		t.Errorf("a newer checkpoint was resumed: %v", err)
	}
}

// raw runs a script on a closed store's file.
func raw(t testing.TB, path, script string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=secure_delete(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(script, args...); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

func queryRaw(t testing.TB, path, text string, dest ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRow(text).Scan(dest...); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func TestAReadOnlyHandleReadsBesideTheWriterAndWritesNothing(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	r := openAt(t, s.Path(), WithReadOnly())
	for n := 1; n <= 50; n++ {
		commit(t, s, d, aStep(n))
		info, err := r.Run(ctx, d.RunID)
		if err != nil || info.LastStep != n {
			t.Fatalf("the reader sees step %d after the commit of %d: %v", info.LastStep, n, err)
		}
	}
	wantKind(t, func() error { _, err := r.CreateSession(ctx, "/r"); return err }, KindReadOnly)
	wantKind(t, func() error { _, err := r.StartRun(ctx, RunStart{Root: "/r"}); return err }, KindReadOnly)
	wantKind(t, func() error { return r.Backup(ctx, filepath.Join(t.TempDir(), "b.db")) }, KindReadOnly)
}

func TestCloseIsIdempotentAndFinal(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	for name, fn := range map[string]func() error{
		"read":   func() error { _, err := s.Run(ctx, d.RunID); return err },
		"write":  func() error { _, err := s.CreateSession(ctx, "/r"); return err },
		"start":  func() error { _, err := s.StartRun(ctx, RunStart{Root: "/r"}); return err },
		"list":   func() error { _, err := Collect(s.Runs(ctx, RunFilter{})); return err },
		"backup": func() error { return s.Backup(ctx, filepath.Join(t.TempDir(), "b.db")) },
	} {
		if err := fn(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s after Close: %v, want ErrClosed", name, err)
		}
	}
	if err := d.Release(ctx); err != nil {
		t.Errorf("Release after Close: %v", err)
	}
	again := openAt(t, s.Path())
	if l, err := again.LeaseOf(ctx, d.RunID); err != nil || l != nil {
		t.Errorf("Close left the lease %+v, %v", l, err)
	}
}

func TestManyFirstOpenersMakeOneStore(t *testing.T) {
	const rounds, openers = 8, 16
	for round := range rounds {
		path := filepath.Join(t.TempDir(), "runs.db")
		var wg sync.WaitGroup
		errs := make(chan error, 2*openers)
		for range openers {
			wg.Go(func() {
				s, err := Open(context.Background(), path)
				if err != nil {
					errs <- err
					return
				}
				if _, err := s.CreateSession(context.Background(), "/r"); err != nil {
					errs <- err
				}
				errs <- s.Close()
			})
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		var sessions, metas int
		queryRaw(t, path, `SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM store_meta WHERE key = 'min_reader')`, &sessions, &metas)
		if sessions != openers || metas != 1 {
			t.Fatalf("round %d: %d sessions, %d metas", round, sessions, metas)
		}
	}
}

func TestALostWriteAheadLogDoesNotKeepTheStoreFromOpening(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(s.Path() + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	again := openAt(t, s.Path())
	sound(t, again)
	if info, err := again.Run(context.Background(), d.RunID); err != nil || info.LastStep != 1 {
		t.Errorf("after the loss: %+v, %v", info, err)
	}
}

func TestABackupIsAWholeStoreAndClosedToOthers(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Backup(ctx, to); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(to); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("the copy is %v, %v", fi.Mode(), err)
	}
	if err := s.Backup(ctx, to); err == nil {
		t.Error("a second backup overwrote the first")
	}
	// A backup must not wait for the writer, nor the writer for a backup.
	if err := s.write(ctx, "hold", func(*txn) error { return s.Backup(ctx, to+".beside") }); err != nil {
		t.Errorf("a backup beside a write: %v", err)
	}
	mem, err := Memory(ctx)
	if err != nil {
		t.Fatal(err)
	}
	start(t, mem, RunStart{})
	if err := errors.Join(mem.Backup(ctx, to+".memory"), mem.Close()); err != nil {
		t.Errorf("a backup of a store in memory: %v", err)
	}
	if r, err := openAt(t, to+".memory").LastRun(ctx); err != nil || r == nil {
		t.Errorf("the copy of a store in memory holds %+v, %v", r, err)
	}
	c := openAt(t, to)
	sound(t, c)
	if info, err := c.Run(ctx, d.RunID); err != nil || info.LastStep != 1 {
		t.Errorf("the copy holds %+v, %v", info, err)
	}
}
