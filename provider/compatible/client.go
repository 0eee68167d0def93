package compatible

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/chat"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
)

var (
	_ provider.Provider          = (*Client)(nil)
	_ provider.ModelHinter       = (*Client)(nil)
	_ provider.CredentialHolder  = (*Client)(nil)
	_ provider.ImageAccepter     = (*Client)(nil)
	_ provider.Cataloguer        = (*Client)(nil)
	_ provider.ReachableReporter = (*Client)(nil)
)

// Config says which endpoint to ask and how.
type Config struct {
	// Preset takes base URL, authentication and quirks from the table of known
	// endpoints. Fields that are set beside it win.
	Preset string

	// BaseURL is the whole documented prefix of the endpoint, such as
	// https://host/v1; /chat/completions is appended, /v1 is not. Required
	// without a Preset.
	BaseURL string

	Key   provider.Secret // provider.NewSecret("…"); required for AuthBearer
	Auth  Auth            // "" means the preset's, else AuthBearer
	Model string          // asked when a request names none

	// Name labels the provider in the trace; "" means the preset's name, else
	// "compatible".
	Name string

	// Quirks replaces the preset's when it is not nil.
	Quirks *Quirks

	TextOnly bool // the model takes no images

	// Reference prices models that the endpoint's own catalogue leaves
	// unpriced. Its URL joins Endpoints; a reference that cannot be read fails
	// Models. Nil looks nothing up elsewhere.
	Reference *Reference

	Timeout     time.Duration // of one request, connecting and the whole answer; 0 means provider.RequestTimeout
	IdleTimeout time.Duration // longest silence behind the first byte; 0 means none, since models think in silence

	Limits provider.StreamLimits // of one answer; zero means the defaults

	// Transport replaces the HTTP transport that the providers of a process
	// share: for own certificates, or to forbid the environment's proxies. It
	// must not follow redirects by itself.
	Transport http.RoundTripper
}

// A Client asks one endpoint. It is safe for concurrent use.
type Client struct {
	chat      *chat.Client
	textOnly  bool
	reference *Reference
}

// New makes a client. What can never work is a *provider.ConfigError: no base
// URL, one that is no http or https URL, or no key where one is needed.
func New(cfg Config) (*Client, error) {
	quirks := Quirks{}
	name := "compatible"
	if cfg.Preset != "" {
		p, err := lookup(cfg.Preset)
		if err != nil {
			return nil, err
		}
		name, quirks = p.Name, p.Quirks
		if cfg.BaseURL == "" {
			cfg.BaseURL = p.BaseURL
		}
		if cfg.Auth == "" {
			cfg.Auth = p.Auth
		}
	}
	if cfg.Name != "" {
		name = cfg.Name
	}
	if cfg.Quirks != nil {
		quirks = *cfg.Quirks
	}
	if cfg.Auth == "" {
		cfg.Auth = AuthBearer
	}
	fail := func(format string, args ...any) (*Client, error) {
		return nil, &provider.ConfigError{Provider: name, Message: fmt.Sprintf(format, args...)}
	}
	if cfg.BaseURL == "" {
		return fail("no base URL is given: write the whole prefix that the vendor documents, such as https://host/v1, or a preset")
	}
	key := cfg.Key
	switch {
	case cfg.Auth == AuthNone:
		key = provider.Secret{}
	case cfg.Auth != AuthBearer:
		return fail("auth %q is not known: write bearer or none", cfg.Auth)
	case key.IsZero():
		return fail("no key is given: set one, or auth none for an endpoint that wants none")
	}
	switch quirks.MaxTokensField {
	case "", "max_tokens", "max_completion_tokens":
	default:
		return fail("the key %q for the output cap is not known: write max_tokens or max_completion_tokens", quirks.MaxTokensField)
	}
	http, base, err := httpx.Open(httpx.Settings{
		Name: name, BaseURL: cfg.BaseURL, Key: key, Transport: cfg.Transport,
		Timeout: cfg.Timeout, Idle: cfg.IdleTimeout, Limits: cfg.Limits,
	})
	if err != nil {
		return nil, err
	}
	http.Secrets = []provider.Secret{cfg.Key} // masked also where it is not sent
	return &Client{
		textOnly: cfg.TextOnly, reference: cfg.Reference,
		chat: &chat.Client{
			Base: base, Key: key, HTTP: http,
			Dialect: chat.Dialect{
				Provider:          name,
				Model:             cfg.Model,
				OmitStreamOptions: quirks.OmitStreamOptions,
				ReasoningContent:  quirks.ReasoningReplay,
				ExtraContent:      quirks.EchoExtraContent,
				NoTerminalSignal:  quirks.NoTerminalSignal,
				OutputSchema:      quirks.OutputSchema,
				MaxTokensField:    quirks.MaxTokensField,
			},
		},
	}, nil
}

// FromEnv asks a preset with the key that users of that vendor usually have in
// their environment, and the model of the same name with MODEL for API_KEY
// unless model says another. A variable that is missing or empty is a
// *provider.ConfigError that names it.
func FromEnv(preset, model string) (*Client, error) {
	p, err := lookup(preset)
	if err != nil {
		return nil, err
	}
	var key provider.Secret
	if p.KeyName != "" {
		key = httpx.KeyFromEnv(p.KeyName)
		if key.IsZero() {
			return nil, &provider.ConfigError{Provider: p.Name, Message: "the environment variable " + p.KeyName + " is not set: put the key into it"}
		}
		if variable := strings.TrimSuffix(p.KeyName, "API_KEY") + "MODEL"; model == "" {
			if model = os.Getenv(variable); model == "" {
				return nil, &provider.ConfigError{Provider: p.Name, Message: "no model is named: pass one, or set the environment variable " + variable}
			}
		}
	}
	return Preset(preset, key, model)
}

// Name is the label in the trace.
func (c *Client) Name() string { return c.chat.Dialect.Provider }

// Endpoints are the URLs of completions and of the catalogue, and that of the
// reference if there is one.
func (c *Client) Endpoints() []string {
	e := c.chat.Endpoints()
	if c.reference != nil {
		e = append(e, c.reference.URL())
	}
	return e
}

// Credentials are the key, if there is one.
func (c *Client) Credentials() provider.Credentials { return c.chat.Credentials() }

// Format writes name and model, whatever the verb, and nothing of the
// credential.
func (c *Client) Format(f fmt.State, _ rune) { httpx.Label(f, c.Name(), c.ModelHint()) }

// ModelHint is the model that is asked when a request names none.
func (c *Client) ModelHint() string { return c.chat.Dialect.Model }

// AcceptsImages reports what Config said.
func (c *Client) AcceptsImages() bool { return !c.textOnly }

// Complete asks the endpoint once.
func (c *Client) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if c.textOnly && len(req.Media) > 0 {
		return nil, &provider.ConfigError{Provider: c.Name(), Message: "the model takes no images: send none, or use another provider"}
	}
	return c.chat.Complete(ctx, req, on)
}

// Models reads the endpoint's catalogue, once for the life of the client. Many
// endpoints list ids and nothing else; some have no list, which is an error.
func (c *Client) Models(ctx context.Context) ([]provider.ModelInfo, error) {
	rows, err := c.chat.Models(ctx)
	if err != nil || c.reference == nil {
		return rows, err
	}
	return c.reference.fill(ctx, rows)
}

// PriceTable makes a price table of the catalogue. Models without a price are
// left out. It is dated by the day in UTC.
func (c *Client) PriceTable(ctx context.Context) (provider.PriceTable, error) {
	rows, err := c.Models(ctx)
	if err != nil {
		return provider.PriceTable{}, err
	}
	return provider.PriceTableOf(rows, time.Now().UTC().Format(time.DateOnly)), nil
}

// Reachable asks for the list of models and reports whether the endpoint gave a
// sensible answer within ten seconds. An endpoint without such a list is
// reachable; one that refuses the key is not.
func (c *Client) Reachable(ctx context.Context) (bool, error) { return c.chat.Reachable(ctx) }
