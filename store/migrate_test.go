package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

func withMigrations(ms ...migration) Option {
	return func(o *options) { o.migrations = append(migrations(), ms...) }
}

// current is the generation of this software; the next two are made up.
var current = defaults().generation()

var (
	additive  = migration{number: current + 1, sql: `ALTER TABLE steps ADD COLUMN novelty TEXT`}
	rewriting = migration{number: current + 2, sql: `UPDATE runs SET goal = upper(goal)`, rewrites: true}
)

func generationOf(t *testing.T, path string) (gen int, minReader string) {
	t.Helper()
	queryRaw(t, path, `SELECT (SELECT user_version FROM pragma_user_version), (SELECT value FROM store_meta WHERE key = 'min_reader')`, &gen, &minReader)
	return gen, minReader
}

// backup is where a copy of a store of this generation goes.
func backup(s *Store) string { return s.Path() + ".bak-" + itoa(current) }

func TestAnOlderFileGainsWhatItLacksAndKeepsItsRows(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{Goal: "goal"})
	commit(t, s, d, aStep(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantKind(t, func() error {
		_, err := Open(context.Background(), s.Path(), WithReadOnly(), withMigrations(additive))
		return err
	}, KindReadOnly)
	for range 2 {
		s = openAt(t, s.Path(), withMigrations(additive, rewriting))
		sound(t, s)
		info, err := s.Run(context.Background(), d.RunID)
		if err != nil || info.Goal != "GOAL" || info.LastStep != 1 {
			t.Errorf("the run is %+v, %v", info, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if gen, reader := generationOf(t, s.Path()); gen != current+2 || reader != itoa(current+2) {
		t.Errorf("generation %d for readers of %s", gen, reader)
	}
	if _, err := Open(context.Background(), s.Path()); !errors.Is(err, ErrNewerStore) {
		t.Errorf("older software opened a rewritten file: %v", err)
	}
	copied := openAt(t, backup(s))
	if info, err := copied.Run(context.Background(), d.RunID); err != nil || info.Goal != "goal" {
		t.Errorf("the copy holds %+v, %v", info, err)
	}
	if gen, _ := generationOf(t, backup(s)); gen != current {
		t.Errorf("the copy is of generation %d", gen)
	}
}

func TestAnAdditiveMigrationNeitherCopiesNorShutsOut(t *testing.T) {
	s := newFile(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, s.Path(), withMigrations(additive))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(backup(s)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a copy was made: %v", err)
	}
	s = openAt(t, s.Path()) // older software
	d := start(t, s, RunStart{})
	commit(t, s, d, aStep(1))
	sound(t, s)
	if gen, reader := generationOf(t, s.Path()); gen != current+1 || reader != "1" {
		t.Errorf("generation %d for readers of %s", gen, reader)
	}
}

func TestAnInterruptedMigrationLeavesTheOldGenerationWorking(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{Goal: "goal"})
	commit(t, s, d, aStep(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, point := range []string{"migration " + itoa(current+1), "migration " + itoa(current+2), "set generation", "put meta", "commit"} {
		f := &failing{}
		f.set(point)
		if _, err := Open(ctx, s.Path(), withMigrations(additive, rewriting), f.option()); err == nil {
			t.Fatalf("a failure at %q was not told", point)
		}
		if gen, reader := generationOf(t, s.Path()); gen != current || reader != "1" {
			t.Errorf("after a failure at %q the file is of generation %d for readers of %s", point, gen, reader)
		}
		old := openAt(t, s.Path())
		sound(t, old)
		if info, err := old.Run(ctx, d.RunID); err != nil || info.Goal != "goal" {
			t.Errorf("after a failure at %q the run is %+v, %v", point, info, err)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantKind(t, func() error {
		_, err := Open(ctx, s.Path(), withMigrations(migration{number: current + 1, sql: `CREATE TABLE runs (x INTEGER)`}))
		return err
	}, KindOther)
	// A file that nobody wrote between two tries is copied once.
	copies, err := filepath.Glob(s.Path() + ".bak-*")
	if err != nil || len(copies) != 1 {
		t.Errorf("copies: %v, %v", copies, err)
	}
	openAt(t, s.Path(), withMigrations(additive, rewriting))
}

func TestACopyThatIsThereIsNotReplaced(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{Goal: "goal"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := &failing{}
	f.set("migration " + itoa(current+2))
	if _, err := Open(ctx, s.Path(), withMigrations(additive, rewriting), f.option()); err == nil {
		t.Fatal("the failure was not told")
	}
	first := sum(t, backup(s))
	old := openAt(t, s.Path())
	later := start(t, old, RunStart{Goal: "later"})
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backup(s)+".part", []byte("a half of a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	openAt(t, s.Path(), withMigrations(additive, rewriting))
	if sum(t, backup(s)) != first {
		t.Error("the first copy was replaced")
	}
	if _, err := os.Stat(backup(s) + ".part"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a part is left: %v", err)
	}
	second := openAt(t, backup(s)+"-2")
	for _, id := range []trace.RunID{d.RunID, later.RunID} {
		if _, err := second.Run(ctx, id); err != nil {
			t.Errorf("the second copy: %v", err)
		}
	}
	if runtime.GOOS != "windows" {
		if fi, err := os.Stat(backup(s) + "-2"); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("mode of the copy: %v, %v", fi.Mode(), err)
		}
	}
}

func TestRacingOpenersCopyTheFileAsItWas(t *testing.T) {
	for range 5 {
		s := newFile(t)
		d := start(t, s, RunStart{Goal: "goal"})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				h, err := Open(context.Background(), s.Path(), withMigrations(additive, rewriting))
				if err != nil {
					t.Error(err)
					return
				}
				if err := h.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		found, err := filepath.Glob(s.Path() + ".bak-*")
		if err != nil || len(found) != 1 {
			t.Fatalf("copies: %v, %v", found, err)
		}
		if gen, _ := generationOf(t, found[0]); gen != current {
			t.Errorf("the copy is of generation %d", gen)
		}
		copied := openAt(t, found[0])
		if info, err := copied.Run(context.Background(), d.RunID); err != nil || info.Goal != "goal" {
			t.Errorf("the copy holds %+v, %v", info, err)
		}
	}
}

func TestRacingOpenersMigrateOnce(t *testing.T) {
	s := newFile(t)
	start(t, s, RunStart{Goal: "g"})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	counting := migration{number: current + 1, sql: `INSERT INTO store_meta (key, value) VALUES ('times', '1') ON CONFLICT (key) DO UPDATE SET value = value + 1`}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			h, err := Open(context.Background(), s.Path(), withMigrations(counting))
			if err != nil {
				t.Error(err)
				return
			}
			if err := h.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var times string
	queryRaw(t, s.Path(), `SELECT value FROM store_meta WHERE key = 'times'`, &times)
	if times != "1" {
		t.Errorf("the migration ran %s times", times)
	}
}

// update writes the fixture of the present generation anew; do it only while
// that generation has not been released.
var update = flag.Bool("update", false, "write the newest testdata/generation-N.db.gz and its sidecar anew")

func fixture(generation int) string { return "testdata/generation-" + itoa(generation) }

// sidecar is what a store's own software read from it.
type sidecar struct {
	Run       RunInfo
	Trace     string
	Steps     []StepRow
	Turns     []trace.AssistantTurn
	Calls     []ProviderCall
	Events    []PolicyEvent
	Points    []RestorePoint
	Approvals []PendingApproval
	Questions []PendingQuestion
	Attempts  []Attempt
	Spawns    []Spawn
	Turn      *SessionTurn
	Output    *Output
	Memory    []MemoryEntry
	Drives    []DriveRow
	Size      *Size
}

func readSidecar(t *testing.T, s *Store, sess trace.SessionID, run trace.RunID) []byte {
	t.Helper()
	ctx := context.Background()
	var out sidecar
	var errs []error
	check := func(err error) { errs = append(errs, err) }
	var err error
	out.Run, err = s.Run(ctx, run)
	check(err)
	out.Trace, err = s.CanonicalTrace(ctx, run)
	check(err)
	out.Steps, err = Collect(s.Steps(ctx, run))
	check(err)
	out.Turns, err = Collect(s.StepTurns(ctx, run))
	check(err)
	out.Calls, err = Collect(s.ProviderCalls(ctx, run))
	check(err)
	out.Events, err = Collect(s.PolicyEvents(ctx, run))
	check(err)
	out.Points, err = s.RestorePoints(ctx, run)
	check(err)
	out.Approvals, err = s.Approvals(ctx, run)
	check(err)
	out.Questions, err = s.Questions(ctx, run)
	check(err)
	out.Attempts, err = s.OpenAttempts(ctx, run)
	check(err)
	out.Spawns, err = s.Spawns(ctx, run)
	check(err)
	out.Turn, err = s.TurnForRun(ctx, run)
	check(err)
	out.Output, err = s.RunOutput(ctx, run)
	check(err)
	out.Memory, err = s.MemoryList(ctx, ws)
	check(err)
	out.Drives, err = s.Drives(ctx, run)
	check(err)
	out.Size, err = s.SessionSize(ctx, sess)
	check(err)
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	raw, err := json.MarshalIndent(out, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	return append(raw, '\n')
}

// unpack writes the fixture of a generation to a file of its own.
func unpack(t *testing.T, generation int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	zipped, err := os.ReadFile(fixture(generation) + ".db.gz")
	if err != nil {
		t.Fatal(err)
	}
	zr, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each generation left a file behind that its own software wrote, and what that
// software read from it.
func TestAFileOfEachGenerationReadsAndResumesAsItDidThen(t *testing.T) {
	if *update {
		writeFixture(t)
	}
	for generation := 1; generation <= current; generation++ {
		t.Run(itoa(generation), func(t *testing.T) {
			ctx := context.Background()
			path := unpack(t, generation)
			if gen, _ := generationOf(t, path); gen != generation {
				t.Fatalf("the fixture is of generation %d", gen)
			}
			want, err := os.ReadFile(fixture(generation) + ".json")
			if err != nil {
				t.Fatal(err)
			}
			fresh := schemaOf(t, newFile(t).Path())
			if generation == current && schemaOf(t, path) != fresh {
				t.Fatal("the schema of this generation has changed: while it is not released, run go test ./store -run EachGeneration -update")
			}
			s := openAt(t, path)
			if got := schemaOf(t, path); got != fresh {
				t.Errorf("the file was brought to another schema than a new one has:\n%s", cmp.Diff(strings.Split(fresh, ";"), strings.Split(got, ";")))
			}
			sound(t, s)
			last, err := Collect(s.Runs(ctx, RunFilter{RootsOnly: true}))
			if err != nil || len(last) != 1 {
				t.Fatalf("the fixture has the roots %+v, %v", last, err)
			}
			turn, err := s.TurnForRun(ctx, last[0].ID)
			if err != nil {
				t.Fatal(err)
			}
			got := readSidecar(t, s, turn.SessionID, last[0].ID)
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
				t.Errorf("read differently (-then +now); while this generation is not released, run with -update:\n%s", diff)
			}
			d, res := enter(t, s, last[0].ID, EnterOptions{})
			if d == nil || res.LastStep != 1 {
				t.Fatalf("resumed as %+v, %+v", d, res)
			}
			commit(t, s, d, aStep(2))
			finish(t, s, d, trace.Finished, 2)
			sound(t, s)
		})
	}
}

// A job with the older software may have the file open, or open it next: what
// was added must not keep it out, and its steps must count.
func TestSoftwareOfAnOlderGenerationGoesOnWithANewerFile(t *testing.T) {
	newer := withMigrations(additive)
	path := unpack(t, current)
	ctx := context.Background()
	old := openAt(t, path)
	last, err := old.LastRun(ctx)
	if err != nil {
		t.Fatal(err)
	}
	root := last.RootID
	d, _ := enter(t, old, root, EnterOptions{})
	commit(t, old, d, aStep(2))
	now := openAt(t, path, newer)
	if gen, reader := generationOf(t, path); gen != additive.number || reader != "1" {
		t.Fatalf("generation %d for readers of %s", gen, reader)
	}
	commit(t, old, d, aStep(3)) // the file was migrated beneath it
	release(t, d)
	d, res := enter(t, now, root, EnterOptions{})
	if res.LastStep != 3 {
		t.Errorf("resumed behind step %d", res.LastStep)
	}
	commit(t, now, d, aStep(4))
	release(t, d)
	again := openAt(t, path)
	d, res = enter(t, again, root, EnterOptions{})
	if res.LastStep != 4 {
		t.Errorf("the older software resumed behind step %d", res.LastStep)
	}
	commit(t, again, d, aStep(5))
	finish(t, again, d, trace.Finished, 5)
	sound(t, now)
	if info, err := now.Run(ctx, root); err != nil || info.LastStep != 5 || info.Outcome.Kind != trace.Finished {
		t.Errorf("%+v, %v", info, err)
	}
}

func schemaOf(t *testing.T, path string) string {
	t.Helper()
	var text string
	queryRaw(t, path, `SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY name)`, &text)
	return text
}

func writeFixture(t *testing.T) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openAt(t, path, WithClock(newClock().Now))
	sess, d := everything(t, s)
	// The machine that wrote it is nobody's business.
	raw(t, path, `UPDATE run_leases SET owner = 'host pid 1 drive a', host = 'host', pid = 1, renewed_at = 0;
		UPDATE drives SET owner = 'host pid 1 drive a'`)
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fixture(current)+".json", readSidecar(t, s, sess, d.RunID), 0o644); err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(t.TempDir(), "small.db")
	if err := s.Backup(context.Background(), small); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(small)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fixture(current)+".db.gz", b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
