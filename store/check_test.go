package store

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

func TestCheckSeesEveryBreach(t *testing.T) {
	for _, tc := range []struct {
		name, script, want string
	}{
		{"a step too many", `INSERT INTO steps (run_id, step, decision, tokens, changed, first_seq, next_seq, at) VALUES (1, 3, '', 0, 0, 0, 0, 0)`, "last step: run 1"},
		{"a gap between steps", `UPDATE steps SET step = 7 WHERE run_id = 1 AND step = 2`, "step gaps: run 1"},
		{"a draw that nobody made", `UPDATE runs SET spent_tokens = 21 WHERE id = 1`, "spent tokens: run 1"},
		{"a reply that was not charged", `UPDATE runs SET spent_tokens = 1 WHERE id = 2`, "reply spend: run 2"},
		{"a gap in the ledger", `UPDATE ledger_observations SET seq = 5 WHERE run_id = 1 AND seq = 1`, "ledger gaps: run 1"},
		{"a summary of a run that goes on", `UPDATE runs SET status = 'running' WHERE id = 2`, "summary of unfinished: run 2"},
		{"an ended run without a summary", `DELETE FROM run_outcomes WHERE run_id = 2`, "no summary: run 2"},
		{"a lease of a child", `INSERT INTO run_leases (run_id, owner, host, pid, pid_started, generation, drive_id, acquired_at, renewed_at, ttl_ms) VALUES (3, '', '', 0, '', 1, 0, 0, 0, 0)`, "lease of child: run 3"},
		{"a child of another tree", `UPDATE runs SET root_run_id = 2 WHERE id = 3`, "root: run 3"},
		{"a fold of more than there is", `INSERT INTO summaries (run_id, step, through_step, folded, text, before_tokens, after_tokens, tokens, at) VALUES (1, 1, 1, 99, 'x', 0, 0, 0, 0)`, "fold: run 1"},
		{"a head of another session", `UPDATE sessions SET head_turn_id = (SELECT id FROM session_turns WHERE session_id = 1) WHERE id = 2`, "head: session 2"},
		{"evidence that nobody gave", `INSERT INTO memory_evidence (workspace, key, runs, last_at) VALUES ('/w', 'other', 1, 1)`, "note evidence: note other of /w: 1 runs drew on it by its evidence and 0"},
		{"evidence that was lost", `DELETE FROM memory_evidence WHERE key = 'k'`, "note evidence: note k of /w: 0 runs drew on it by its evidence and 1"},
		{"evidence that is counted twice", `UPDATE memory_evidence SET runs = 2 WHERE key = 'k'`, "note evidence: note k of /w: 2 runs"},
		{"evidence of another time", `UPDATE memory_evidence SET last_at = last_at + 1 WHERE key = 'k'`, "note evidence: note k of /w: 1 runs"},
		{"a row without its run", `PRAGMA foreign_keys = 0; DELETE FROM runs WHERE id = 2`, "foreign key check"},
		{"dropped rows of nonsense", `UPDATE drives SET dropped = '{'`, "dropped rows"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFile(t)
			one := start(t, s, RunStart{Mode: ModeTree})
			commit(t, s, one, aStep(1))
			commit(t, s, one, aStep(2))
			sess, other := newSession(t, s), newSession(t, s)
			two := start(t, s, RunStart{Kind: KindReply, Turn: &TurnStart{Session: sess, Prompt: "p"}})
			two.Record(call(1, 5), MemoryRecall{Step: 1, Workspace: "/w", Key: "k"}, MemoryRecall{Step: 2, Workspace: "/w", Key: "k"})
			finish(t, s, two, trace.Finished, 0)
			three := child(t, s, one, 1, 0, "")
			if one.RunID != 1 || two.RunID != 2 || three.RunID != 3 || sess != 1 || other != 2 {
				t.Fatal("the ids are not what the scripts take them for")
			}
			sound(t, s)
			raw(t, s.Path(), tc.script)
			rep, err := s.Check(context.Background())
			if err != nil || rep.Sound() || !strings.Contains(strings.Join(rep.Problems, "\n"), tc.want) {
				t.Errorf("Check: %q, %v, want %q", rep.Problems, err, tc.want)
			}
		})
	}
}

func TestADamagedFileIsNamedAsDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openAt(t, path)
	d := start(t, s, RunStart{})
	for n := 1; n <= 50; n++ {
		c := aStep(n)
		c.Prompt = strings.Repeat(itoa(n%10), 5000)
		commit(t, s, d, c)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	rubbish := make([]byte, 4096)
	for i := range rubbish {
		rubbish[i] = 0xA5
	}
	for at := fi.Size() / 2 / 4096 * 4096; at < fi.Size(); at += 8192 {
		if _, err := f.WriteAt(rubbish, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(context.Background(), path)
	if err != nil {
		wantKind(t, func() error { return err }, KindCorrupt)
		return
	}
	defer func() { _ = s.Close() }()
	rep, err := s.Check(context.Background())
	if err != nil {
		wantKind(t, func() error { return err }, KindCorrupt)
	} else if rep.Sound() {
		t.Error("Check sees nothing")
	}
}
