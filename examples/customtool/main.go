// Command customtool gives an agent a tool of the program's own: a Go function
// whose arguments are a struct. The schema that the model sees is made from the
// struct, and the call passes the same policy, trace and bounds as every other.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// orders stands for whatever the program knows and a model does not.
var orders = map[int]string{7: "shipped", 8: "waiting for payment"}

// LookupArgs is what the model must say. The tags become the schema.
type LookupArgs struct {
	ID int `json:"id" jsonschema:"the number of the order"`
}

func lookup(_ context.Context, in LookupArgs) (string, error) {
	state, ok := orders[in.ID]
	if !ok {
		return "", fmt.Errorf("there is no order %d", in.ID)
	}
	return fmt.Sprintf("order %d: %s", in.ID, state), nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "customtool:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	root, err := os.MkdirTemp("", "customtool-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	st, err := store.Memory(ctx)
	if err != nil {
		return err
	}
	defer st.Close()

	h, err := harness.New(harness.Config{
		Provider: scripted.New(scripted.Call("lookup_order", LookupArgs{ID: 7}), scripted.Turn(answer)),
		Store:    st,
		Policy:   policy.Default().Layer("app").AllowExec("lookup_order"),
		Observer: trace.Printer(out),
		Defaults: task.Contract{Tools: tool.Toolbox{
			tool.New("lookup_order", "Looks up the state of an order by its number.", lookup, tool.ReadOnly),
		}},
	})
	if err != nil {
		return err
	}
	s, err := h.Open(ctx, root)
	if err != nil {
		return err
	}
	turn, err := s.Turn(ctx, "Where is my order number 7?")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, turn.Reply)
	return nil
}

// answer says what the tool really said.
func answer(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	result, ok := scripted.LastResult(req, "lookup_order")
	if !ok {
		return nil, fmt.Errorf("the result of the call did not come back")
	}
	return scripted.Say("Your order: "+result)(ctx, req)
}
