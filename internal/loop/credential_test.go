//go:build unix

package loop

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/anthropic"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/openai"
	"github.com/initorigin/io-harness-go/provider/openrouter"
	"github.com/initorigin/io-harness-go/provider/record"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// keyed is a provider with a credential.
type keyed struct {
	provider.Provider
	key, name string
}

func (k keyed) Credentials() provider.Credentials {
	return provider.Credentials{Values: []provider.Secret{provider.NewSecret(k.key)}, Names: []string{k.name}}
}

func TestNoCommandSeesACredentialUnderAnotherName(t *testing.T) {
	f := newFixture(t)
	git := filepath.Join(scratch(t), "git")
	if err := os.WriteFile(git, []byte("#!/bin/sh\nenv >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(git)+":"+os.Getenv("PATH"))
	secrets := map[string]string{
		"OTHER_OF_PRIMARY": "primary-key-0123", "OTHER_OF_FALLBACK": "fallback-key-0123",
		"OTHER_OF_REVIEWER": "reviewer-key-0123", "OTHER_OF_APPROVER": "approver-key-0123",
	}
	for name, value := range secrets {
		t.Setenv(name, "scheme "+value)
	}
	t.Setenv("NAMED_BY_PRIMARY", "short")
	t.Setenv("SEEN_BY_ALL", "seen-by-all")
	t.Setenv("OTHER_KEPT", "primary-key-0123")

	f.host.Policy = policy.Permissive()
	f.host.Approver = approve.Model(keyed{scripted.New(), secrets["OTHER_OF_APPROVER"], ""}, "judge")
	m := scripted.New(command("env"), shellCall("env"), startCall("env > handle.txt; printf x > over"), until("over"),
		scripted.Call("check", nil), scripted.Call("git_status", nil), command("cat", "handle.txt", "check.txt", "gate.txt"), scripted.Say("done"))
	chain, err := fallback.New(keyed{m, secrets["OTHER_OF_PRIMARY"], "NAMED_BY_PRIMARY"}, keyed{scripted.New(), secrets["OTHER_OF_FALLBACK"], ""})
	if err != nil {
		t.Fatal(err)
	}
	f.host.Provider = chain
	f.write("Makefile", "all:\n")
	review := verify.Review("fine", verify.Model(keyed{scripted.New(), secrets["OTHER_OF_REVIEWER"], ""}, "reviewer"))
	f.must(trace.VerificationFailed, withSteps(8), func(c *task.Contract) {
		c.Sandbox.Env.Keep = []string{"OTHER_KEPT"}
		c.Toolchain = toolchain.Overrides{"make": {Check: []string{"sh", "-c", "env > check.txt"}}}
		c.Verify = verify.All(verify.Command("sh", "-c", "env > gate.txt; exit 1"), review)
	})
	var all strings.Builder
	for _, req := range m.Requests() {
		for _, msg := range req.Messages {
			for _, r := range msg.Results {
				all.WriteString(r.Content)
			}
		}
	}
	for _, from := range []string{"handle.txt", "check.txt", "gate.txt"} {
		text := f.read(from)
		if !strings.Contains(text, "SEEN_BY_ALL=seen-by-all") {
			t.Errorf("%s does not hold the environment: %q", from, text)
		}
		all.WriteString(text)
	}
	if n := strings.Count(all.String(), "SEEN_BY_ALL=seen-by-all"); n < 6 {
		t.Errorf("%d commands showed their environment, want those of exec, shell, handle, check, gate and git", n)
	}
	for name := range secrets {
		if strings.Contains(all.String(), name+"=") {
			t.Errorf("a command sees %s", name)
		}
	}
	if strings.Contains(all.String(), "NAMED_BY_PRIMARY=") {
		t.Error("a command sees the variable that the provider names")
	}
	if !strings.Contains(all.String(), "OTHER_KEPT=") {
		t.Error("a variable that the contract keeps is gone")
	}
}

func TestEveryClientNamesItsKey(t *testing.T) {
	const key = "the-key-0123456789"
	secret := provider.NewSecret(key)
	a, err1 := anthropic.New(anthropic.Config{Key: secret})
	o, err2 := openai.New(openai.Config{Key: secret})
	r, err3 := openrouter.New(openrouter.Config{Key: secret})
	c, err4 := compatible.New(compatible.Config{BaseURL: "http://127.0.0.1:1/v1", Key: secret, Model: "m"})
	p, err5 := openai.NewResponses(openai.Config{Key: secret})
	for _, err := range []error{err1, err2, err3, err4, err5} {
		if err != nil {
			t.Fatal(err)
		}
	}
	chain, err := fallback.New(scripted.New(), a)
	if err != nil {
		t.Fatal(err)
	}
	for _, holder := range []any{a, o, r, c, p, chain, record.New(o), approve.Model(r, "m"), verify.Review("r", verify.Model(c, "m"))} {
		if got := provider.CredentialsOf(holder).Values; !slices.ContainsFunc(got, func(s provider.Secret) bool { return s.Reveal() == key }) {
			t.Errorf("%T does not name its key", holder)
		}
	}
	if got := provider.CredentialsOf(nil, scripted.New(), approve.None); len(got.Values)+len(got.Names) != 0 {
		t.Errorf("who has none names %d", len(got.Values))
	}
}

func TestTheTraceNamesWhatCommandsDoNotSee(t *testing.T) {
	for mode, want := range map[sandbox.Mode]int{"": 1, sandbox.ReadOnly: 1, sandbox.FullAccess: 0} {
		f := newFixture(t, scripted.Say("done"))
		t.Setenv("SOME_API_KEY", "value-that-is-secret")
		t.Setenv("KEPT_TOKEN", "value-that-is-kept")
		res := f.must(trace.Finished, func(c *task.Contract) {
			c.Sandbox.Mode, c.Sandbox.Env.Keep = mode, []string{"KEPT_TOKEN"}
		})
		var rows []string
		for e, err := range f.store.SandboxEvents(t.Context(), res.RunID) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == "env_scrub" {
				rows = append(rows, e.Detail)
			}
		}
		if len(rows) != want {
			t.Fatalf("%s: rows %q, want %d", mode, rows, want)
		}
		if want == 0 {
			continue
		}
		removed, kept, _ := strings.Cut(rows[0], "; kept: ")
		if !strings.Contains(removed, "SOME_API_KEY") || kept != "KEPT_TOKEN" || strings.Contains(rows[0], "value-that") {
			t.Errorf("%s: row %q", mode, rows[0])
		}
	}
}

// A placeholder key that stands in the name of a directory takes PATH from nobody.
func TestAKeyInTheNameOfADirectoryLeavesThePath(t *testing.T) {
	dir := filepath.Join(scratch(t), "lm-studio")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+dir)
	f := newFixture(t)
	f.host.Provider = keyed{scripted.New(scripted.Say("done")), "lm-studio", ""}
	d, err := newDrive(context.Background(), f.host.withDefaults(), f.contract())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if env, _ := sandbox.Environ(d.profile); !slices.Contains(env, "PATH="+os.Getenv("PATH")) {
		t.Error("commands have no PATH")
	}
}
