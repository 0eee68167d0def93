package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/trace"
)

const (
	crashDir   = "STORE_TEST_CRASH_DIR"   // makes the test binary a driver in that directory
	crashPoint = "STORE_TEST_CRASH_POINT" // kills the driver there
	crashCount = "STORE_TEST_CRASH_COUNT" // at which passage
	crashSteps = 3
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := driveToTheEnd(dir, os.Getenv(crashPoint), os.Getenv(crashCount)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// driveToTheEnd is a program with an agent inside: it starts or resumes the one
// run of its directory, makes an effect in each step, and finishes it.
func driveToTheEnd(dir, point, count string) error {
	ctx := context.Background()
	left, _ := strconv.Atoi(count)
	fail := func(at string) error {
		if point == "" || at != point {
			return nil
		}
		if left--; left > 0 {
			return nil
		}
		p, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = p.Kill()
		}
		time.Sleep(time.Minute) // the kill is on its way
		return err
	}
	s, err := Open(ctx, filepath.Join(dir, "runs.db"), func(o *options) { o.fail = fail })
	if err != nil {
		return err
	}
	d, err := startOrEnter(ctx, s, dir)
	if err != nil || d == nil {
		return errors.Join(err, s.Close())
	}
	for n := d.StartStep; n <= crashSteps; n++ {
		if err := driveStep(ctx, s, d, dir, n); err != nil {
			return err
		}
	}
	err = s.FinishRun(ctx, d, Finish{Outcome: trace.Outcome{Kind: trace.Finished, Steps: crashSteps}, Reply: "done"})
	return errors.Join(err, s.Close())
}

func startOrEnter(ctx context.Context, s *Store, dir string) (*Drive, error) {
	last, err := s.LastRun(ctx)
	if err != nil {
		return nil, err
	}
	if last == nil {
		sess, err := s.CreateSession(ctx, "/repo")
		if err != nil {
			return nil, err
		}
		return s.StartRun(ctx, RunStart{Goal: "crash", Root: "/repo", Turn: &TurnStart{Session: sess, Prompt: "crash"}})
	}
	opt := EnterOptions{}
	for {
		d, res, err := s.EnterDrive(ctx, last.ID, opt)
		if err != nil || d != nil {
			if d != nil {
				for _, w := range res.Writes {
					if w.Step != d.StartStep {
						err = fmt.Errorf("a write of step %d is announced before step %d", w.Step, d.StartStep)
					}
				}
			}
			return d, err
		}
		if res.Outcome.Kind != trace.AwaitingRecovery {
			return nil, nil // it had finished
		}
		// The person looks whether the effect took place.
		a := res.Attempts[0]
		dec := RecoveryDecision{ID: a.ID, Verdict: RecoveredRetry}
		if happened(dir, a.Step) {
			dec = RecoveryDecision{ID: a.ID, Verdict: RecoveredCompleted, Account: "it happened"}
		}
		opt = EnterOptions{Recovery: &dec}
	}
}

func driveStep(ctx context.Context, s *Store, d *Drive, dir string, n int) error {
	record(d, n)
	if err := d.Flush(ctx); err != nil {
		return err
	}
	path := fmt.Sprintf("file%d", n)
	if err := s.PutWriteIntent(ctx, d, &RestorePoint{Step: n, Path: path, State: KeptAbsent}, WriteIntent{Step: n, Tool: "write_file", Path: path}); err != nil {
		return err
	}
	if !happened(dir, n) { // a replay asks the accounts; here the file tells
		id, _, err := s.OpenAttempt(ctx, d, Attempt{Step: n, Tool: "effect"})
		if err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(f, "step %d\n", n); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := s.CloseAttempt(ctx, d, id, Returned, "ok"); err != nil {
			return err
		}
	}
	return s.CommitStep(ctx, d, fullStep(n))
}

func happened(dir string, n int) bool {
	raw, _ := os.ReadFile(filepath.Join(dir, "effects"))
	return bytes.Contains(raw, fmt.Appendf(nil, "step %d\n", n))
}

// runDriver runs the driver in a process of its own.
func runDriver(t *testing.T, dir, point string, count int) (killed bool) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), crashDir+"="+dir, crashPoint+"="+point, crashCount+"="+strconv.Itoa(count))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.ExitCode() != 1 && len(out) == 0:
		return true
	case errors.As(err, &exit) && point != "" && len(out) == 0:
		return true // windows kills with exit code 1
	}
	t.Fatalf("the driver failed at %q: %v\n%s", point, err, out)
	return false
}

// crashPoints are the statements that the driver passes, in order, and how often.
func crashPoints(t *testing.T) (points []string, passed map[string]int) {
	t.Helper()
	f := &failing{}
	dir := t.TempDir()
	ctx := context.Background()
	s, err := Open(ctx, filepath.Join(dir, "runs.db"), f.option())
	if err != nil {
		t.Fatal(err)
	}
	d, err := startOrEnter(ctx, s, dir)
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= crashSteps; n++ {
		if err := driveStep(ctx, s, d, dir, n); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, s, d, trace.Finished, crashSteps)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	passed = map[string]int{}
	for _, p := range f.seen {
		passed[p]++
	}
	return f.points(), passed
}

func TestAKilledDriverLosesNothingAndRepeatsNothing(t *testing.T) {
	points, passed := crashPoints(t)
	if len(points) < 30 {
		t.Fatalf("the driver passes only %q", points)
	}
	kills, tries := 0, 0
	for i, p := range points {
		if strings.HasPrefix(p, "read") || p == "last drive" {
			continue // a read changes nothing
		}
		if raceDetector && i%8 != 0 {
			continue // the database is some ten times slower then
		}
		tries++
		dir := t.TempDir()
		if runDriver(t, dir, p, 1+i%min(3, passed[p])) {
			kills++
			s := openAt(t, filepath.Join(dir, "runs.db"))
			sound(t, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := driveToTheEnd(dir, "", ""); err != nil {
			t.Fatalf("after a kill at %q: %v", p, err)
		}
		checkAfterCrash(t, dir, p)
	}
	if kills < tries*2/3 {
		t.Errorf("of %d drivers only %d were killed", tries, kills)
	}
}

func checkAfterCrash(t *testing.T, dir, point string) {
	t.Helper()
	ctx := context.Background()
	s := openAt(t, filepath.Join(dir, "runs.db"))
	sound(t, s)
	run, err := s.LastRun(ctx)
	if err != nil || run == nil {
		t.Fatalf("%s: %v, %v", point, run, err)
	}
	if run.Status != trace.StatusCompleted || run.LastStep != crashSteps || run.Tokens != 10*crashSteps {
		t.Errorf("%s: the run is %+v", point, run)
	}
	effects, err := os.ReadFile(filepath.Join(dir, "effects"))
	if want := "step 1\nstep 2\nstep 3\n"; err != nil || string(effects) != want {
		t.Errorf("%s: the effects are %q, %v", point, effects, err)
	}
	if edits, err := Collect(s.Edits(ctx, run.ID)); err != nil || len(edits) < crashSteps {
		t.Errorf("%s: %d edits, %v", point, len(edits), err)
	}
	if turn, err := s.TurnForRun(ctx, run.ID); err != nil || turn.Reply != "done" {
		t.Errorf("%s: the turn is %+v, %v", point, turn, err)
	} else if head, err := s.SessionHead(ctx, turn.SessionID); err != nil || head != turn.ID {
		t.Errorf("%s: the head is %d, %v", point, head, err)
	}
	if l, err := s.LeaseOf(ctx, run.ID); err != nil || l != nil {
		t.Errorf("%s: the lease is %+v, %v", point, l, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
