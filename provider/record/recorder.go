package record

import (
	"context"
	"slices"
	"sync"

	"github.com/initorigin/io-harness-go/provider"
)

var (
	_ provider.Provider          = (*Recorder)(nil)
	_ provider.ModelHinter       = (*Recorder)(nil)
	_ provider.ModelNamer        = (*Recorder)(nil)
	_ provider.CredentialHolder  = (*Recorder)(nil)
	_ provider.FamilyHinter      = (*Recorder)(nil)
	_ provider.ImageAccepter     = (*Recorder)(nil)
	_ provider.Cataloguer        = (*Recorder)(nil)
	_ provider.ReachableReporter = (*Recorder)(nil)
)

// A Recorder asks another provider and keeps what succeeded. It changes nothing
// that a run can see, but for one thing: it reports no tool call early, because
// a replay cannot either. It is safe for concurrent use.
type Recorder struct {
	inner provider.Provider

	mu        sync.Mutex
	exchanges []exchange
}

// New records what inner answers.
func New(inner provider.Provider) *Recorder { return &Recorder{inner: inner} }

// Name is the inner provider's.
func (r *Recorder) Name() string { return r.inner.Name() }

// Endpoints are the inner provider's.
func (r *Recorder) Endpoints() []string { return r.inner.Endpoints() }

// ModelHint is the inner provider's.
func (r *Recorder) ModelHint() string { return provider.ModelHint(r.inner) }

// ModelNames are the inner provider's.
func (r *Recorder) ModelNames(asked string) []string { return provider.ModelNames(r.inner, asked) }

// PromptFamily is the inner provider's.
func (r *Recorder) PromptFamily() provider.Family { return provider.PromptFamily(r.inner) }

// Credentials are the inner provider's.
func (r *Recorder) Credentials() provider.Credentials { return provider.CredentialsOf(r.inner) }

// AcceptsImages is the inner provider's.
func (r *Recorder) AcceptsImages() bool { return provider.AcceptsImages(r.inner) }

// Models is the inner provider's.
func (r *Recorder) Models(ctx context.Context) ([]provider.ModelInfo, error) {
	return provider.Models(ctx, r.inner)
}

// Reachable is the inner provider's.
func (r *Recorder) Reachable(ctx context.Context) (bool, error) {
	return provider.Reachable(ctx, r.inner)
}

// Complete asks the inner provider and keeps the exchange if it succeeded.
func (r *Recorder) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	resp, err := r.inner.Complete(ctx, req, provider.Sink{Token: on.Token, FellBack: on.FellBack})
	if err != nil || resp == nil { // a recording with a hole in it could not be read
		return nil, err
	}
	kept := exchange{Request: req.Clone(), Response: resp.Clone()}
	r.mu.Lock()
	r.exchanges = append(r.exchanges, kept)
	r.mu.Unlock()
	return resp, nil
}

// Len is how many exchanges have been recorded.
func (r *Recorder) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.exchanges)
}

// Save writes what has been recorded so far to path, in one step and readable
// by the owner only. It may be called at any time and again.
func (r *Recorder) Save(path string) error {
	r.mu.Lock()
	f := file{
		Harness: ownVersion(), Format: Format,
		Provider:  identity{Name: r.Name(), ModelHint: r.ModelHint(), PromptFamily: r.PromptFamily(), Models: map[string][]string{}},
		Exchanges: slices.Clone(r.exchanges),
	}
	r.mu.Unlock()
	f.Provider.Models[""] = provider.ModelNames(r.inner, "")
	for _, e := range f.Exchanges {
		f.Provider.Models[e.Request.Model] = provider.ModelNames(r.inner, e.Request.Model)
	}
	b, err := f.encode()
	if err != nil {
		return err
	}
	return write(path, b)
}
