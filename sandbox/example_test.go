//go:build unix

package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/initorigin/io-harness-go/sandbox"
)

func ExampleRun() {
	workspace, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(workspace)
	p := sandbox.Profile{
		Workspace: workspace,
		Limits:    sandbox.Limits{Wall: time.Minute},
	}
	r, err := sandbox.Run(context.Background(), sandbox.Cmd{Argv: []string{"sh", "-c", "echo hello; exit 3"}}, p)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Stdout)
	fmt.Println(r.Exit, r.Success(), r.Applied.Mode)

	_, err = sandbox.Run(context.Background(), sandbox.Cmd{Argv: []string{"no-such-program"}}, p)
	fmt.Println(errors.Is(err, sandbox.ErrMissing))
	// Output:
	// hello
	// 3 false workspace-write
	// true
}
