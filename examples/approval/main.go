// Command approval shows a decision that outlives the process that asked for it.
//
// A first process works on a turn until the policy asks about a command. Nobody is
// there to decide, so the approver defers, the turn pauses, and the process ends.
// A second process opens the same file, lists what waits, and approves it. A
// third one resumes the turn: the very command that was asked about runs, once,
// and the model is told what it brought.
//
// Then the same with a question, which a process that is still waiting gets
// answered by another.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

func main() {
	var err error
	if len(os.Args) == 3 {
		err = worker(context.Background(), os.Stdout, os.Args[1], os.Args[2])
	} else {
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "approval:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "approval-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o755); err != nil {
		return err
	}
	fmt.Fprintln(out, "--- one process asks, and ends")
	if err := process(ctx, out, "ask", dir).Run(); err != nil {
		return err
	}
	fmt.Fprintln(out, "--- another decides")
	if err := process(ctx, out, "decide", dir).Run(); err != nil {
		return err
	}
	fmt.Fprintln(out, "--- a third goes on")
	if err := process(ctx, out, "resume", dir).Run(); err != nil {
		return err
	}
	fmt.Fprintln(out, "--- a question is answered while its process waits")
	waits := process(ctx, out, "question", dir)
	if err := waits.Start(); err != nil {
		return err
	}
	if err := answer(ctx, out, dir); err != nil {
		_ = waits.Process.Kill()
		return errors.Join(err, waits.Wait())
	}
	return waits.Wait()
}

// process is this program once more, in another role.
func process(ctx context.Context, out io.Writer, role, dir string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.CommandContext(ctx, self, role, dir)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd
}

func worker(ctx context.Context, out io.Writer, role, dir string) error {
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	defer st.Close()
	switch role {
	case "ask":
		return ask(ctx, out, st, dir)
	case "decide":
		return decide(ctx, out, st)
	case "resume":
		return resume(ctx, out, st)
	case "question":
		return question(ctx, out, st, dir)
	}
	return fmt.Errorf("there is no role %q", role)
}

// config is what every process that drives the agent shares.
func config(out io.Writer, st *store.Store, turns ...scripted.Turn) harness.Config {
	return harness.Config{
		Provider: scripted.New(turns...), Store: st, Observer: trace.Printer(out),
		Policy: policy.Default().Layer("app").AskExec("mkdir*"),
		// Nobody is in front of this process: what asks waits for somebody else.
		Approver: approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { return approve.Defer(), nil }),
	}
}

func ask(ctx context.Context, out io.Writer, st *store.Store, dir string) error {
	h, err := harness.New(config(out, st, scripted.Call("exec", map[string]any{"argv": []string{"mkdir", "release"}})))
	if err != nil {
		return err
	}
	s, err := h.Open(ctx, filepath.Join(dir, "work"))
	if err != nil {
		return err
	}
	turn, err := s.Turn(ctx, "prepare the release directory")
	if err != nil {
		return err
	}
	if turn.Outcome.Kind != trace.AwaitingApproval {
		return fmt.Errorf("the turn should wait, and %s", turn.Outcome)
	}
	return nil
}

func decide(ctx context.Context, out io.Writer, st *store.Store) error {
	waiting, err := st.Waiting(ctx)
	if err != nil {
		return err
	}
	for _, run := range waiting {
		a := session.Attach(st, run.ID)
		held, err := a.Waiting(ctx)
		if err != nil {
			return err
		}
		for _, w := range held {
			req, ok := w.(session.WaitingApproval)
			if !ok {
				continue
			}
			fmt.Fprintf(out, "run %d asks: %s %s (rule %q of layer %q): approved\n", req.RunID, req.Act, policy.Escape(req.Target), req.Rule, req.Layer)
			won, err := a.AnswerApproval(ctx, req.RequestID, approve.Approve())
			if err != nil {
				return err
			}
			if !won {
				return errors.New("somebody else was first")
			}
		}
	}
	return nil
}

func resume(ctx context.Context, out io.Writer, st *store.Store) error {
	h, err := harness.New(config(out, st, func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		result, ok := scripted.LastResult(req, "exec")
		if !ok {
			return nil, errors.New("the result of the approved command did not come back")
		}
		if !strings.Contains(result, "exit 0") && !strings.Contains(result, "exit code 0") {
			return nil, fmt.Errorf("the approved command went wrong: %s", result)
		}
		return scripted.Say("The release directory is there.")(ctx, req)
	}))
	if err != nil {
		return err
	}
	s, err := h.Reopen(ctx, 1)
	if err != nil {
		return err
	}
	turn, err := s.ResumeTurn(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.Root(), "release")); err != nil {
		return err
	}
	fmt.Fprintln(out, turn.Reply)
	return nil
}

// question drives a turn whose responder waits for as long as it takes; the run
// looks meanwhile whether another process has answered.
func question(ctx context.Context, out io.Writer, st *store.Store, dir string) error {
	cfg := config(out, st,
		scripted.Call("ask_question", map[string]any{"question": "which version is it?", "choices": []string{"1.4.0", "2.0.0"}}),
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			if told, _ := scripted.LastResult(req, "ask_question"); !strings.Contains(told, "2.0.0") {
				return nil, fmt.Errorf("the answer did not come back: %q", told)
			}
			return scripted.Say("Then the release is called 2.0.0.")(ctx, req)
		})
	cfg.Responder = approve.ResponderFunc(func(ctx context.Context, _ approve.Question) (approve.Reply, error) {
		<-ctx.Done()
		return approve.Reply{}, ctx.Err()
	})
	events := trace.Broadcast(st, cfg.Observer)
	defer events.Close()
	cfg.Observer = events
	h, err := harness.New(cfg)
	if err != nil {
		return err
	}
	s, err := h.Open(ctx, filepath.Join(dir, "work"))
	if err != nil {
		return err
	}
	turn, err := s.Turn(ctx, "name the release")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, turn.Reply)
	return nil
}

// answer attaches to the newest run, follows it until it asks, and answers.
func answer(ctx context.Context, out io.Writer, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	defer st.Close()
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		last, err := st.LastRun(ctx)
		if err != nil {
			return err
		}
		a := session.Attach(st, last.ID)
		held, err := a.Waiting(ctx)
		if err != nil {
			return err
		}
		for _, w := range held {
			q, ok := w.(session.WaitingQuestion)
			if !ok {
				continue
			}
			fmt.Fprintf(out, "run %d asks %q: answered from here\n", q.RunID, policy.Escape(q.Question))
			_, err := a.AnswerQuestion(ctx, q.QuestionID, q.Choices[1].Label)
			return err
		}
	}
	return context.Cause(ctx)
}
