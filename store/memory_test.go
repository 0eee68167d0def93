package store

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/trace"
)

const ws = "/repo"

func remembers(t testing.TB, s *Store, d *Drive, key, value string, lim MemoryLimits) Remembered {
	t.Helper()
	r, err := s.Remember(context.Background(), d, MemoryEntry{Workspace: ws, Key: key, Value: value, Step: 1}, lim)
	if err != nil {
		t.Fatalf("Remember(%q): %v", key, err)
	}
	return r
}

func keys(t testing.TB, s *Store) []string {
	t.Helper()
	es, err := s.MemoryList(context.Background(), ws)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range es {
		out = append(out, e.Key)
	}
	return out
}

func TestWhatIsLeastRecalledGoesFirst(t *testing.T) {
	ctx := context.Background()
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	writer := start(t, s, RunStart{})
	huge := MemoryLimits{Entries: math.MaxInt64, Chars: math.MaxInt64}
	for _, k := range []string{"often by one", "by three", "never", "late", "early", "pinned"} {
		remembers(t, s, writer, k, "value of "+k, huge)
		clock.Advance(time.Second)
	}
	if _, err := s.MemoryPin(ctx, ws, "pinned", true); err != nil {
		t.Fatal(err)
	}
	recall := func(d *Drive, step int, key string) {
		d.Record(MemoryRecall{Step: step, Workspace: ws, Key: key})
		if err := d.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Second)
	}
	one := start(t, s, RunStart{})
	recall(one, 1, "early")
	for step := range 20 {
		recall(one, step, "often by one")
	}
	recall(one, 1, "late")
	for range 3 {
		recall(start(t, s, RunStart{}), 1, "by three")
	}
	draws, err := s.MemoryDraws(ctx, ws)
	if err != nil || draws["often by one"] != 1 || draws["by three"] != 3 || draws["never"] != 0 {
		t.Errorf("draws: %v, %v", draws, err)
	}
	r := remembers(t, s, writer, "new", "the newest", MemoryLimits{Entries: 2})
	if diff := cmp.Diff([]string{"never", "early", "often by one", "late", "by three"}, r.Evicted); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pinned", "new"}, keys(t, s)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	r = remembers(t, s, writer, "other", "over every limit", MemoryLimits{Entries: 1, Chars: 1})
	if diff := cmp.Diff([]string{"new"}, r.Evicted); diff != "" {
		t.Errorf("evicted (-want +got):\n%s", diff)
	}
}

func TestAValueIsCutVisiblyAndNeverInsideACharacter(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	for _, tc := range []struct {
		limit int64
		value string
		want  string
	}{
		{5, "12345", "12345"},
		{5, "123456", memoryCut},
		{12, strings.Repeat("é", 13), memoryCut},
		{13, strings.Repeat("é", 14), "é" + memoryCut},
		{14, strings.Repeat("é", 14), strings.Repeat("é", 14)},
		{math.MaxInt64, "a\x00b", "a\uFFFDb"},
	} {
		remembers(t, s, d, "k", tc.value, MemoryLimits{EntryChars: tc.limit})
		e, err := s.MemoryGet(context.Background(), ws, "k")
		if err != nil || e.Value != tc.want || !utf8.ValidString(e.Value) {
			t.Errorf("%q at %d is %q, %v, want %q", tc.value, tc.limit, e.Value, err, tc.want)
		}
	}
}

func TestCharactersAreCountedAndNotBytes(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	remembers(t, s, d, "a", strings.Repeat("é", 10), MemoryLimits{})
	if r := remembers(t, s, d, "b", strings.Repeat("é", 10), MemoryLimits{Chars: 20}); r.Evicted != nil || r.Chars != 10 {
		t.Errorf("exactly at the limit: %+v", r)
	}
	if r := remembers(t, s, d, "c", "x", MemoryLimits{Chars: 20}); len(r.Evicted) != 1 || r.Evicted[0] != "a" {
		t.Errorf("one over the limit: %+v", r)
	}
}

func TestAPinHoldsAgainstRunsAndNotAgainstOperators(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	if err := s.MemoryPut(ctx, MemoryEntry{Workspace: ws, Key: "k", Value: "law", Pinned: true}); err != nil {
		t.Fatal(err)
	}
	if r := remembers(t, s, d, "k", "mine", MemoryLimits{}); !r.Refused {
		t.Errorf("a pinned note was replaced: %+v", r)
	}
	var points int
	queryRaw(t, s.Path(), `SELECT count(*) FROM memory_snapshots`, &points)
	if points != 0 {
		t.Error("a refused write left a restore point")
	}
	if f, err := s.Forget(ctx, d, 1, ws, "k"); err != nil || f != ForgotPinned {
		t.Errorf("Forget: %s, %v", f, err)
	}
	if err := s.MemoryPut(ctx, MemoryEntry{Workspace: ws, Key: "k", Value: "new law"}); err != nil {
		t.Fatal(err)
	}
	if e, err := s.MemoryGet(ctx, ws, "k"); err != nil || e.Value != "new law" || !e.Pinned {
		t.Errorf("the note is %+v, %v", e, err)
	}
	if ok, err := s.MemoryDelete(ctx, ws, "k"); err != nil || !ok {
		t.Errorf("MemoryDelete: %v, %v", ok, err)
	}
	if ok, err := s.MemoryPin(ctx, ws, "k", true); err != nil || ok {
		t.Errorf("a pin on nothing: %v, %v", ok, err)
	}
	if f, err := s.Forget(ctx, d, 1, ws, "k"); err != nil || f != ForgotAbsent {
		t.Errorf("Forget of nothing: %s, %v", f, err)
	}
}

func TestForgettingTakesTheEvidenceAndEvictingLeavesIt(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	remembers(t, s, d, "a", "one", MemoryLimits{})
	remembers(t, s, d, "b", "two", MemoryLimits{})
	d.Record(MemoryRecall{Step: 1, Workspace: ws, Key: "a"}, MemoryRecall{Step: 1, Workspace: ws, Key: "b"})
	if err := d.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if f, err := s.Forget(ctx, d, 1, ws, "a"); err != nil || f != ForgotRemoved {
		t.Fatal(f, err)
	}
	remembers(t, s, d, "c", "three", MemoryLimits{Entries: 1})
	draws, err := s.MemoryDraws(ctx, ws)
	if err != nil || len(draws) != 1 || draws["b"] != 1 {
		t.Errorf("draws: %v, %v", draws, err)
	}
}

func TestARestatementIsPointedOut(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	other := MemoryEntry{Workspace: "/other", Key: "x", Value: "the parser stops at the column", Step: 1}
	if _, err := s.Remember(ctx, d, other, MemoryLimits{}); err != nil {
		t.Fatal(err)
	}
	remembers(t, s, d, "a", "Alpha beta gamma, delta; epsilon", MemoryLimits{})
	for _, tc := range []struct {
		value string
		want  string
	}{
		{"alpha BETA gamma", "a"},       // 3 of 5: exactly three fifths
		{"alpha beta gamma zeta", ""},   // 3 of 6
		{"alpha beta of to it", ""},     // short words do not count: 2 of 5
		{"the parser stops at the", ""}, // another workspace
		{"", ""},
	} {
		e, err := s.MemorySimilar(ctx, ws, "b", tc.value)
		if err != nil || (e == nil) != (tc.want == "") || e != nil && e.Key != tc.want {
			t.Errorf("%q is similar to %+v, %v, want %q", tc.value, e, err, tc.want)
		}
	}
	if r := remembers(t, s, d, "b", "alpha beta gamma delta", MemoryLimits{}); r.Similar == nil || r.Similar.Key != "a" {
		t.Errorf("written with %+v", r)
	}
	if e, err := s.MemorySimilar(ctx, ws, "a", "alpha beta gamma delta"); err != nil || e.Key != "b" {
		t.Errorf("the same key counts as another: %+v, %v", e, err)
	}
}

func TestOfSeveralRestatementsTheClosestAndThenTheEarliestIsPointedOut(t *testing.T) {
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	d := start(t, s, RunStart{})
	for _, n := range []struct {
		key, value string
		after      time.Duration
	}{
		{"z", "alpha beta gamma delta", 0},
		{"b", "alpha beta gamma delta", time.Second},
		{"a", "delta gamma beta alpha alpha", 0}, // a word counts once
		{"c", "alpha beta gamma", -2 * time.Second},
	} {
		clock.Advance(n.after)
		remembers(t, s, d, n.key, n.value, MemoryLimits{})
	}
	for _, tc := range []struct{ value, want string }{
		{"alpha beta gamma delta", "z"}, // which shares four words and is older than b and a
		{"alpha beta gamma", "c"},       // all share three, and it is the oldest
	} {
		e, err := s.MemorySimilar(context.Background(), ws, "new", tc.value)
		if err != nil || e == nil || e.Key != tc.want {
			t.Errorf("%q restates %+v, %v, want %q", tc.value, e, err, tc.want)
		}
	}
	if ok, err := s.MemoryDelete(context.Background(), ws, "z"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if r := remembers(t, s, d, "new", "alpha beta gamma delta", MemoryLimits{}); r.Similar == nil || r.Similar.Key != "a" {
		t.Errorf("of two of one millisecond %+v is pointed out, want a", r.Similar)
	}
}

func TestKeysThatCouldForgeALineAreRefused(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	for _, k := range []string{"", "a\nb", "a\x00", "\xff", strings.Repeat("k", MemoryMaxKeyChars+1)} {
		wantKind(t, func() error {
			_, err := s.Remember(context.Background(), d, MemoryEntry{Workspace: ws, Key: k, Value: "v"}, MemoryLimits{})
			return err
		}, KindInvalid)
	}
	wantKind(t, func() error {
		_, err := s.Remember(context.Background(), d, MemoryEntry{Workspace: ws, Key: "k"}, MemoryLimits{})
		return err
	}, KindInvalid)
}

func TestEntriesOfOneMillisecondListByKey(t *testing.T) {
	clock := newClock()
	s := newFile(t, WithClock(clock.Now))
	d := start(t, s, RunStart{})
	for _, k := range []string{"c", "a", "b"} {
		remembers(t, s, d, k, "v"+k, MemoryLimits{})
	}
	clock.Advance(time.Millisecond)
	remembers(t, s, d, "a", "again", MemoryLimits{})
	if diff := cmp.Diff([]string{"b", "c", "a"}, keys(t, s)); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if n, err := s.MemoryClear(context.Background(), ws); err != nil || n != 3 {
		t.Errorf("cleared %d, %v", n, err)
	}
}

func TestAListOfThingsToDoIsReplacedWhole(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	items := make([]TodoItem, TodoMaxItems+3)
	for i := range items {
		items[i] = TodoItem{Text: strings.Repeat("é", TodoTextCap+i), State: TodoPending}
	}
	dropped, err := s.WriteTodos(ctx, d, items)
	if err != nil || dropped != 3 {
		t.Errorf("dropped %d, %v", dropped, err)
	}
	got, err := s.Todos(ctx, d.RunID)
	if err != nil || len(got) != TodoMaxItems || utf8.RuneCountInString(got[9].Text) != TodoTextCap {
		t.Errorf("%d items, %v", len(got), err)
	}
	want := []TodoItem{{"b", TodoDone}, {"a", TodoActive}}
	if _, err := s.WriteTodos(ctx, d, want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Todos(ctx, d.RunID); err != nil || !cmp.Equal(got, want) {
		t.Errorf("the list is %+v, %v", got, err)
	}
	wantKind(t, func() error { _, err := s.WriteTodos(ctx, d, []TodoItem{{"x", "someday"}}); return err }, KindInvalid)
	raw(t, s.Path(), `UPDATE todos SET state = 'dreaming' WHERE position = 0`)
	if got, err := s.Todos(ctx, d.RunID); err != nil || len(got) != 1 || got[0].Text != "a" {
		t.Errorf("with an unknown state the list is %+v, %v", got, err)
	}
}

func TestEventsArePagedByACursorThatOrdersATree(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	root := start(t, s, RunStart{Mode: ModeTree})
	kid := child(t, s, root, 1, 0, "")
	stranger := start(t, s, RunStart{})
	if c, err := s.EventCursor(ctx); err != nil || c != 0 {
		t.Errorf("the cursor of an empty stream is %d, %v", c, err)
	}
	var evs []trace.Event
	for i := range PollLimit + 5 {
		run, depth := root.RunID, 0
		if i%2 == 1 {
			run, depth = kid.RunID, 1
		}
		evs = append(evs, trace.Event{RunID: run, Step: i, Depth: depth, Fact: trace.Token{Text: itoa(i)}})
	}
	evs = append(evs, trace.Event{RunID: stranger.RunID, Fact: trace.StalledOut{}}, trace.Event{RunID: 4711, Fact: trace.StalledOut{}})
	if err := s.PutEvents(ctx, evs...); err != nil {
		t.Fatal(err)
	}
	first, err := s.TreeEventsSince(ctx, root.RunID, 0, 0)
	if err != nil || len(first) != PollLimit {
		t.Fatalf("%d events, %v", len(first), err)
	}
	rest, err := s.TreeEventsSince(ctx, root.RunID, first[len(first)-1].ID, 100*PollLimit)
	if err != nil || len(rest) != 5 {
		t.Fatalf("%d events more, %v", len(rest), err)
	}
	for i, r := range append(first, rest...) {
		if diff := cmp.Diff(evs[i], r.Event); diff != "" {
			t.Fatalf("event %d (-want +got):\n%s", i, diff)
		}
	}
	own, err := s.EventsSince(ctx, kid.RunID, 0, 2)
	if err != nil || len(own) != 2 || own[1].Event.Step != 3 {
		t.Errorf("the child's events: %+v, %v", own, err)
	}
	if none, err := s.EventsSince(ctx, root.RunID, math.MaxInt64, 1); err != nil || len(none) != 0 {
		t.Errorf("behind the end: %+v, %v", none, err)
	}
	raw(t, s.Path(), `UPDATE run_events SET json = '{"run_id":' WHERE run_id = ?`, int64(stranger.RunID))
	if bad, err := s.EventsSince(ctx, stranger.RunID, 0, 0); err != nil || len(bad) != 1 || bad[0].Event.RunID != stranger.RunID || bad[0].Event.Kind() != "stalled" {
		t.Errorf("a row that cannot be read ends the stream: %+v, %v", bad, err)
	}
}

func TestAFollowerHearsWhatIsWrittenWhileItWaits(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s := newFile(t)
	other := another(t, s)
	d := start(t, s, RunStart{})
	go func() {
		for i := range 3 {
			_ = s.PutEvents(ctx, trace.Event{RunID: d.RunID, Step: i, Fact: trace.StalledOut{}})
		}
	}()
	for _, h := range []*Store{s, other} {
		n := 0
		for r, err := range h.Follow(ctx, d.RunID, 0) {
			if err != nil {
				t.Fatal(err)
			}
			if r.Event.Step != n {
				t.Errorf("event %d is of step %d", n, r.Event.Step)
			}
			if n++; n == 3 {
				break
			}
		}
	}
	stop, end := context.WithCancel(ctx)
	end()
	for _, err := range s.Follow(stop, d.RunID, 0) {
		if err == nil {
			t.Error("a cancelled follower got an event")
		}
	}
}

func TestTheNotesBehindAStepComeWithItsCommit(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	d := start(t, s, RunStart{})
	for _, e := range []MemoryEntry{
		{Workspace: "/w", Key: "build", Value: "make all"},
		{Workspace: GlobalMemoryWorkspace, Key: "editor", Value: "none"},
		{Workspace: "/other", Key: "build", Value: "ninja"},
	} {
		if _, err := s.Remember(ctx, d, e, MemoryLimits{}); err != nil {
			t.Fatal(err)
		}
	}
	c := aStep(1)
	c.Notes = &Notes{Workspace: "/w"}
	commit(t, s, d, c)
	own, shared, err := s.MemoryListBoth(ctx, "/w")
	if err != nil || len(own) != 1 || len(shared) != 1 {
		t.Fatalf("%+v, %+v, %v", own, shared, err)
	}
	if diff := cmp.Diff(&Notes{Workspace: "/w", Own: own, Shared: shared}, c.Notes); diff != "" {
		t.Errorf("notes of the commit (-want +got):\n%s", diff)
	}
}
