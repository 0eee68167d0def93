package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/trace"
)

const needle = "NEEDLE-7f3a"

func TestAnArchiveEmptiesEveryWordAndNothingElse(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess, d := everything(t, s)
	for _, tb := range runTables() {
		for _, col := range tb.columns {
			if col.class != word {
				continue
			}
			if tb.name == "snapshots" {
				raw(t, s.Path(), `UPDATE snapshots SET before = CAST(? AS BLOB) WHERE state = 'text'`, needle)
				continue
			}
			keep := ""
			if tb.keep != "" {
				keep = " WHERE NOT (" + tb.keep + ")"
			}
			if col.when != "" {
				keep = " WHERE " + col.when
			}
			raw(t, s.Path(), `UPDATE `+tb.name+` SET `+col.name+` = ? `+keep, needle)
		}
	}
	if err := s.Backup(ctx, filepath.Join(t.TempDir(), "with.db")); err != nil {
		t.Fatal(err)
	}
	figures := figuresOf(t, s, d.RunID)
	words := dumpColumns(t, s.Path(), word)
	others := dumpColumns(t, s.Path(), fact) + dumpColumns(t, s.Path(), control)
	if strings.Count(words, needle) < 40 {
		t.Fatalf("only %d words hold the needle", strings.Count(words, needle))
	}
	got, err := s.ArchiveSession(ctx, sess)
	if err != nil || got.Turns != 1 || got.Rows == 0 || got.Bytes == 0 {
		t.Fatalf("archived %+v, %v", got, err)
	}
	if left := dumpColumns(t, s.Path(), word); strings.Contains(left, needle) {
		t.Errorf("words are left:\n%s", grep(left, needle))
	}
	now := dumpColumns(t, s.Path(), fact) + dumpColumns(t, s.Path(), control)
	for _, line := range strings.Split(cmp.Diff(strings.Split(others, "\n"), strings.Split(now, "\n")), "\n") {
		changed := strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-")
		if changed && !strings.Contains(line, "archived") && !strings.Contains(line, "snapshots") {
			t.Errorf("something that is no word changed: %s", line)
		}
	}
	if diff := cmp.Diff(figures, figuresOf(t, s, d.RunID)); diff != "" {
		t.Errorf("figures changed (-before +after):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(s.Path() + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(needle)) {
			t.Errorf("the bytes of the file%s still hold the words", suffix)
		}
	}
}

func grep(text, what string) string {
	var out []string
	for _, l := range strings.Split(text, "\n") {
		if strings.Contains(l, what) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// dumpColumns renders the columns of one class of the tables of runs.
func dumpColumns(t testing.TB, path string, class columnClass) string {
	t.Helper()
	db, err := sql.Open("sqlite", testkit.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var b strings.Builder
	for _, tb := range runTables() {
		for _, col := range tb.columns {
			if col.class != class {
				continue
			}
			rows, err := db.Query(`SELECT quote(` + col.name + `) FROM ` + tb.name)
			if err != nil {
				t.Fatal(err)
			}
			for rows.Next() {
				var v string
				if err := rows.Scan(&v); err != nil {
					t.Fatal(err)
				}
				if col.typeIsBlob() {
					v = strings.ReplaceAll(v, fmt.Sprintf("%X", needle), needle)
				}
				fmt.Fprintf(&b, "%s.%s %s\n", tb.name, col.name, v)
			}
			if err := errors.Join(rows.Err(), rows.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b.String()
}

func (c column) typeIsBlob() bool { return c.name == "before" || c.name == "body_digest" }

// figuresOf reads what an archive must not change.
func figuresOf(t testing.TB, s *Store, run trace.RunID) map[string]any {
	t.Helper()
	ctx := context.Background()
	info, err := s.Run(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := s.TreeLedger(ctx, run)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Collect(s.ProviderCalls(ctx, run))
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := s.RunsByOutcome(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]any{"step": info.LastStep, "tokens": info.Tokens, "agents": ledger.Agents, "spent": ledger.Tokens, "calls": calls, "outcomes": outcomes}
}

func TestAnArchivedRunStillResumesAndDecidesNothingByItself(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Mode: ModeTree, Policy: []byte(`{"p":1}`), Turn: &TurnStart{Session: sess, Prompt: "p"}})
	commit(t, s, d, aStep(1))
	closed, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 2, Tool: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CloseAttempt(ctx, d, closed, Returned, "x"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.OpenAttempt(ctx, d, Attempt{Step: 2, CallIndex: 1, Tool: "b"}); err != nil {
		t.Fatal(err)
	}
	ask, err := s.PutPending(ctx, d, PendingApproval{Step: 1, Act: "write", Target: "a.go", Content: "c"})
	if err != nil {
		t.Fatal(err)
	}
	kid := child(t, s, d, 1, 0, "")
	if _, err := s.SendMessage(ctx, kid, AgentMessage{To: d.RunID, Step: 1, Body: "unread"}); err != nil {
		t.Fatal(err)
	}
	d.Record(call(1, 5))
	if err := s.PutEvents(ctx, trace.Event{RunID: d.RunID, Fact: trace.Token{Text: "x"}}); err != nil {
		t.Fatal(err)
	}
	release(t, d)
	for i := range 2 {
		got, err := s.ArchiveSession(ctx, sess)
		if err != nil || (got.Rows == 0) != (i == 1) || (got.Bytes == 0) != (i == 1) {
			t.Errorf("time %d: %+v, %v", i, got, err)
		}
	}
	if got, err := s.ArchiveSession(ctx, 4711); err != nil || !cmp.Equal(got, Archived{}) {
		t.Errorf("an archive of nothing: %+v, %v", got, err)
	}
	sound(t, s)
	open, err := s.OpenAttempts(ctx, d.RunID)
	if err != nil || len(open) != 1 || open[0].Tool != "b" {
		t.Errorf("open attempts: %+v, %v", open, err)
	}
	if p, err := s.Pending(ctx, ask); err != nil || p.Verdict != Undecided || p.Target != "a.go" || p.Content != "" {
		t.Errorf("the approval is %+v, %v", p, err)
	}
	if n, err := s.Unread(ctx, d.RunID, 0); err != nil || n != 1 {
		t.Errorf("%d unread, %v", n, err)
	}
	calls, err := Collect(s.ProviderCalls(ctx, d.RunID))
	if err != nil || len(calls) != 1 || calls[0].Failure != "" || calls[0].Usage == nil {
		t.Errorf("calls: %+v, %v", calls, err)
	}
	if turns, err := Collect(s.StepTurns(ctx, d.RunID)); err != nil || len(turns) != 0 {
		t.Errorf("turns: %+v, %v", turns, err)
	}
	if evs, err := s.EventsSince(ctx, d.RunID, 0, 0); err != nil || len(evs) != 0 {
		t.Errorf("events: %+v, %v", evs, err)
	}
	if pol, err := s.RunPolicy(ctx, d.RunID); err != nil || string(pol) != `{"p":1}` {
		t.Errorf("the policy is %s, %v", pol, err)
	}
	if _, err := s.ForkRun(ctx, d.RunID, 1); !errors.Is(err, ErrArchived) {
		t.Errorf("a fork of an archived run: %v", err)
	}
	d2, res := enter(t, s, d.RunID, EnterOptions{Recovery: &RecoveryDecision{ID: open[0].ID, Verdict: RecoveredRetry}})
	if d2 == nil || d2.StartStep != 2 || len(res.Observations) != 1 || res.Observations[0].Text != "" {
		t.Errorf("resumed as %+v, %+v", d2, res)
	}
	commit(t, s, d2, aStep(2))
	sound(t, s)
}

func TestAnArchiveTellsAWordFromANameInOneColumn(t *testing.T) {
	ctx := context.Background()
	s := newFile(t)
	sess := newSession(t, s)
	d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}})
	c := aStep(1)
	c.Observations = nil
	for _, o := range []trace.Observation{
		{Kind: trace.ObsRead, Target: "a.go"}, {Kind: trace.ObsWrite, Target: "b.go"}, {Kind: trace.ObsSkill, Target: "release"},
		{Kind: trace.ObsGrep, Target: needle}, {Kind: trace.ObsFind, Target: needle}, {Kind: trace.ObsTool, Target: needle}, {Kind: trace.ObsMCP, Target: needle},
	} {
		o.Step, o.Text = 1, needle
		c.Observations = append(c.Observations, o)
	}
	commit(t, s, d, c)
	finish(t, s, d, trace.Finished, 1)
	rw, err := s.BeginRewind(ctx, d.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		rw.Add(ctx, RewindItem{Kind: RewindQueue, Name: needle, Verdict: "removed"}),
		rw.Add(ctx, RewindItem{Kind: RewindFile, Name: "b.go", Verdict: "restored"}),
		rw.Done(ctx, true)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ArchiveSession(ctx, sess); err != nil {
		t.Fatal(err)
	}
	if left := dumpColumns(t, s.Path(), word) + dumpColumns(t, s.Path(), fact); strings.Contains(left, needle) {
		t.Errorf("words are left:\n%s", grep(left, needle))
	}
	seen, err := Collect(s.Observations(ctx, d.RunID))
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, o := range seen {
		targets = append(targets, o.Target)
	}
	if diff := cmp.Diff([]string{"a.go", "b.go", "release", "", "", "", ""}, targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	rows, err := s.Rewinds(ctx, d.RunID)
	if err != nil || len(rows) != 1 || len(rows[0].Items) != 2 || rows[0].Items[0].Name != "" || rows[0].Items[1].Name != "b.go" {
		t.Errorf("rewinds: %+v, %v", rows, err)
	}
	if got, err := s.ArchiveSession(ctx, sess); err != nil || got.Rows != 0 || got.Bytes != 0 {
		t.Errorf("a second archive: %+v, %v", got, err)
	}
}

func TestARemovalNamesTheForksThatKeepACopy(t *testing.T) {
	ctx := context.Background()
	past := newClock()
	s := newFile(t, WithClock(past.Now))
	family := func() (trace.SessionID, []trace.RunID) {
		sess := newSession(t, s)
		d := start(t, s, RunStart{Turn: &TurnStart{Session: sess, Prompt: "p"}})
		commit(t, s, d, aStep(1))
		finish(t, s, d, trace.Finished, 1)
		fork, err := s.ForkRun(ctx, d.RunID, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.ForkRun(ctx, fork, 1)
		if err != nil {
			t.Fatal(err)
		}
		return sess, []trace.RunID{fork, again}
	}
	archived, forks := family()
	if got, err := s.ArchiveSession(ctx, archived); err != nil || !cmp.Equal(got.Forks, forks) {
		t.Errorf("archived %+v, %v, forks %v", got, err, forks)
	}
	if obs, err := Collect(s.Observations(ctx, forks[1])); err != nil || len(obs) != 1 || obs[0].Text == "" {
		t.Errorf("the fork holds %+v, %v", obs, err)
	}
	deleted, forks := family()
	if got, err := s.DeleteSession(ctx, deleted); err != nil || !cmp.Equal(got.Forks, forks) {
		t.Errorf("deleted %+v, %v, forks %v", got, err, forks)
	}
	if got, err := s.DeleteRun(ctx, forks[0]); err != nil || !cmp.Equal(got.Forks, forks[1:]) {
		t.Errorf("deleted the first fork: %+v, %v", got, err)
	}
	_, forks = family()
	cut := past.Now().Add(time.Second)
	for _, opts := range [][]SweepOption{{DryRun()}, nil} {
		got, err := s.SweepSessions(ctx, cut, opts...)
		if err != nil || len(got.Forks) < 2 || !cmp.Equal(got.Forks[len(got.Forks)-2:], forks) {
			t.Errorf("swept %+v, %v, forks %v", got, err, forks)
		}
	}
	plain := newSession(t, s)
	finish(t, s, start(t, s, RunStart{Turn: &TurnStart{Session: plain, Prompt: "p"}}), trace.Finished, 0)
	if got, err := s.DeleteSession(ctx, plain); err != nil || got.Forks != nil {
		t.Errorf("without a fork: %+v, %v", got, err)
	}
}
