// Command review lets a second model decide when the work of the first is done.
//
// The author writes a change that hides an error. Its gate is a cheap check of
// the file and then a reviewer, who is another model: it sees the goal, the
// rubric and the files before and after, and never the author's words. It says
// no, the author is told why, mends the change, and passes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	harness "github.com/initorigin/io-harness-go"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

const (
	hiding    = "package conf\n\nimport \"os\"\n\nfunc Load(path string) []byte {\n\tb, _ := os.ReadFile(path)\n\treturn b\n}\n"
	returning = "package conf\n\nimport \"os\"\n\nfunc Load(path string) ([]byte, error) {\n\treturn os.ReadFile(path)\n}\n"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "review:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	root, err := os.MkdirTemp("", "review-*")
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
		Provider: author(), Store: st, Observer: trace.Printer(out),
		Policy: policy.Default().Layer("app").AllowWrite("*.go"),
	})
	if err != nil {
		return err
	}

	c := task.New("write conf.go with a function Load that reads a file", root)
	c.Verify = verify.All(
		verify.Contains("conf.go", "func Load("),
		verify.Review("Every error is handled or returned.", verify.Model(reviewer(), "reviewer")).TellModel(),
	)
	res, err := h.Run(ctx, c)
	if err != nil {
		return err
	}
	if res.Outcome.Kind != trace.Success {
		return fmt.Errorf("the reviewer should have agreed in the end, and the run %s", res.Outcome)
	}
	fmt.Fprintln(out, "the reviewer agreed to:")
	b, err := os.ReadFile(root + "/conf.go")
	fmt.Fprintf(out, "%s", b)
	return err
}

// author hides the error first, and mends that only when it is told of it.
func author() *scripted.Model {
	write := func(content string) scripted.Turn {
		return scripted.Call("write_file", map[string]string{"path": "conf.go", "content": content})
	}
	return scripted.New(
		write(hiding),
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			if !strings.Contains(req.User, "os.ReadFile's error is dropped") {
				return nil, errors.New("the reviewer's reasons did not come back")
			}
			return write(returning)(ctx, req)
		},
	)
}

// reviewer stands for a model of another make. It judges what it is shown.
func reviewer() *scripted.Model {
	return scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		if strings.Contains(req.User, "b, _ :=") {
			return scripted.Say(`{"passed": false, "reasons": ["os.ReadFile's error is dropped"]}`)(ctx, req)
		}
		return scripted.Say(`{"passed": true, "reasons": []}`)(ctx, req)
	})
}
