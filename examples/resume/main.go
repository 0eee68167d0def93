// Command resume shows what a crash costs: nothing that was committed. It starts
// itself as a second process that works on a run and kills itself with SIGKILL in
// the middle of a step; then it starts a third one, which finishes the run from
// its last committed step. At the end it checks that no step is missing and none
// is there twice.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// steps is how many files the agent writes, one in each step.
const steps = 6

func main() {
	var err error
	if len(os.Args) == 4 {
		err = work(context.Background(), os.Stdout, os.Args[2], os.Args[3] == "die")
	} else {
		err = run(context.Background(), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "resume:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "resume-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Mkdir(filepath.Join(dir, "work"), 0o755); err != nil {
		return err
	}
	fmt.Fprintln(out, "--- the first process works, and kills itself in step 4")
	err = again(ctx, out, dir, "die")
	var died *exec.ExitError
	if !errors.As(err, &died) {
		return fmt.Errorf("the first process should have been killed: %v", err)
	}
	fmt.Fprintf(out, "--- it is gone (%s); the second process goes on\n", died.ProcessState)
	if err := again(ctx, out, dir, "live"); err != nil {
		return err
	}
	return check(ctx, out, dir)
}

// again starts this program as a worker.
func again(ctx context.Context, out io.Writer, dir, how string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, self, "work", dir, how)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd.Run()
}

// work starts the run, or resumes it when there is one.
func work(ctx context.Context, out io.Writer, dir string, die bool) error {
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	defer st.Close()
	h, err := harness.New(harness.Config{
		Provider: model(die), Store: st, Observer: trace.Printer(out),
		Policy: policy.Default().Layer("app").AllowWrite("*"),
	})
	if err != nil {
		return err
	}
	last, err := st.LastRun(ctx)
	switch {
	case err != nil:
	case last == nil:
		_, err = h.Run(ctx, task.New("write the six parts of the report", filepath.Join(dir, "work")))
	default:
		_, err = h.Resume(ctx, last.ID)
	}
	return err
}

// model writes one part in each step. It knows where it stands by its own
// earlier turns in the request, as a real one does. When it is to die, it does
// so while it is being asked for the fourth step.
func model(die bool) provider.Provider {
	return scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		done := 0
		for _, m := range req.Messages {
			if m.Role == provider.RoleAssistant {
				done++
			}
		}
		if die && done == 3 {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return nil, err
			}
			if err := self.Kill(); err != nil {
				return nil, err
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		if done == steps {
			return scripted.Say("The report is complete.")(ctx, req)
		}
		name := fmt.Sprintf("part%d.txt", done+1)
		return scripted.Call("write_file", map[string]any{"path": name, "content": "this is " + name + "\n"})(ctx, req)
	})
}

// check reads the trace: every step once, and every part written once.
func check(ctx context.Context, out io.Writer, dir string) error {
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"), store.WithReadOnly())
	if err != nil {
		return err
	}
	defer st.Close()
	last, err := st.LastRun(ctx)
	if err != nil {
		return err
	}
	if last == nil {
		return errors.New("the store has no run")
	}
	n := 0
	for row, err := range st.Steps(ctx, last.ID) {
		if err != nil {
			return err
		}
		if n++; row.Step != n {
			return fmt.Errorf("step %d stands where %d should", row.Step, n)
		}
	}
	if n != steps+1 || last.Outcome.Kind != trace.Finished {
		return fmt.Errorf("%d steps, %s: want %d, finished", n, last.Outcome, steps+1)
	}
	fmt.Fprintf(out, "--- %d steps, none missing, none twice; %d tokens\n", n, last.Tokens)
	return nil
}
