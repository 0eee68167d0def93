package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// child takes a turn in a second process and says when it may be killed: it never
// returns by itself. dir holds the store and the workspace; mode says where the
// turn stands then.
func child(dir string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(3)
	}
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		fail(err)
	}
	steer, in := session.NewSteer()
	mode := os.Getenv("SESSION_TEST_MODE")
	here := func(context.Context, *provider.Request) (*provider.Response, error) {
		if strings.HasPrefix(mode, "steered") {
			for _, text := range []string{"leave billing alone", "and use port 7171"} {
				if err := steer.Say(text); err != nil {
					fail(err)
				}
			}
			for said := 0; said < 2; { // until it is stored
				rows, _, err := st.Unheard(ctx, 2)
				if err != nil {
					fail(err)
				}
				said = len(rows)
			}
		}
		fmt.Println("here")
		select {}
	}
	m := scripted.New(scripted.Say("R1"), here)
	if mode == "working" || mode == "steered" {
		m = scripted.New(scripted.Say("R1"), write("a.txt", "a"), here)
	}
	h, err := harness.New(harness.Config{Provider: m, Store: st, Policy: rules()})
	if err != nil {
		fail(err)
	}
	s, err := h.Open(ctx, filepath.Join(dir, "work"))
	if err != nil {
		fail(err)
	}
	if _, err := s.Turn(ctx, "P1"); err != nil {
		fail(err)
	}
	_, err = s.Turn(ctx, "P2", session.WithSteer(in))
	fail(fmt.Errorf("the turn returned: %v", err))
}

// killed leaves a fixture behind whose second turn was killed in the given mode.
func killed(t *testing.T, mode string) *fixture {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a lease of a dead process is freed by its time only")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	c, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(c, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "SESSION_TEST_CHILD="+dir, "SESSION_TEST_MODE="+mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	n, err := out.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "here") {
		t.Fatalf("the second process says %q, %v", buf[:n], err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait() // it was killed, and says so
	f := &fixture{t: t, dir: filepath.Join(dir, "work"), path: filepath.Join(dir, "runs.db"), model: scripted.New(), seen: &events{}}
	if f.store, err = store.Open(ctx, f.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.store.Close() })
	f.cfg = harness.Config{Provider: f.model, Store: f.store, Policy: rules()}
	return f
}

func TestATurnThatWasKilledAtWorkIsResumedInAnotherProcess(t *testing.T) {
	f := killed(t, "working")
	s := f.reopen(1)
	tr, err := s.Transcript(ctx)
	if err != nil || len(tr.Turns) != 2 || tr.Turns[1].Outcome != nil || tr.Turns[1].OnPath || s.Head() != tr.Turns[0].TurnID {
		t.Fatalf("transcript %+v, %v; head %d", tr, err, s.Head())
	}
	f.model.Push(scripted.Say("R2"))
	back, err := s.ResumeTurn(ctx, tr.Turns[1].TurnID)
	if err != nil || back.Reply != "R2" || back.Outcome.Steps != 2 || s.Head() != back.ID {
		t.Fatalf("%+v, %v; head %d", back, err, s.Head())
	}
	if got := said(f.last()); !strings.Contains(got, "P1") || !strings.Contains(got, "R1") || !strings.Contains(got, "a.txt") {
		t.Errorf("the resumed turn was told %q", got)
	}
	f.model.Push(scripted.Say("R3"))
	f.turn(s, "P3")
	if !strings.Contains(said(f.last()), "R2") {
		t.Error("the next turn does not see what the resumed one answered")
	}
}

func TestATurnThatWasKilledBeforeItsFirstStepIsAskedAgain(t *testing.T) {
	f := killed(t, "answering")
	s := f.reopen(1)
	var refused *store.ResumeError
	if _, err := s.ResumeTurn(ctx, 2); !errors.As(err, &refused) {
		t.Errorf("resumed with %v", err)
	}
	f.model.Push(scripted.Say("R2"))
	again := f.turn(s, "P2")
	if again.Reply != "R2" || again.Parent != 1 || again.Outcome.Kind != trace.Finished {
		t.Errorf("%+v", again)
	}
}

func TestWhatWasSaidToATurnThatWasKilledIsHeardOnce(t *testing.T) {
	f := killed(t, "steered")
	s := f.reopen(1)
	f.model.Push(read("a.txt"), scripted.Say("R2"))
	back, err := s.ResumeTurn(ctx, 2)
	if err != nil || back.Reply != "R2" || len(back.Undelivered.Messages) != 0 {
		t.Fatalf("%+v, %v", back, err)
	}
	for i, req := range f.model.Requests() {
		got := req.User
		first, second := strings.Index(got, "leave billing alone"), strings.Index(got, "and use port 7171")
		if first < 0 || second < first || strings.Count(got, "leave billing alone") != 1 {
			t.Errorf("request %d tells:\n%s", i, got)
		}
	}
	if rows, _, err := f.store.Unheard(ctx, 2); err != nil || len(rows) != 0 {
		t.Errorf("still to be heard: %+v, %v", rows, err)
	}
	again, err := s.ResumeTurn(ctx, 2)
	if err != nil || len(again.Undelivered.Messages) != 0 {
		t.Errorf("%+v, %v: what was heard is handed back", again, err)
	}
}

func TestWhatWasSaidToATurnThatWasKilledIsHandedBackOnce(t *testing.T) {
	want := []string{"leave billing alone", "and use port 7171"}
	t.Run("when its resume ends before it could be heard", func(t *testing.T) {
		f := killed(t, "steered")
		s := f.reopen(1)
		steer, in := session.NewSteer()
		if err := steer.Say("and hurry"); err != nil {
			t.Fatal(err)
		}
		stop := trace.ObserverFunc(func(trace.Event) trace.Flow { return trace.Cancel })
		back, err := s.ResumeTurn(ctx, 2, session.WithObserver(stop), session.WithSteer(in))
		if err != nil || back.Outcome.Kind != trace.Cancelled {
			t.Fatalf("%+v, %v", back, err)
		}
		if diff := cmp.Diff(append(want, "and hurry"), back.Undelivered.Messages); diff != "" {
			t.Error(diff)
		}
		if again, err := s.ResumeTurn(ctx, 2); err != nil || len(again.Undelivered.Messages) != 0 {
			t.Errorf("%+v, %v: handed back twice", again, err)
		}
	})
	t.Run("when it can never be resumed", func(t *testing.T) {
		f := killed(t, "steered-answering")
		s := f.reopen(1)
		_, err := s.ResumeTurn(ctx, 2)
		if diff := cmp.Diff(want, turnError(t, err).Undelivered.Messages); diff != "" {
			t.Error(diff)
		}
		_, err = s.ResumeTurn(ctx, 2)
		if again := turnError(t, err); len(again.Undelivered.Messages) != 0 {
			t.Errorf("handed back twice: %+v", again)
		}
	})
	t.Run("when it is driven without a session", func(t *testing.T) {
		f := killed(t, "steered")
		stop := trace.ObserverFunc(func(trace.Event) trace.Flow { return trace.Cancel })
		f.cfg.Observer = stop
		res, err := f.harness().Resume(ctx, 2)
		if diff := cmp.Diff(want, res.Undelivered); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	})
}
