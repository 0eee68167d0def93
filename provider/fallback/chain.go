package fallback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
)

var (
	_ provider.Provider          = (*Chain)(nil)
	_ provider.ModelHinter       = (*Chain)(nil)
	_ provider.CredentialHolder  = (*Chain)(nil)
	_ provider.ModelNamer        = (*Chain)(nil)
	_ provider.FamilyHinter      = (*Chain)(nil)
	_ provider.ImageAccepter     = (*Chain)(nil)
	_ provider.Cataloguer        = (*Chain)(nil)
	_ provider.ReachableReporter = (*Chain)(nil)
)

// A Chain asks its providers in order until one answers. It is safe for
// concurrent use.
//
// It goes on to the next on a retryable *provider.Error only: never for a
// refused key, an unacceptable or too long request, a configuration error, or
// the end of the caller's context. One completion asks each provider at most
// once; a caller that retries begins at the first again. When all fail, the
// error is the last one's, with what the failed calls are known to have used. An
// answer that came in spite of failures names them in its Failed.
//
// Deltas that a provider streamed before it failed have been shown and are not
// withdrawn; Sink.FellBack tells where those of the next begin. Calls that it
// reported early are for the caller to drop: they will not agree with the settled
// response.
type Chain struct {
	links []Link
	log   *slog.Logger
}

// A Link is one provider of a chain.
type Link struct {
	Provider provider.Provider

	// Models maps a model that a request asks for to this provider's name for
	// it. A request's model belongs to the first provider; a later one without
	// an entry for it is asked for its own model instead, unless it has the
	// first one's name.
	Models map[string]string
}

// New makes a chain of two or more providers. Fewer, or nil ones, are a
// *provider.ConfigError.
func New(providers ...provider.Provider) (*Chain, error) {
	links := make([]Link, len(providers))
	for i, p := range providers {
		links[i].Provider = p
	}
	return Of(links...)
}

// Of makes a chain of links.
func Of(links ...Link) (*Chain, error) {
	if len(links) < 2 {
		return nil, &provider.ConfigError{Message: "a chain needs two providers or more: use the one alone instead"}
	}
	c := &Chain{log: slog.New(slog.DiscardHandler)}
	for _, l := range links {
		if l.Provider == nil {
			return nil, &provider.ConfigError{Message: "a provider of the chain is nil"}
		}
		c.links = append(c.links, Link{l.Provider, maps.Clone(l.Models)})
	}
	return c, nil
}

// WithLogger returns a copy that warns the logger each time it goes on to the
// next provider. Nil logs nothing.
func (c *Chain) WithLogger(log *slog.Logger) *Chain {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Chain{links: c.links, log: log}
}

// Name is the names of all, such as "a -> b".
func (c *Chain) Name() string {
	names := make([]string, len(c.links))
	for i, l := range c.links {
		names[i] = l.Provider.Name()
	}
	return strings.Join(names, " -> ")
}

// Endpoints are those of all providers, because any of them may be asked.
func (c *Chain) Endpoints() []string {
	var all []string
	for _, l := range c.links {
		all = append(all, l.Provider.Endpoints()...)
	}
	return all
}

// Format writes name and model, whatever the verb.
func (c *Chain) Format(f fmt.State, _ rune) { httpx.Label(f, c.Name(), c.ModelHint()) }

// ModelHint is the first provider's.
func (c *Chain) ModelHint() string { return provider.ModelHint(c.links[0].Provider) }

// ModelNames are those of all providers, each as it would be asked.
func (c *Chain) ModelNames(asked string) []string {
	var names []string
	for i, l := range c.links {
		names = append(names, provider.ModelNames(l.Provider, c.modelFor(i, asked))...)
	}
	return names
}

// PromptFamily is the first provider's.
func (c *Chain) PromptFamily() provider.Family { return provider.PromptFamily(c.links[0].Provider) }

// Credentials are those of all providers.
func (c *Chain) Credentials() (all provider.Credentials) {
	for _, l := range c.links {
		own := provider.CredentialsOf(l.Provider)
		all.Values, all.Names = append(all.Values, own.Values...), append(all.Names, own.Names...)
	}
	return all
}

// AcceptsImages reports whether all do: a request with images may end at any.
func (c *Chain) AcceptsImages() bool {
	for _, l := range c.links {
		if !provider.AcceptsImages(l.Provider) {
			return false
		}
	}
	return true
}

// Models are the first provider's: a request's model belongs to it.
func (c *Chain) Models(ctx context.Context) ([]provider.ModelInfo, error) {
	return provider.Models(ctx, c.links[0].Provider)
}

// Reachable asks the first provider only: the question is whether the run would
// begin where it was meant to.
func (c *Chain) Reachable(ctx context.Context) (bool, error) {
	return provider.Reachable(ctx, c.links[0].Provider)
}

// Complete asks the providers in order. ServedBy of the response names the one
// that answered if it was not the first.
func (c *Chain) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if len(req.Media) > 0 && !c.AcceptsImages() {
		return nil, &provider.ConfigError{Provider: c.Name(), Message: "not every provider of the chain takes images: send none, or leave the one that does not out"}
	}
	var used *provider.Usage
	var failed []provider.FailedCall
	for i, l := range c.links {
		began := time.Now()
		resp, err := l.Provider.Complete(ctx, c.requestFor(i, req), on)
		if err == nil && resp == nil {
			err = provider.NoAnswer(l.Provider)
		}
		if err == nil {
			if i > 0 {
				resp = c.served(resp, l.Provider, failed)
			}
			return resp, nil
		}
		used = sum(used, provider.UsageOf(err))
		if ctx.Err() != nil { // the failure came of it, or no longer matters
			return nil, &provider.Interrupted{Provider: c.Name(), Usage: used, Err: httpx.Ended(ctx)}
		}
		e, ok := provider.AsError(err)
		if !ok {
			return nil, provider.WithUsage(err, used)
		}
		failed = append(failed, provider.FailedCall{Provider: l.Provider.Name(), Failure: e.Text(), Usage: provider.UsageOf(err), Took: time.Since(began)})
		if i == len(c.links)-1 || !e.Retryable() {
			return nil, withUsage(err, e, used)
		}
		on = c.withoutCalls(on)
		if on.FellBack != nil {
			on.FellBack(leaf(c.links[i+1].Provider))
		}
		c.log.LogAttrs(ctx, slog.LevelWarn, "falling over to another provider",
			slog.String("from", l.Provider.Name()), slog.String("to", c.links[i+1].Provider.Name()), slog.String("kind", string(e.Kind)))
	}
	return nil, errors.New("a chain without providers") // New does not make one
}

// requestFor is the request as link i is asked: a model's name means something
// to the vendor that it was written for.
func (c *Chain) requestFor(i int, req *provider.Request) *provider.Request {
	model := c.modelFor(i, req.Model)
	if model == req.Model {
		return req
	}
	r := *req
	r.Model = model
	return &r
}

// modelFor is the name by which link i is asked for a model, "" for its own.
func (c *Chain) modelFor(i int, asked string) string {
	if asked == "" {
		return ""
	}
	if model, mapped := c.links[i].Models[asked]; mapped {
		return model
	}
	if i == 0 || c.links[i].Provider.Name() == c.links[0].Provider.Name() {
		return asked
	}
	return ""
}

// withoutCalls stops early reports after a fallover. The failed provider may
// have reported the same positions already, and a position is reported once.
func (c *Chain) withoutCalls(on provider.Sink) provider.Sink {
	on.Call = nil
	return on
}

// served names the provider that answered, unless a chain inside has done so, and
// those that failed before it.
func (c *Chain) served(resp *provider.Response, p provider.Provider, failed []provider.FailedCall) *provider.Response {
	r := *resp
	r.Failed = append(failed, r.Failed...)
	if r.ServedBy != "" {
		return &r
	}
	r.ServedBy = leaf(p)
	return &r
}

// leaf is the name of the provider that p begins with.
func leaf(p provider.Provider) string {
	if inner, ok := p.(*Chain); ok {
		p = inner.first()
	}
	return p.Name()
}

// first is the provider that a chain, and the chains inside of it, begin with.
func (c *Chain) first() provider.Provider {
	p := c.links[0].Provider
	if inner, ok := p.(*Chain); ok {
		return inner.first()
	}
	return p
}

func sum(a, b *provider.Usage) *provider.Usage {
	switch {
	case b == nil:
		return a
	case a == nil:
		return b
	}
	u := a.Add(*b)
	return &u
}

// withUsage gives the error what all failed calls used, and loses nothing of one
// that is wrapped in another.
func withUsage(err error, e *provider.Error, used *provider.Usage) error {
	switch {
	case used == provider.UsageOf(err):
		return err
	case err != error(e):
		return provider.WithUsage(err, used)
	}
	n := *e
	n.Usage = used
	return &n
}
