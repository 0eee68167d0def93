package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/workspace"
)

// bench calls tools as the pipeline does: arguments checked, needs judged, then
// the call. What the policy asks about counts as agreed to.
type bench struct {
	t     *testing.T
	ws    *workspace.Workspace
	env   Env
	root  string
	ran   [][]string // argv of every command that was started
	asked []policy.Need

	refused []policy.RefusedError // by the tools themselves
}

func newBench(t *testing.T, p policy.Policy, change ...func(*Env)) *bench {
	t.Helper()
	return benchAt(t, t.TempDir(), p, change...)
}

func benchAt(t *testing.T, root string, p policy.Policy, change ...func(*Env)) *bench {
	t.Helper()
	ws, err := workspace.Open(root, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	b := &bench{t: t, ws: ws.WithJournal(nil), root: ws.Root()}
	profile := sandbox.Profile{Workspace: ws.Root(), Mode: sandbox.WorkspaceWrite}
	b.env = Env{
		Run: func(ctx context.Context, _ tool.Call, cmd sandbox.Cmd) (*sandbox.Result, error) {
			b.ran = append(b.ran, cmd.Argv)
			return sandbox.Run(ctx, cmd, profile)
		},
		RunNarrowed: func(ctx context.Context, _ tool.Call, cmd sandbox.Cmd, narrow func(*sandbox.Profile)) (*sandbox.Result, error) {
			b.ran = append(b.ran, cmd.Argv)
			p := profile
			narrow(&p)
			return sandbox.Run(ctx, cmd, p)
		},
		Resolve: func(program string) (string, error) {
			env, _ := sandbox.Environ(profile)
			return sandbox.Resolve(program, ws.Root(), env)
		},
		ExecTimeout: time.Minute,
	}
	for _, c := range change {
		c(&b.env)
	}
	return b
}

// call returns the text that a model would read, and the whole result.
func (b *bench) call(name, args string) (string, tool.Result) {
	b.t.Helper()
	return b.callCtx(b.t.Context(), name, args)
}

func (b *bench) callCtx(ctx context.Context, name, args string) (string, tool.Result) {
	b.t.Helper()
	for _, t := range Tools(b.env) {
		if t.Spec().Name != name {
			continue
		}
		checked, err := t.Spec().CheckArgs(json.RawMessage(args))
		if err != nil {
			return "arguments: " + err.Error(), tool.Result{Failed: true}
		}
		c := tool.Call{ID: "1", Name: name, Args: checked, Workspace: b.ws.WithTool(name)}
		needs, err := t.(tool.Needer).Needs(c)
		if err != nil {
			return b.told("needs: ", err), tool.Result{Failed: true}
		}
		for _, n := range needs {
			v := b.ws.Policy().Check(n)
			if n.Act == policy.Read || n.Act == policy.Write {
				v = b.ws.CheckPath(n.Act, n.Target)
			}
			switch v.Effect {
			case policy.Deny:
				return "gate: " + string(n.Act) + " " + n.Target + " by " + v.Rule, tool.Result{Failed: true}
			case policy.Ask:
				b.asked = append(b.asked, n)
			}
		}
		r, err := t.Call(ctx, c)
		if err != nil {
			return b.told("error: ", err), tool.Result{Failed: true}
		}
		return r.Text, r
	}
	b.t.Fatalf("there is no tool %q", name)
	return "", tool.Result{}
}

// told is what a model reads of an error: a refusal in the tool's words, if it has
// some.
func (b *bench) told(where string, err error) string {
	if re := (*policy.RefusedError)(nil); errors.As(err, &re) {
		b.refused = append(b.refused, *re)
	}
	if own := (*Refused)(nil); errors.As(err, &own) {
		return own.Text
	}
	return where + err.Error()
}

func (b *bench) write(rel, content string) {
	b.t.Helper()
	p := filepath.Join(b.root, rel)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) read(rel string) string {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.root, rel))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b *bench) exists(rel string) bool {
	_, err := os.Lstat(filepath.Join(b.root, rel))
	return err == nil
}

// args makes the arguments of a call.
func args(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func wantHas(t *testing.T, got string, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(got, w) {
			t.Errorf("answer lacks %q:\n%s", w, got)
		}
	}
}

func wantLacks(t *testing.T, got string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(got, w) {
			t.Errorf("answer holds %q, which it must not:\n%s", w, got)
		}
	}
}

// journal keeps the names of the tools that wrote.
type journal struct {
	points int
	tools  []string
	refuse error
}

func (j *journal) Before(context.Context, workspace.RestorePoint) error {
	j.points++
	return j.refuse
}

func (j *journal) Wrote(_ context.Context, e workspace.Edit) error {
	j.tools = append(j.tools, e.Tool)
	return nil
}
