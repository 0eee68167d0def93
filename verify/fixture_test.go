package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a workspace with a policy and the host's own sandbox, as a run has
// them.
type bench struct {
	t       *testing.T
	root    string
	pol     policy.Policy
	profile sandbox.Profile
	path    string // PATH of the resolution; empty: that of the profile's environment
	spawned [][]string
	asked   []string // what the policy was asked, joined
}

// newBench needs a shell for the scripts that stand for a project's own command.
func newBench(t *testing.T) *bench {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the project commands of these tests are shell scripts")
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	temp, remove, err := sandbox.NewTemp()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := remove(); err != nil {
			t.Error(err)
		}
	})
	return &bench{
		t:       t,
		root:    root,
		pol:     policy.Permissive(),
		profile: sandbox.Profile{Workspace: root, Temp: temp, Limits: sandbox.DefaultLimits()},
	}
}

func (b *bench) env() Env {
	return Env{
		Root: b.root,
		Temp: b.profile.Temp,
		Goal: "make it work",
		Resolve: func(program string) (string, error) {
			env, _ := sandbox.Environ(b.profile)
			if b.path != "" {
				env = append(env, "PATH="+b.path)
			}
			return sandbox.Resolve(program, b.root, env)
		},
		Admit: func(_ context.Context, argv []string, program string) error {
			need := policy.Need{Act: policy.Exec, Argv: argv, Resolved: program}
			b.asked = append(b.asked, strings.Join(argv, " "))
			if v := b.pol.Check(need); v.Effect != policy.Allow {
				return v.Refusal(need)
			}
			return nil
		},
		Run: func(ctx context.Context, cmd sandbox.Cmd) (*sandbox.Result, error) {
			b.spawned = append(b.spawned, cmd.Argv)
			return sandbox.Run(ctx, cmd, b.profile)
		},
	}
}

// write puts a file into the workspace; a script gets its mode from its name.
func (b *bench) write(name, text string) {
	b.t.Helper()
	mode := os.FileMode(0o644)
	if strings.HasSuffix(name, ".sh") || strings.HasPrefix(text, "#!") {
		mode = 0o755
	}
	path := filepath.Join(b.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.t.Fatal(err)
	}
	// Written anew, so that a script that runs is never written into.
	_ = os.Remove(path)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) mode(name string, mode os.FileMode) {
	b.t.Helper()
	if err := os.Chmod(filepath.Join(b.root, filepath.FromSlash(name)), mode); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) remove(name string) {
	b.t.Helper()
	if err := os.Remove(filepath.Join(b.root, filepath.FromSlash(name))); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) link(target, name string) {
	b.t.Helper()
	if err := os.Symlink(target, filepath.Join(b.root, filepath.FromSlash(name))); err != nil {
		b.t.Fatal(err)
	}
}

// prepare is what a run does with its criterion when it begins.
func (b *bench) prepare(c Criterion) Criterion {
	b.t.Helper()
	ready, err := Prepare(context.Background(), c, b.env())
	if err != nil {
		b.t.Fatalf("Prepare: %v", err)
	}
	return ready
}

// judge evaluates and must get a verdict.
func (b *bench) judge(c Criterion) Verdict {
	b.t.Helper()
	v, err := Evaluate(context.Background(), c, b.env())
	if err != nil {
		b.t.Fatalf("Evaluate: %v", err)
	}
	return v
}

// passes and fails are what most tests want to know.
func (b *bench) passes(c Criterion) {
	b.t.Helper()
	if v := b.judge(c); !v.Passed {
		b.t.Errorf("verdict = %+v, want a pass", v)
	}
}

func (b *bench) fails(c Criterion, detail string) Verdict {
	b.t.Helper()
	v := b.judge(c)
	if v.Passed || !strings.Contains(v.Detail, detail) {
		b.t.Errorf("verdict = %+v, want a failure whose detail has %q", v, detail)
	}
	return v
}

// errs evaluates and must get an error, which is returned.
func (b *bench) errs(c Criterion) error {
	b.t.Helper()
	v, err := Evaluate(context.Background(), c, b.env())
	if err == nil {
		b.t.Fatalf("verdict = %+v, want an error", v)
	}
	if v.Passed {
		b.t.Errorf("an evaluation that errored says that it passed")
	}
	var g *GateError
	if !errors.As(err, &g) {
		b.t.Errorf("error = %v (%T), want a *GateError", err, err)
	}
	return err
}
