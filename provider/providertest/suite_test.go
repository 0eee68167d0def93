package providertest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/providertest"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

const badVariable = "PROVIDERTEST_BAD"

// bad are providers that each break one promise, and the test that must notice.
var bad = map[string]struct {
	make  func() provider.Provider
	fails string
}{
	"streams something else": {func() provider.Provider {
		return tampering{scripted.Func(scripted.Say("words here")), func(_ *provider.Request, r *provider.Response, _ error) (*provider.Response, error) {
			r.Text += "!"
			return r, nil
		}}
	}, "the_text_streams_as_it_settles"},
	"changes the request": {func() provider.Provider {
		return tampering{scripted.Func(scripted.Say("x")), func(q *provider.Request, r *provider.Response, _ error) (*provider.Response, error) {
			q.Messages[0].Text = "changed"
			return r, nil
		}}
	}, "the_request_is_only_read"},
	"hides a cancellation": {func() provider.Provider {
		return tampering{scripted.Func(scripted.Say("x")), func(_ *provider.Request, r *provider.Response, err error) (*provider.Response, error) {
			if err != nil {
				return nil, &provider.Error{Kind: provider.Transport, Provider: "bad", Err: err}
			}
			return r, nil
		}}
	}, "an_ended_context_is_its_own_error"},
	"shows its key": {func() provider.Provider { return showing{scripted.Func(scripted.Say("x")), "the-planted-key"} }, "no_credential_shows"},
	"has calls with one id": {func() provider.Provider {
		return tampering{scripted.Func(scripted.Calls(scripted.Tool("a", nil), scripted.Tool("b", nil)).Saying("x")), func(_ *provider.Request, r *provider.Response, err error) (*provider.Response, error) {
			if r != nil && len(r.Calls) > 1 {
				r.Calls[1].ID = r.Calls[0].ID
			}
			return r, err
		}}
	}, "calls_are_whole_and_paired"},
	"fails otherwise than it says": {func() provider.Provider {
		return scripted.Func(scripted.FailKind(provider.Server, "x"))
	}, "failure_of_kind_Auth"},
}

type tampering struct {
	*scripted.Model
	tamper func(*provider.Request, *provider.Response, error) (*provider.Response, error)
}

func (p tampering) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	resp, err := p.Model.Complete(ctx, req, on)
	return p.tamper(req, resp, err)
}

type showing struct {
	*scripted.Model
	key string
}

// TestBadProvider is run by the test below in a process of its own.
func TestBadProvider(t *testing.T) {
	b, ok := bad[os.Getenv(badVariable)]
	if !ok {
		t.Skip("it is run by TestTheSuiteNoticesBadProviders, which names the provider")
	}
	build := func(*testing.T) provider.Provider { return b.make() }
	providertest.Run(t, providertest.Suite{
		Key: "the-planted-key", Text: build, Calls: build,
		Fails: map[provider.Kind]func(*testing.T) provider.Provider{provider.Auth: build},
	})
}

func TestTheSuiteNoticesBadProviders(t *testing.T) {
	for name, b := range bad {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestBadProvider$")
			cmd.Env = append(os.Environ(), badVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatal("the suite passed")
			}
			if want := fmt.Sprintf("--- FAIL: TestBadProvider/%s", b.fails); !strings.Contains(string(out), want) {
				t.Errorf("the output lacks %q:\n%s", want, out)
			}
		})
	}
}
