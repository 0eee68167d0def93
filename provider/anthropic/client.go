package anthropic

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/catalog"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
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
const DefaultModel = "claude-sonnet-4-5"

const (
	name         = "anthropic"
	defaultBase  = "https://api.anthropic.com"
	version      = "2023-06-01"
	fetchBeta    = "web-fetch-2025-09-10"
	searchTool   = "web_search_20250305"
	fetchTool    = "web_fetch_20250910"
	keyVariable  = "ANTHROPIC_API_KEY"
	modelVar     = "ANTHROPIC_MODEL"
	probeTimeout = 10 * time.Second
)

// Config says how to ask. Only Key is required.
type Config struct {
	Key   provider.Secret // provider.NewSecret("…")
	Model string          // asked when a request names none; "" means DefaultModel

	// BaseURL is what /v1/messages is appended to; "" means the vendor's own.
	BaseURL string

	// Name labels the provider in the trace; "" means "anthropic".
	Name string

	Thinking ThinkingMode // how a request with an effort asks for thinking; "" means ThinkingAuto

	// NoPauseEcho leaves the content of a turn that the vendor paused out of
	// the next request. The vendor then begins its searches anew.
	NoPauseEcho bool

	// WebSearchTool and WebFetchTool are the dated types of the vendor's own
	// tools; "" means those that this version was written against.
	WebSearchTool, WebFetchTool string

	Timeout     time.Duration // of one request, connecting and the whole answer; 0 means provider.RequestTimeout
	IdleTimeout time.Duration // longest silence behind the first byte; 0 means none

	Limits provider.StreamLimits // of one answer; zero means the defaults

	// Transport replaces the HTTP transport that the providers of a process
	// share. It must not follow redirects by itself.
	Transport http.RoundTripper
}

// A Client asks the Messages API. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string
	http *httpx.Client

	catalogue catalog.Cache

	mu       sync.Mutex
	modes    map[string]ThinkingMode // learned from refusals, by model
	schemaNo map[string]bool         // models that refused a schema for the answer
}

// New makes a client. A missing key or a base URL that is none is a
// *provider.ConfigError.
func New(cfg Config) (*Client, error) {
	if cfg.Name == "" {
		cfg.Name = name
	}
	if cfg.Model == "" {
		cfg.Model = DefaultModel
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultBase
	}
	if cfg.WebSearchTool == "" {
		cfg.WebSearchTool = searchTool
	}
	if cfg.WebFetchTool == "" {
		cfg.WebFetchTool = fetchTool
	}
	if cfg.Key.IsZero() {
		return nil, httpx.NoKey(cfg.Name, keyVariable)
	}
	switch cfg.Thinking {
	case "":
		cfg.Thinking = ThinkingAuto
	case ThinkingAuto, ThinkingBudget, ThinkingAdaptive:
	default:
		return nil, &provider.ConfigError{Provider: cfg.Name, Message: fmt.Sprintf("thinking mode %q is not known: write auto, budget or adaptive", cfg.Thinking)}
	}
	http, base, err := httpx.Open(httpx.Settings{
		Name: cfg.Name, BaseURL: cfg.BaseURL, Key: cfg.Key, Transport: cfg.Transport,
		Timeout: cfg.Timeout, Idle: cfg.IdleTimeout, Limits: cfg.Limits,
	})
	if err != nil {
		return nil, err
	}
	return &Client{
		cfg: cfg, base: base, http: http,
		modes: map[string]ThinkingMode{}, schemaNo: map[string]bool{},
	}, nil
}

// FromEnv makes a client of ANTHROPIC_API_KEY and ANTHROPIC_MODEL. Both are
// needed: what is billed should be written down somewhere. One that is missing
// or empty is a *provider.ConfigError that names it.
func FromEnv() (*Client, error) {
	key, model, err := httpx.FromEnv(name, keyVariable, modelVar, DefaultModel)
	if err != nil {
		return nil, err
	}
	return New(Config{Key: key, Model: model})
}

// Name is the label in the trace.
func (c *Client) Name() string { return c.cfg.Name }

// Endpoints are the URLs of completions and of the catalogue.
func (c *Client) Endpoints() []string {
	return []string{c.base + "/v1/messages", c.base + "/v1/models"}
}

// Credentials are the key.
func (c *Client) Credentials() provider.Credentials {
	return provider.Credentials{Values: []provider.Secret{c.cfg.Key}}
}

// Format writes name and model, whatever the verb, and nothing of the
// credential.
func (c *Client) Format(f fmt.State, _ rune) { httpx.Label(f, c.Name(), c.ModelHint()) }

// ModelHint is the model that is asked when a request names none.
func (c *Client) ModelHint() string { return c.cfg.Model }

// PromptFamily is that of this vendor, whatever the model.
func (c *Client) PromptFamily() provider.Family { return provider.FamilyAnthropic }

// AcceptsImages is true.
func (c *Client) AcceptsImages() bool { return true }

// Complete asks once. Two refusals are answered by asking again inside of the
// call, since they say how to ask: of the way thinking is asked for, and of a
// schema for the answer. Both are remembered for the model.
func (c *Client) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	model, err := wire.Model(req, c.cfg.Model)
	if err != nil {
		return nil, c.http.Named(err)
	}
	var had lessons
	for {
		plan := c.plan(req, model)
		resp, begun, err := c.once(ctx, req, plan, on)
		if err == nil {
			resp.SchemaDropped = plan.schemaDropped
			return resp, nil
		}
		if begun || !c.learn(err, plan, &had) {
			return nil, err
		}
	}
}

// once asks once. begun says that content has come: what the sink was told cannot
// be taken back by asking again inside of the call.
func (c *Client) once(ctx context.Context, req *provider.Request, p plan, on provider.Sink) (resp *provider.Response, begun bool, err error) {
	b, err := c.body(req, p)
	if err != nil {
		return nil, false, c.http.Named(err)
	}
	h := c.header()
	if req.Web.Fetch {
		h.Set("Anthropic-Beta", fetchBeta)
	}
	a := newAccumulator(c.cfg, p, on, time.Now())
	if err := c.http.Post(ctx, c.base+"/v1/messages", h, b, httpx.Handlers{Event: a.event, Whole: a.whole, Document: a.document}); err != nil {
		httpx.Metered(err, a.counters())
		return nil, a.ttft > 0, err
	}
	if resp, err = a.finish(); err != nil {
		return nil, a.ttft > 0, c.http.Named(err)
	}
	return resp, true, nil
}

func (c *Client) header() http.Header {
	h := http.Header{}
	h.Set("X-Api-Key", c.cfg.Key.Reveal())
	h.Set("Anthropic-Version", version)
	return h
}

// lessons are what one call was taught by refusals. Each is taken once, or two
// refusals that contradict each other would go on for ever.
type lessons struct{ mode, schema bool }

// learn reports whether a refusal says that the same request, asked otherwise,
// may be taken, and notes how.
func (c *Client) learn(err error, p plan, had *lessons) bool {
	e, ok := provider.AsError(err)
	if !ok || e.Status != http.StatusBadRequest {
		return false
	}
	text := strings.ToLower(e.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case p.mode != "" && c.cfg.Thinking == ThinkingAuto && !had.mode && strings.Contains(text, "thinking.type"):
		c.modes[p.model], had.mode = p.mode.other(), true
		return true
	case p.schema != nil && !had.schema && (strings.Contains(text, "output_config") || strings.Contains(text, "json_schema")):
		c.schemaNo[p.model], had.schema = true, true
		return true
	}
	return false
}

// Reachable asks for the list of models and reports whether the vendor is there
// and takes the key, within ten seconds.
func (c *Client) Reachable(ctx context.Context) (bool, error) {
	return c.http.Reachable(ctx, c.base+"/v1/models", c.header(), probeTimeout)
}
