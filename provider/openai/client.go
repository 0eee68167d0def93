package openai

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/chat"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
)

var (
	_ provider.Provider          = (*Client)(nil)
	_ provider.ModelHinter       = (*Client)(nil)
	_ provider.CredentialHolder  = (*Client)(nil)
	_ provider.FamilyHinter      = (*Client)(nil)
	_ provider.ImageAccepter     = (*Client)(nil)
	_ provider.Cataloguer        = (*Client)(nil)
	_ provider.ReachableReporter = (*Client)(nil)
)

// DefaultModel is asked when neither Config nor the request names a model.
const DefaultModel = "gpt-5"

const (
	name        = "openai"
	defaultBase = "https://api.openai.com/v1"
	keyVariable = "OPENAI_API_KEY"
	modelVar    = "OPENAI_MODEL"
)

// Config says how to ask. Only Key is required.
type Config struct {
	Key   provider.Secret // provider.NewSecret("…")
	Model string          // asked when a request names none; "" means DefaultModel

	// BaseURL is what /chat/completions, or /responses, is appended to; "" means
	// the vendor's own.
	BaseURL string

	// Summaries asks for summaries of the thinking, which the vendor shows to
	// verified accounts only and refuses to others. NewResponses alone uses it.
	Summaries bool

	// Name labels the provider in the trace; "" means "openai".
	Name string

	Timeout     time.Duration // of one request, connecting and the whole answer; 0 means provider.RequestTimeout
	IdleTimeout time.Duration // longest silence behind the first byte; 0 means none

	Limits provider.StreamLimits // of one answer; zero means the defaults

	// Transport replaces the HTTP transport that the providers of a process
	// share. It must not follow redirects by itself.
	Transport http.RoundTripper
}

// A Client asks OpenAI's Chat Completions API. It is safe for concurrent use.
type Client struct{ chat *chat.Client }

// open fills in what cfg leaves out and opens the connection.
func (cfg Config) open() (_ Config, http *httpx.Client, base string, err error) {
	if cfg.Name == "" {
		cfg.Name = name
	}
	if cfg.Model == "" {
		cfg.Model = DefaultModel
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultBase
	}
	if cfg.Key.IsZero() {
		return cfg, nil, "", httpx.NoKey(cfg.Name, keyVariable)
	}
	http, base, err = httpx.Open(httpx.Settings{
		Name: cfg.Name, BaseURL: cfg.BaseURL, Key: cfg.Key, Transport: cfg.Transport,
		Timeout: cfg.Timeout, Idle: cfg.IdleTimeout, Limits: cfg.Limits,
	})
	return cfg, http, base, err
}

// New makes a client. A missing key or a base URL that is none is a
// *provider.ConfigError.
func New(cfg Config) (*Client, error) {
	cfg, http, base, err := cfg.open()
	if err != nil {
		return nil, err
	}
	return &Client{&chat.Client{
		Base: base, Key: cfg.Key, HTTP: http,
		Dialect: chat.Dialect{Provider: cfg.Name, Model: cfg.Model, OutputSchema: true, MaxTokensField: "max_completion_tokens"},
	}}, nil
}

// FromEnv makes a client of OPENAI_API_KEY and OPENAI_MODEL. Both are needed:
// what is billed should be written down somewhere. One that is missing or empty
// is a *provider.ConfigError that names it.
func FromEnv() (*Client, error) {
	key, model, err := httpx.FromEnv(name, keyVariable, modelVar, DefaultModel)
	if err != nil {
		return nil, err
	}
	return New(Config{Key: key, Model: model})
}

// Name is the label in the trace.
func (c *Client) Name() string { return c.chat.Dialect.Provider }

// Endpoints are the URLs of completions and of the catalogue.
func (c *Client) Endpoints() []string { return c.chat.Endpoints() }

// Credentials are the key.
func (c *Client) Credentials() provider.Credentials { return c.chat.Credentials() }

// Format writes name and model, whatever the verb, and nothing of the
// credential.
func (c *Client) Format(f fmt.State, _ rune) { httpx.Label(f, c.Name(), c.ModelHint()) }

// ModelHint is the model that is asked when a request names none.
func (c *Client) ModelHint() string { return c.chat.Dialect.Model }

// PromptFamily is that of this vendor, whatever the model.
func (c *Client) PromptFamily() provider.Family { return provider.FamilyOpenAI }

// AcceptsImages is true.
func (c *Client) AcceptsImages() bool { return true }

// Complete asks once.
func (c *Client) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	return c.chat.Complete(ctx, req, on)
}

// Models reads the catalogue, once for the life of the client. It has ids only.
func (c *Client) Models(ctx context.Context) ([]provider.ModelInfo, error) { return c.chat.Models(ctx) }

// Reachable asks for the list of models and reports whether the vendor is there
// and takes the key, within ten seconds.
func (c *Client) Reachable(ctx context.Context) (bool, error) { return c.chat.Reachable(ctx) }
