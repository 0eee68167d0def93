package provider

import "context"

// A Provider asks one model, or a chain of them.
//
// Complete is called from several goroutines at once: one provider serves a
// whole tree of agents. It must return soon after ctx ends, with an error for
// which errors.Is reports the context's error. Every other failure that asking
// again might heal, or that a caller should tell apart, is an *Error; a request
// that this provider can never carry is a *ConfigError and nothing was sent.
// Retrying is the caller's job.
//
// Name labels the provider in the trace. Endpoints lists every URL that
// Complete, Models or Reachable may dial; nil means that the provider opens no
// connection at all. Both are cheap and never change over the life of a value.
//
// They belong to the required set because a wrapper that embeds a Provider
// hides its optional interfaces, and a hidden endpoint would be a host that no
// egress rule has seen. All other capabilities have safe defaults and are
// reached through the functions of this package, never by a type assertion at
// the caller.
type Provider interface {
	Name() string
	Endpoints() []string
	Complete(ctx context.Context, req *Request, on Sink) (*Response, error)
}

// A Sink receives what a completion produces while it is being produced. Its
// functions may be nil. They are called one at a time, from the goroutine that
// runs Complete or from one that it waits for, and never after Complete has
// returned. A provider holds no lock while it calls them.
type Sink struct {
	// Token gets the deltas of the assistant's text, uncut and untrimmed: what
	// a successful call streamed, concatenated, is exactly Response.Text. Tool
	// arguments and thinking never appear here. The deltas of a call that fails
	// are not withdrawn. A provider that does not stream may leave it alone: who
	// watches is then shown the whole text behind the call.
	Token func(text string)

	// Call gets each tool call as soon as it is complete. index is the position
	// that the call will have in Response.Calls. Calls are reported in order,
	// without gaps from 0, at most once each; a provider may report fewer than
	// it returns, or none. A reported call binds nobody until the response has
	// settled with an equal call at that position.
	Call func(index int, call ToolCall)

	// FellBack gets the name of the provider that a chain asks next, because the one
	// before it has failed. What Token was told until then is of no answer: what a
	// successful call streamed is what came behind the last FellBack.
	FellBack func(provider string)
}

// ModelHinter is implemented by a provider that knows which model it asks when
// a request names none.
type ModelHinter interface{ ModelHint() string }

// FamilyHinter is implemented by a provider that knows how its models like
// their prompt delimited.
type FamilyHinter interface{ PromptFamily() Family }

// ImageAccepter is implemented by a provider that can say whether images may
// ride its requests.
type ImageAccepter interface{ AcceptsImages() bool }

// Cataloguer is implemented by a provider that can list its models. An error
// means that there is no catalogue to be had, which is not an empty catalogue.
type Cataloguer interface {
	Models(ctx context.Context) ([]ModelInfo, error)
}

// ReachableReporter is implemented by a provider that can find out whether it
// would answer, without a completion. The error explains a false; it is nil
// when the probe itself gave the answer.
type ReachableReporter interface {
	Reachable(ctx context.Context) (bool, error)
}

// ModelHint returns the model that p asks when a request names none, or "".
func ModelHint(p Provider) string {
	if h, ok := p.(ModelHinter); ok {
		return h.ModelHint()
	}
	return ""
}

// ModelNamer is implemented by a provider that may ask more than one model, such
// as a chain.
type ModelNamer interface {
	// ModelNames are the models that a request for asked, "" for the provider's
	// own, may end at, as far as they can be named.
	ModelNames(asked string) []string
}

// ModelNames returns the models that a request of p for asked may end at: its own
// word, else asked, else its hint. It is empty when none can be named.
func ModelNames(p Provider, asked string) []string {
	if n, ok := p.(ModelNamer); ok {
		return n.ModelNames(asked)
	}
	if asked == "" {
		asked = ModelHint(p)
	}
	if asked == "" {
		return nil
	}
	return []string{asked}
}

// PromptFamily returns the delimiter family of p: its own word, else what its
// model hint suggests, else FamilyGeneric.
func PromptFamily(p Provider) Family {
	if h, ok := p.(FamilyHinter); ok {
		return h.PromptFamily()
	}
	return FamilyOf(ModelHint(p))
}

// AcceptsImages reports whether images may ride a request to p. A provider that
// does not say cannot.
func AcceptsImages(p Provider) bool {
	h, ok := p.(ImageAccepter)
	return ok && h.AcceptsImages()
}

// Models returns the catalogue of p, empty when p has none.
func Models(ctx context.Context, p Provider) ([]ModelInfo, error) {
	if c, ok := p.(Cataloguer); ok {
		return c.Models(ctx)
	}
	return nil, nil
}

// Reachable asks p whether it would answer. A provider that cannot tell counts
// as reachable: the first completion will show.
func Reachable(ctx context.Context, p Provider) (bool, error) {
	if r, ok := p.(ReachableReporter); ok {
		return r.Reachable(ctx)
	}
	return true, nil
}
