package store

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/trace"
)

func TestALockThatIsNotGivenBackIsBusyAndHeals(t *testing.T) {
	ctx := context.Background()
	s := newFile(t, WithBusyTimeout(50*time.Millisecond))
	d := start(t, s, RunStart{})
	db, err := sql.Open("sqlite", testkit.DSN(s.Path()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(ctx, `BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	wantKind(t, func() error { _, err := s.CreateSession(ctx, "/repo"); return err }, KindBusy)
	if info, err := s.Run(ctx, d.RunID); err != nil || info.LastStep != 0 {
		t.Errorf("reading beside the lock: %+v, %v", info, err)
	}
	// A step that is done waits for longer than anything else.
	done := make(chan error, 1)
	go func() { done <- s.CommitStep(ctx, d, aStep(1)) }()
	time.Sleep(120 * time.Millisecond)
	if _, err := conn.ExecContext(ctx, `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the step: %v", err)
	}
	if _, err := s.CreateSession(ctx, "/repo"); err != nil {
		t.Errorf("after the lock: %v", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

// image copies the files of a store that is open, as a power cut would leave them.
func image(t *testing.T, s *Store, cut func(wal []byte) []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(s.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if suffix != "" {
			content = cut(content)
		}
		if err := os.WriteFile(path+suffix, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// A log that ends early, or in the middle of a page, or in bytes that are not its
// own, still holds every commit before that.
func TestATornLogKeepsTheStepsBeforeTheTear(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	if s.JournalMode() != "wal" {
		t.Skipf("no write-ahead log: %s", s.JournalMode())
	}
	d := start(t, s, RunStart{})
	if _, err := s.Compact(ctx); err == nil {
		t.Fatal("a driven store was compacted")
	}
	if err := s.scrub(ctx, "test"); err != nil { // what is there so far is in the file itself
		t.Fatal(err)
	}
	const steps = 8
	for n := 1; n <= steps; n++ {
		commit(t, s, d, benchStep(n))
	}
	whole := 0
	cuts := map[string]func([]byte) []byte{
		"whole":            func(w []byte) []byte { whole = len(w); return w },
		"empty":            func([]byte) []byte { return nil },
		"half of a header": func(w []byte) []byte { return w[:16] },
		"a tail of zeros":  func(w []byte) []byte { clear(w[len(w)*3/4:]); return w },
		"a flipped bit":    func(w []byte) []byte { w[len(w)/2] ^= 1; return w },
	}
	for _, share := range []int{10, 33, 50, 77, 99} {
		cuts[itoa(share)+" percent"] = func(w []byte) []byte { return w[:len(w)*share/100] }
	}
	last := map[string]int{}
	for name, cut := range cuts {
		path := image(t, s, cut)
		torn := openAt(t, path)
		sound(t, torn)
		info, err := torn.Run(ctx, d.RunID)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		last[name] = info.LastStep
		rows, err := Collect(torn.Steps(ctx, d.RunID))
		if err != nil || len(rows) != info.LastStep {
			t.Errorf("%s: %d steps of %d, %v", name, len(rows), info.LastStep, err)
		}
	}
	if whole == 0 || last["whole"] != steps || last["empty"] != 0 || last["half of a header"] != 0 {
		t.Errorf("the steps that are left: %v", last)
	}
	if last["10 percent"] > last["50 percent"] || last["50 percent"] > last["99 percent"] || last["a flipped bit"] >= steps || last["50 percent"] == 0 {
		t.Errorf("the steps that are left: %v", last)
	}
}

func TestADamagedPageIsNamedByWhoeverReadsIt(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	for n := 1; n <= 40; n++ {
		commit(t, s, d, benchStep(n))
	}
	finish(t, s, d, trace.Finished, 40)
	var page, size int64
	queryRaw(t, s.Path(), `SELECT (SELECT rootpage FROM sqlite_schema WHERE name = 'steps'), (SELECT page_size FROM pragma_page_size)`, &page, &size)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]byte, size)
	for i := range junk {
		junk[i] = 0xA5
	}
	if _, err := f.WriteAt(junk, (page-1)*size); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	hurt := openAt(t, s.Path())
	_, err = Collect(hurt.Steps(ctx, d.RunID))
	wantKind(t, func() error { return err }, KindCorrupt)
	if !strings.Contains(fmt.Sprint(err), s.Path()) {
		t.Errorf("%v does not name the file", err)
	}
	if info, err := hurt.Run(ctx, d.RunID); err != nil || info.LastStep != 40 {
		t.Errorf("what is not damaged: %+v, %v", info, err)
	}
	if rep, err := hurt.Check(ctx); err == nil && len(rep.Problems) == 0 {
		t.Error("Check finds nothing")
	}
	wantKind(t, func() error { _, err := hurt.DeleteRun(ctx, d.RunID); return err }, KindCorrupt)
}
