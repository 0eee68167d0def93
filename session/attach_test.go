package session_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// The environment that makes this test binary a second process.
const (
	attachDir  = "SESSION_ATTACH_DIR"
	attachRole = "SESSION_ATTACH_ROLE"
)

// patience bounds what a test waits for in another process.
const patience = 20 * time.Second

// parks is a person who says nothing as long as the process lives.
type parks struct{}

func (parks) Decide(ctx context.Context, _ approve.Request) (approve.Decision, error) {
	<-ctx.Done()
	return approve.Decision{}, ctx.Err()
}
func (parks) Answer(ctx context.Context, _ approve.Question) (approve.Reply, error) {
	<-ctx.Done()
	return approve.Reply{}, ctx.Err()
}
func (parks) Review(ctx context.Context, _ approve.Plan) (approve.PlanVerdict, error) {
	<-ctx.Done()
	return approve.PlanVerdict{}, ctx.Err()
}

// parked is a program in which an agent waits for a person: a write that asks, a
// question, or a plan. told says what the model's next step does with what it was
// told, so that a test sees it in the files.
func parkedScript(role string) (turns []scripted.Turn, told string) {
	record := func(tool string) scripted.Turn {
		return func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			result, _ := scripted.LastResult(req, tool)
			return scripted.Call("write_file", map[string]string{"path": "told.txt", "content": result})(ctx, req)
		}
	}
	switch role {
	case "approval":
		told = "write_file"
		turns = []scripted.Turn{scripted.Call("write_file", map[string]string{"path": "asked/a.txt", "content": "asked"})}
	case "question":
		told = "ask_question"
		turns = []scripted.Turn{scripted.Call("ask_question", map[string]string{"question": "which port?"})}
	case "plan":
		told = "propose_plan"
		turns = []scripted.Turn{scripted.Call("propose_plan", map[string]any{"steps": []map[string]string{{"intent": "look"}, {"intent": "write"}}})}
	}
	return append(turns, record(told), scripted.Say("done")), told
}

func attachPolicy() policy.Policy {
	return policy.Default().Layer("test").AllowWrite("told.txt").AskWrite("asked/*")
}

func attachConfig(st *store.Store, role string, turns ...scripted.Turn) harness.Config {
	cfg := harness.Config{Provider: scripted.New(turns...), Store: st, Policy: attachPolicy(), Approver: parks{}, Responder: parks{}}
	if role == "plan" {
		cfg.PlanGate = parks{}
	}
	return cfg
}

// TestAttachHelper is no test: it is the second process of those below.
func TestAttachHelper(t *testing.T) {
	dir, role := os.Getenv(attachDir), os.Getenv(attachRole)
	if dir == "" {
		t.Skip("runs only as the second process of the tests of attaching")
	}
	if err := attachHelper(context.Background(), dir, role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func attachHelper(ctx context.Context, dir, role string) error {
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	if role == "watch" {
		a := session.Attach(st, 1)
		for {
			events, err := a.Poll(ctx)
			if err != nil && !errors.Is(err, store.ErrNotFound) { // the run may be yet to come
				return err
			}
			for _, ev := range events {
				fmt.Println(ev.Kind(), a.Cursor())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	turns, _ := parkedScript(role)
	cfg := attachConfig(st, role, turns...)
	b := trace.Broadcast(st, nil)
	defer b.Close()
	cfg.Observer = b
	h, err := harness.New(cfg)
	if err != nil {
		return err
	}
	s, err := h.Open(ctx, filepath.Join(dir, "work"))
	if err != nil {
		return err
	}
	turn, err := s.Turn(ctx, "do it", session.WithContract(task.Contract{LeaseTTL: time.Hour}))
	if err != nil {
		return err
	}
	fmt.Println(turn.Outcome.Kind)
	return st.Close()
}

// pair is this process and a second one on the same store.
type pair struct {
	t     *testing.T
	dir   string
	store *store.Store
}

func newPair(t *testing.T) *pair {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), filepath.Join(dir, "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &pair{t, dir, st}
}

// other starts the second process; the test kills it at the latest.
func (p *pair) other(role string) *exec.Cmd {
	p.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestAttachHelper$")
	cmd.Env = append(os.Environ(), attachDir+"="+p.dir, attachRole+"="+role)
	p.t.Cleanup(func() {
		if cmd.ProcessState == nil && cmd.Process != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

func (p *pair) read(name string) string {
	b, err := os.ReadFile(filepath.Join(p.dir, "work", name))
	if err != nil {
		return ""
	}
	return string(b)
}

// held waits until the run waits for somebody.
func (p *pair) held(a *session.Attachment) session.Waiting {
	p.t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		ws, err := a.Waiting(context.Background())
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			p.t.Fatal(err)
		}
		if len(ws) == 1 {
			return ws[0]
		}
	}
	p.t.Fatal("nothing came to wait")
	return nil
}

// killed has the second process drive a run until it waits for somebody, and kills it.
func (p *pair) killed(role string) (*session.Attachment, session.Waiting) {
	p.t.Helper()
	cmd := p.other(role)
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	a := session.Attach(p.store, 1)
	w := p.held(a)
	if err := cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = cmd.Wait()
	return a, w
}

// watched drives a run in this process while the second one watches it and prints what
// it sees.
func (p *pair) watched(script func(watcher *exec.Cmd, sees *bufio.Scanner) []scripted.Turn) (*trace.Result, *trace.Broadcaster) {
	p.t.Helper()
	watcher := p.other("watch")
	out, err := watcher.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := watcher.Start(); err != nil {
		p.t.Fatal(err)
	}
	b := trace.Broadcast(p.store, nil)
	p.t.Cleanup(func() { _ = b.Close() })
	h, err := harness.New(harness.Config{Store: p.store, Policy: attachPolicy(), Observer: b, Provider: scripted.New(script(watcher, bufio.NewScanner(out))...)})
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := h.Run(p.t.Context(), task.New("look", filepath.Join(p.dir, "work")))
	if err != nil || res.Outcome.Kind != trace.Finished {
		p.t.Fatalf("%+v, %v", res, err)
	}
	return res, b
}

// answer says yes or no to whatever waits.
func answer(ctx context.Context, a *session.Attachment, w session.Waiting, yes bool) (bool, error) {
	switch w := w.(type) {
	case session.WaitingApproval:
		if yes {
			return a.AnswerApproval(ctx, w.RequestID, approve.Approve())
		}
		return a.AnswerApproval(ctx, w.RequestID, approve.Deny("not on a Friday"))
	case session.WaitingQuestion:
		return a.AnswerQuestion(ctx, w.QuestionID, "use 7171")
	case session.WaitingPlan:
		if yes {
			return a.AnswerPlan(ctx, w.PlanID, approve.Accept())
		}
		return a.AnswerPlan(ctx, w.PlanID, approve.Cancel())
	}
	return false, fmt.Errorf("unknown %T", w)
}

func TestAnotherProcessAnswersARunThatIsDriven(t *testing.T) {
	for _, tc := range []struct {
		name, role string
		yes        bool
		outcome    string
		told       string
		asked      string // content of the file that asks
	}{
		{"an act is approved", "approval", true, "finished", "", "asked"},
		{"an act is denied, with the reason", "approval", false, "finished", "not on a Friday", ""},
		{"a question is answered", "question", true, "finished", "use 7171", ""},
		{"a plan is approved", "plan", true, "finished", "Approved", ""},
		{"a plan is cancelled", "plan", false, "plan_rejected", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPair(t)
			cmd := p.other(tc.role)
			out := &strings.Builder{}
			cmd.Stdout, cmd.Stderr = out, os.Stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			a := session.Attach(p.store, 1)
			w := p.held(a)
			if won, err := answer(t.Context(), a, w, tc.yes); err != nil || !won {
				t.Fatalf("answer: %t, %v", won, err)
			}
			if won, err := answer(t.Context(), a, w, !tc.yes); err != nil || won {
				t.Errorf("a second answer: %t, %v", won, err)
			}
			if ws, err := a.Waiting(t.Context()); err != nil || len(ws) != 0 {
				t.Errorf("what was answered still waits: %+v, %v", ws, err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("the driver: %v\n%s", err, out)
			}
			if !strings.HasPrefix(out.String(), tc.outcome) {
				t.Errorf("the driver ended as %q, want %s", out, tc.outcome)
			}
			if got := p.read("told.txt"); !strings.Contains(got, tc.told) || tc.outcome == "finished" && got == "" {
				t.Errorf("the model was told %q, want %q", got, tc.told)
			}
			if got := p.read("asked/a.txt"); got != tc.asked {
				t.Errorf("the file holds %q, want %q", got, tc.asked)
			}
		})
	}
}

func TestADriverThatIsKilledWhileItWaitsIsAnsweredAndResumed(t *testing.T) {
	for _, tc := range []struct {
		role     string
		attached bool // answered while nobody drives, and not with the resume
		told     string
	}{
		{"question", true, "use 7171"},
		{"question", false, "use 7171"},
		{"plan", true, "plan approved"},
		{"plan", false, "plan approved"},
		{"approval", true, ""},
		{"approval", false, ""},
	} {
		t.Run(fmt.Sprintf("%s, attached %t", tc.role, tc.attached), func(t *testing.T) {
			p := newPair(t)
			a, w := p.killed(tc.role)
			if again := p.held(a); !cmp.Equal(w, again) {
				t.Fatalf("after the kill there waits %+v, before it %+v", again, w)
			}
			if info, err := p.store.Run(t.Context(), 1); err != nil || info.LastStep != 0 {
				t.Fatalf("%+v, %v: the step that waits has committed", info, err)
			}
			// The step was not committed, so it is made again: from a fresh script, as
			// the model would. Its people must not be asked what was answered.
			turns, tool := parkedScript(tc.role)
			opts := []session.Option{}
			switch w := w.(type) {
			case session.WaitingQuestion:
				opts = append(opts, session.Answer(w.QuestionID, "use 7171"))
			case session.WaitingPlan:
				opts = append(opts, session.Verdict(w.PlanID, approve.Accept()))
				turns = turns[1:] // it never plans again
			case session.WaitingApproval:
				opts = append(opts, session.Decide(w.RequestID, approve.Approve()))
			}
			if tc.attached {
				if won, err := answer(t.Context(), a, w, true); err != nil || !won {
					t.Fatalf("answer: %t, %v", won, err)
				}
				opts = nil
			}
			m := scripted.New(turns...)
			cfg := attachConfig(p.store, tc.role)
			cfg.Provider = m
			h, err := harness.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			s, err := h.Reopen(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			turn, err := s.ResumeTurn(t.Context(), 1, opts...)
			if err != nil || turn.Outcome.Kind != trace.Finished {
				t.Fatalf("resume: %+v, %v", turn, err)
			}
			if got := m.Requests()[0].User; !strings.Contains(got, tc.told) {
				t.Errorf("the first prompt of the resume does not tell %q:\n%s", tc.told, got)
			}
			if tc.role == "approval" && p.read("asked/a.txt") != "asked" {
				t.Error("the approved write did not happen")
			}
			if tc.role == "plan" {
				for _, req := range m.Requests() {
					if slices.ContainsFunc(req.Tools, func(s provider.ToolSpec) bool { return s.Name == tool }) {
						t.Error("a plan is asked for again")
					}
				}
			}
			if ws, err := a.Waiting(t.Context()); err != nil || len(ws) != 0 {
				t.Errorf("something still waits: %+v, %v", ws, err)
			}
		})
	}
}

func TestAWatcherThatIsKilledChangesNothing(t *testing.T) {
	p := newPair(t)
	var saw string
	_, b := p.watched(func(watcher *exec.Cmd, sees *bufio.Scanner) []scripted.Turn {
		return []scripted.Turn{
			scripted.Call("read_file", map[string]string{"path": "a"}),
			func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
				if !sees.Scan() { // the watcher has seen the run
					return nil, errors.New("the watcher saw nothing")
				}
				saw = sees.Text()
				if err := watcher.Process.Kill(); err != nil {
					return nil, err
				}
				_ = watcher.Wait()
				return scripted.Say("done")(ctx, req)
			},
		}
	})
	if n, err := b.Dropped(); n != 0 || !strings.HasPrefix(saw, "started ") {
		t.Errorf("the watcher saw %q; %d events dropped: %v", saw, n, err)
	}
}

// observed drives one run in this process under a broadcast.
func observed(t *testing.T, turns ...scripted.Turn) (*pair, *trace.Result, []trace.Event) {
	t.Helper()
	p := newPair(t)
	var mu sync.Mutex
	var seen []trace.Event
	b := trace.Broadcast(p.store, trace.ObserverFunc(func(ev trace.Event) trace.Flow {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, ev)
		return trace.Continue
	}))
	defer b.Close()
	h, err := harness.New(harness.Config{Store: p.store, Policy: attachPolicy(), Observer: b, Provider: scripted.New(turns...)})
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Run(t.Context(), task.New("look", filepath.Join(p.dir, "work")))
	if err != nil {
		t.Fatal(err)
	}
	return p, res, seen
}

func TestAnAttachmentSeesWhatTheObserverSees(t *testing.T) {
	turns := []scripted.Turn{
		scripted.Call("write_file", map[string]string{"path": "told.txt", "content": "x"}),
		scripted.Call("read_file", map[string]string{"path": ".env"}),
		scripted.Say("done"),
	}
	p, res, seen := observed(t, turns...)
	a := session.Attach(p.store, res.RunID)
	got, err := a.Poll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seen, got); diff != "" {
		t.Errorf("events (-observer +attached):\n%s", diff)
	}
	if more, err := a.Poll(t.Context()); err != nil || len(more) != 0 {
		t.Errorf("again: %v, %v", more, err)
	}
	// From a cursor that another process kept.
	for _, at := range []int{0, 3, len(seen)} {
		kept := session.Attach(p.store, res.RunID, session.FromCursor(a.Cursor()-store.EventCursor(len(seen)-at)))
		got, err := kept.Poll(t.Context())
		if err != nil || !cmp.Equal(append([]trace.Event{}, seen[at:]...), append([]trace.Event{}, got...)) {
			t.Errorf("from event %d: %d events, %v, want %d", at, len(got), err, len(seen)-at)
		}
	}
	late := session.Attach(p.store, res.RunID)
	if err := late.FromNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := late.Poll(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("from now: %v, %v", got, err)
	}
}

func TestWithoutABroadcastThereIsNothingToPollAndStillSomethingToAnswer(t *testing.T) {
	p := newPair(t)
	h, err := harness.New(harness.Config{Store: p.store, Provider: scripted.New(scripted.Call("ask_question", map[string]string{"question": "which port?"}), scripted.Say("done"))})
	if err != nil {
		t.Fatal(err)
	}
	res, err := h.Run(t.Context(), task.New("look", filepath.Join(p.dir, "work")))
	if err != nil || res.Outcome.Kind != trace.AwaitingAnswer {
		t.Fatalf("%+v, %v", res, err)
	}
	a := session.Attach(p.store, res.RunID)
	if evs, err := a.Poll(t.Context()); err != nil || len(evs) != 0 {
		t.Errorf("events %v, %v", evs, err)
	}
	if won, err := answer(t.Context(), a, p.held(a), true); err != nil || !won {
		t.Errorf("answer: %t, %v", won, err)
	}
	// Nobody drives the run: the answer waits for its next resume.
	again, err := h.Resume(t.Context(), res.RunID)
	if err != nil || again.Outcome.Kind != trace.Finished {
		t.Errorf("resume: %+v, %v", again, err)
	}
}

func TestThePollOfARunThatIsNotThereSaysSo(t *testing.T) {
	p, res, _ := observed(t, scripted.Say("done"))
	a := session.Attach(p.store, res.RunID)
	if _, err := a.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string][]session.AttachOption{"alone": nil, "tree": {session.Tree()}} {
		if evs, err := session.Attach(p.store, 999, opts...).Poll(t.Context()); !errors.Is(err, store.ErrNotFound) || evs != nil {
			t.Errorf("%s: %v, %v", name, evs, err)
		}
	}
	if evs, err := a.Poll(t.Context()); err != nil || len(evs) != 0 {
		t.Errorf("a run that ended: %v, %v", evs, err)
	}
	if _, err := p.store.DeleteRun(t.Context(), res.RunID); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Poll(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a run that was deleted meanwhile: %v", err)
	}
}

func TestALongStreamIsReadInPieces(t *testing.T) {
	p, res, _ := observed(t, scripted.Say("done"))
	var evs []trace.Event
	for i := range 2 * store.PollLimit {
		evs = append(evs, trace.Event{RunID: res.RunID, Step: i, Fact: trace.ToolCalled{Name: "x"}})
	}
	if err := p.store.PutEvents(t.Context(), evs...); err != nil {
		t.Fatal(err)
	}
	a := session.Attach(p.store, res.RunID)
	total, last := 0, store.EventCursor(0)
	for {
		got, err := a.Poll(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > store.PollLimit || len(got) > 0 && a.Cursor() <= last {
			t.Fatalf("%d events, cursor %d behind %d", len(got), a.Cursor(), last)
		}
		last = a.Cursor()
		if total += len(got); len(got) < store.PollLimit {
			break
		}
	}
	if total <= 2*store.PollLimit {
		t.Errorf("%d events in all", total)
	}
}
