package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/compatible"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// newProvider is the scripted model, or a live one by its preset.
func newProvider(name, model string) (provider.Provider, error) {
	if name == "scripted" {
		return scripted.New(look, pry, test, open, mendIt, test, answer), nil
	}
	return compatible.FromEnv(name, model)
}

// The turns of the scripted model. Each but the first looks at what the tool
// before it really said, and gives up in plain words when that makes no sense.

func look(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return scripted.Call("list_dir", map[string]any{"path": ""}).Saying("Let me look around first.")(ctx, req)
}

// pry reaches for what it should not see, if it is there.
func pry(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	listing, _ := scripted.LastResult(req, "list_dir")
	if !strings.Contains(listing, "src") {
		return giveUp(ctx, req, "there is no src directory in: "+listing)
	}
	return scripted.Call("read_file", map[string]any{"path": "secrets/payment.key"}).
		Saying("Perhaps the key has to do with it.")(ctx, req)
}

func test(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return scripted.Call("exec", map[string]any{"argv": []string{"go", "test", "./..."}})(ctx, req)
}

var failure = regexp.MustCompile(`(\w+)_test\.go:\d+: Total\((\d+), \d+\) = (\d+), want (\d+)`)

// open reads the file that the failing test is about.
func open(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	output, _ := scripted.LastResult(req, "exec")
	found := failure.FindStringSubmatch(output)
	if found == nil {
		return giveUp(ctx, req, "I cannot find a failing test in: "+output)
	}
	said := fmt.Sprintf("Total is wrong for %s pieces: %s in place of %s.", found[2], found[3], found[4])
	return scripted.Call("read_file", map[string]any{"path": "src/" + found[1] + "/" + found[1] + ".go"}).Saying(said)(ctx, req)
}

// mendIt changes the comparison, having seen that it is really there.
func mendIt(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	const wrong, right = "if n > bulk {", "if n >= bulk {"
	source, _ := scripted.LastResult(req, "read_file")
	if !strings.Contains(source, wrong) {
		return giveUp(ctx, req, "the comparison that I suspect is not in: "+source)
	}
	return scripted.Call("edit_file", map[string]any{"path": "src/price/price.go", "search": wrong, "replace": right}).
		Saying("An order of exactly ten must be discounted too.")(ctx, req)
}

func answer(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	output, _ := scripted.LastResult(req, "exec")
	if !strings.Contains(output, "ok") || strings.Contains(output, "FAIL") {
		return giveUp(ctx, req, "the tests still fail: "+output)
	}
	return scripted.Say("The discount began at eleven pieces: the comparison was > where the README says ten or more. I changed it to >= in src/price/price.go, and the tests pass.")(ctx, req)
}

func giveUp(ctx context.Context, req *provider.Request, why string) (*provider.Response, error) {
	return scripted.Say("I could not do it: "+why)(ctx, req)
}
