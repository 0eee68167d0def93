package harness_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// The first program, as it is in the README. It asks a live model, so that it is
// compiled here and not run; readme_test.go holds the two together.
func Example() {
	ctx := context.Background()
	prov, err := compatible.FromEnv("ollama", "qwen3-coder")
	check(err)
	st, err := store.Open(ctx, "runs.db")
	check(err)
	defer st.Close()
	pol := policy.Default().Layer("app").
		AllowRead("*").AllowWrite("src/*").DenyRead("secrets/*").
		AllowExec("go test*").DenyExec("git push*")
	h, err := harness.New(harness.Config{Provider: prov, Store: st, Policy: pol, Approver: approve.Stdin(os.Stdin, os.Stdout)})
	check(err)
	s, err := h.Open(ctx, "/path/to/repo")
	check(err)
	turn, err := s.Turn(ctx, "the test suite is failing; why?")
	check(err)
	fmt.Println(turn.Reply)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// shop is what the tool of the README looks orders up in.
type shop map[int]string

func (s shop) Find(_ context.Context, id int) (string, error) {
	if state, ok := s[id]; ok {
		return state, nil
	}
	return "", fmt.Errorf("there is no order %d", id)
}

// A tool of the program's own: its function runs in this process, and the policy
// must allow its name.
func ExampleConfig_tools() {
	orders := shop{7: "order 7 has shipped"}
	lookup := tool.New("lookup_order", "Looks an order up by its number.",
		func(ctx context.Context, in struct{ ID int }) (string, error) {
			return orders.Find(ctx, in.ID)
		}, tool.ReadOnly)

	ctx, dir := context.Background(), tempDir()
	defer os.RemoveAll(dir)
	st, err := store.Memory(ctx)
	check(err)
	defer st.Close()
	h, err := harness.New(harness.Config{
		Provider: scripted.New(scripted.Call("lookup_order", map[string]any{"ID": 7}), scripted.Say("It is on its way.")),
		Store:    st,
		Policy:   policy.Default().Layer("shop").AllowExec("lookup_order"),
		Defaults: task.Contract{Tools: tool.Toolbox{lookup}},
	})
	check(err)
	s, err := h.Open(ctx, dir)
	check(err)
	turn, err := s.Turn(ctx, "where is order 7?")
	check(err)
	fmt.Println(turn.Reply)
	// Output: It is on its way.
}

// Work that is done when a check says so, and not when the model does.
func ExampleHarness_Run() {
	ctx, dir := context.Background(), tempDir()
	defer os.RemoveAll(dir)
	st, err := store.Memory(ctx)
	check(err)
	defer st.Close()
	h, err := harness.New(harness.Config{
		Provider: scripted.New(
			scripted.Say("It is done."), // it is not, and the gate says so
			scripted.Call("write_file", map[string]any{"path": "VERSION", "content": "1.0.0\n"}),
		),
		Store:  st,
		Policy: policy.Default().Layer("app").AllowWrite("VERSION"),
	})
	check(err)
	c := task.New("state the version", dir)
	c.Verify = verify.Contains("VERSION", "1.0")
	res, err := h.Run(ctx, c)
	check(err)
	fmt.Println(res.Outcome)
	// Output: success after 2 steps
}

// A run pauses where nobody can answer, and the answer comes later: here from
// the same program, as well from another one.
func ExampleHarness_Resume() {
	ctx, dir := context.Background(), tempDir()
	defer os.RemoveAll(dir)
	st, err := store.Open(ctx, filepath.Join(dir, "runs.db"))
	check(err)
	defer st.Close()
	h, err := harness.New(harness.Config{
		Provider: scripted.New(
			scripted.Call("write_file", map[string]any{"path": "notes.txt", "content": "remember the milk\n"}),
			scripted.Say("It is noted."),
		),
		Store: st,
		Approver: approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
			return approve.Defer(), nil
		}),
	})
	check(err)
	res, err := h.Run(ctx, task.New("note that milk is needed", dir))
	check(err)
	fmt.Println(res.Outcome.Kind)
	res, err = h.Resume(ctx, res.RunID, harness.Decide(res.Outcome.RequestID, approve.Approve()))
	check(err)
	fmt.Println(res.Outcome.Kind, res.Reply)
	// Output:
	// awaiting_approval
	// finished It is noted.
}

// Taking back what a run wrote.
func ExampleHarness_Rewind() {
	ctx, dir := context.Background(), tempDir()
	defer os.RemoveAll(dir)
	st, err := store.Memory(ctx)
	check(err)
	defer st.Close()
	file := filepath.Join(dir, "a.txt")
	check(os.WriteFile(file, []byte("mine\n"), 0o644))
	h, err := harness.New(harness.Config{
		Provider: scripted.New(scripted.Call("write_file", map[string]any{"path": "a.txt", "content": "changed\n"}), scripted.Say("done")),
		Store:    st,
		Policy:   policy.Default().Layer("app").AllowWrite("*"),
	})
	check(err)
	res, err := h.Run(ctx, task.New("change the file", dir))
	check(err)
	if res.Outcome.Kind != trace.Finished {
		log.Fatal(res.Outcome)
	}
	_, err = h.Rewind(ctx, res.RunID, harness.UndoRun())
	check(err)
	text, err := os.ReadFile(file)
	check(err)
	fmt.Printf("%s", text)
	// Output: mine
}

func tempDir() string {
	dir, err := os.MkdirTemp("", "harness-example-*")
	check(err)
	return dir
}
