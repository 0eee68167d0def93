// Command plangate lets nothing happen before a person has agreed to the approach.
//
// The agent tries to write at once and is refused; it reads, proposes a plan, and
// gets it back with a correction; it proposes again, and the process ends while
// the plan waits. A second drive brings the approval: now it writes, and the plan
// is in its prompt from there on.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "plangate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	root, err := os.MkdirTemp("", "plangate-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := os.WriteFile(filepath.Join(root, "notes.txt"), []byte("old notes\n"), 0o644); err != nil {
		return err
	}
	st, err := store.Memory(ctx)
	if err != nil {
		return err
	}
	defer st.Close()

	fmt.Fprintln(out, "--- first drive: the plan is corrected once, and then left undecided")
	h, err := harness.New(config(out, st, &reviewer{}, before()...))
	if err != nil {
		return err
	}
	res, err := h.Run(ctx, task.New("tidy up the notes", root))
	if err != nil {
		return err
	}
	if res.Outcome.Kind != trace.AwaitingPlan {
		return fmt.Errorf("the run should wait for its plan, and %s", res.Outcome)
	}
	if b, err := os.ReadFile(filepath.Join(root, "notes.txt")); err != nil || string(b) != "old notes\n" {
		return fmt.Errorf("something happened before anybody agreed: %q, %w", b, err)
	}
	plan, err := st.Plan(ctx, res.Outcome.PlanID)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "--- second drive: plan %d is approved\n", plan.ID)
	if h, err = harness.New(config(out, st, approve.HoldPlans, after()...)); err != nil {
		return err
	}
	if res, err = h.Resume(ctx, res.RunID, harness.Verdict(plan.ID, approve.Accept())); err != nil {
		return err
	}
	fmt.Fprintln(out, res.Reply)
	b, err := os.ReadFile(filepath.Join(root, "archive.txt"))
	if err != nil || string(b) != "old notes\n" {
		return errors.Join(fmt.Errorf("the archive holds %q", b), err)
	}
	return nil
}

func config(out io.Writer, st *store.Store, gate approve.PlanGate, turns ...scripted.Turn) harness.Config {
	return harness.Config{
		Provider: scripted.New(turns...), Store: st, PlanGate: gate, Observer: trace.Printer(out),
		Policy: policy.Default().Layer("app").AllowWrite("*.txt"),
	}
}

// reviewer sends the first plan back and leaves the second one to somebody else.
type reviewer struct{ seen int }

// Review is the gate.
func (r *reviewer) Review(_ context.Context, p approve.Plan) (approve.PlanVerdict, error) {
	r.seen++
	if r.seen == 1 {
		return approve.Revise("keep a copy before you delete anything"), nil
	}
	return approve.PlanVerdict{}, nil
}

func propose(intents ...string) scripted.Turn {
	steps := make([]approve.PlanStep, len(intents))
	for i, in := range intents {
		steps[i].Intent = in
	}
	return scripted.Call("propose_plan", approve.Plan{Steps: steps})
}

// before is the model up to the plan that waits.
func before() []scripted.Turn {
	return []scripted.Turn{
		scripted.Call("write_file", map[string]string{"path": "notes.txt", "content": "new notes\n"}),
		scripted.Call("read_file", map[string]string{"path": "notes.txt"}),
		propose("empty notes.txt"),
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			if told, _ := scripted.LastResult(req, "propose_plan"); !strings.Contains(told, "keep a copy") {
				return nil, fmt.Errorf("the correction did not come back: %q", told)
			}
			return propose("copy notes.txt to archive.txt", "empty notes.txt")(ctx, req)
		},
	}
}

// after is the model from the approval on.
func after() []scripted.Turn {
	return []scripted.Turn{
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			if !strings.Contains(req.User, "copy notes.txt to archive.txt") {
				return nil, errors.New("the agreed plan is not in the prompt")
			}
			return scripted.Call("write_file", map[string]string{"path": "archive.txt", "content": "old notes\n"})(ctx, req)
		},
		scripted.Say("The notes are archived."),
	}
}
