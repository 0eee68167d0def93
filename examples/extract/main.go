// Command extract gets data out of a repository, as a Go value and not as prose.
//
// The shape of the answer is a Go type. The model answers in the wrong shape
// first: it is told where and why, and asked again. What the program gets in the
// end has passed the check and is decoded strictly.
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
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// Report is what is wanted of the model. The tags narrow it.
type Report struct {
	Incidents []Incident `json:"incidents" schema:"maxItems=100"`
}

// Incident is one failure that the log tells of.
type Incident struct {
	Service  string  `json:"service"`
	Severity string  `json:"severity" schema:"enum=low|high"`
	Minutes  int     `json:"minutes" schema:"minimum=0"`
	Cause    *string `json:"cause"` // null when the log does not say
}

const log = `09:12 billing down, 14 minutes, certificate expired
11:40 search slow, 3 minutes
`

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "extract:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	root, err := os.MkdirTemp("", "extract-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := os.WriteFile(filepath.Join(root, "incidents.log"), []byte(log), 0o644); err != nil {
		return err
	}
	st, err := store.Memory(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	h, err := harness.New(harness.Config{
		Provider: model(), Store: st, Policy: policy.Default(), Observer: trace.Printer(out),
	})
	if err != nil {
		return err
	}

	c := task.New("report every incident in incidents.log", root)
	if c.Output, err = verify.SchemaOf[Report](); err != nil {
		return err
	}
	res, err := h.Run(ctx, c)
	if err != nil {
		return err
	}
	report, err := verify.Decode[Report](res.Output)
	if err != nil {
		return fmt.Errorf("%s: %w", res.Outcome, err)
	}
	for _, in := range report.Incidents {
		cause := "no cause on record"
		if in.Cause != nil {
			cause = *in.Cause
		}
		fmt.Fprintf(out, "%-8s %-5s %3d min  %s\n", in.Service, in.Severity, in.Minutes, cause)
	}
	return nil
}

// model is a model that reads the log and cannot remember at once which words
// the severity is stated in.
func model() *scripted.Model {
	return scripted.New(
		scripted.Call("read_file", map[string]string{"path": "incidents.log"}),
		scripted.Say(`Here you are: {"incidents": [{"service": "billing", "severity": "grave", "minutes": 14, "cause": null}]}`),
		func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
			if !strings.Contains(req.User, "/incidents/0/severity") {
				return nil, errors.New("the failure did not come back with its place")
			}
			return scripted.Say(`{"incidents": [
				{"service": "billing", "severity": "high", "minutes": 14, "cause": "certificate expired"},
				{"service": "search", "severity": "low", "minutes": 3, "cause": null}]}`)(ctx, req)
		},
	)
}
