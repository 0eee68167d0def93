package loop

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func TestSomebodyWhoIgnoresTheEndOfTheWaitIsLeftBehind(t *testing.T) {
	t.Parallel() // it takes as long as the grace
	f := newFixture(t, ask("which port?"), scripted.Say("done"))
	release, gone := make(chan struct{}), make(chan struct{})
	defer func() { close(release); <-gone }()
	f.host.Responder = approve.ResponderFunc(func(ctx context.Context, _ approve.Question) (approve.Reply, error) {
		defer close(gone)
		if won, err := AnswerFrom(ctx, f.store, 1, Answer{1, []string{"from elsewhere"}}, "attached"); err != nil || !won {
			t.Errorf("attached: %t, %v", won, err)
		}
		<-release
		return approve.Say("too late"), nil
	})
	res := f.must(trace.Finished)
	if row := f.questions(res.RunID)[0]; row.Answer != "from elsewhere" {
		t.Errorf("row: %+v", row)
	}
}

func TestAnApproverThatFailsIsInTheTraceAndApprovesNothing(t *testing.T) {
	for name, a := range map[string]approve.Approver{
		"panics": approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) { panic("boom") }),
		"fails": approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
			return approve.Approve(), errors.New("no line")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, write("a.txt", "x"))
			f.host.Policy, f.host.Approver = asking, a
			res := f.must(trace.AwaitingApproval)
			if f.read("a.txt") != "" {
				t.Error("the act was performed")
			}
			contains(t, "the trace", f.canonical(res.RunID), "approver_failed")
		})
	}
}

// held is a drive in its planning, with a tool of the library that acts on the
// run under the given name.
func held(t *testing.T, name string, calls *int) (*fixture, *drive) {
	t.Helper()
	f := newFixture(t)
	f.host.PlanGate = approve.HoldPlans
	d, err := newDrive(context.Background(), f.host.withDefaults(), f.contract())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.start(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.lease.Release(context.Background()); err != nil {
			t.Error(err)
		}
		d.close()
	})
	d.entryCap = 4000
	d.catalogue = d.catalogue.with(&runTool{
		spec: tool.Spec{Name: name, Schema: noArguments},
		perform: func(_ context.Context, st *step, c *call) error {
			*calls++
			c.end("done", trace.Observation{Step: st.n, Kind: trace.ObsTool, Text: "\n[done]\n"})
			return nil
		},
	})
	return f, d
}

func TestWhatWritesTheLibrarysOwnStoreWaitsForThePlan(t *testing.T) {
	for _, tc := range []struct {
		name  string
		waits bool
	}{{"remember", true}, {"forget", true}, {"spawn_agent", true}, {"todo_write", false}, {"ask_question", false}} {
		t.Run(tc.name, func(t *testing.T) {
			n := 0
			f, d := held(t, tc.name, &n)
			call := func() *call {
				st := &step{n: 1, response: &provider.Response{}, calls: newCalls(1, []provider.ToolCall{{Name: tc.name, Arguments: []byte(`{}`)}})}
				if err := d.act(context.Background(), st); err != nil {
					t.Fatal(err)
				}
				return st.calls[0]
			}
			c := call()
			if (n == 0) != tc.waits {
				t.Errorf("performed %d times", n)
			}
			if err := d.lease.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			refused := f.refusals(d.runID())
			if tc.waits != (len(refused) == 1) || tc.waits && (refused[0].Layer != policy.LayerPlanGate || refused[0].Target != tc.name) {
				t.Errorf("refusals: %+v", refused)
			}
			if tc.waits != strings.Contains(c.observation.Text, "propose_plan") {
				t.Errorf("the model is told %q", c.observation.Text)
			}
			d.endPlanning()
			n = 0
			if call(); n != 1 {
				t.Errorf("after the planning it was performed %d times", n)
			}
		})
	}
}

func TestAChildHoldsNoGate(t *testing.T) {
	n := 0
	f, d := held(t, "remember", &n)
	child, err := f.store.StartChild(context.Background(), d.lease, store.ChildStart{Workspace: f.dir, Spawn: store.Spawn{Step: 1, Goal: "part"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := newDrive(context.Background(), f.host.withDefaults(), f.contract())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	c.hold(child)
	c.beginPlanning(nil, false)
	if c.planning || c.catalogue.byName[proposePlan] != nil {
		t.Error("a child plans")
	}
	if err := child.Release(context.Background()); err != nil {
		t.Fatal(err)
	}
}
