package chat

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/catalog"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// probeTimeout bounds the question whether an endpoint answers at all.
const probeTimeout = 10 * time.Second

// A Client asks one endpoint in one dialect. Its exported fields are set before
// the first use; it is safe for concurrent use.
type Client struct {
	HTTP    *httpx.Client
	Dialect Dialect
	Base    string          // without a slash at the end
	Key     provider.Secret // none: no credential header is sent

	catalogue catalog.Cache

	mu       sync.Mutex
	schemaNo map[string]bool // models that refused a schema for the answer
}

// Credentials are the key, if there is one.
func (c *Client) Credentials() provider.Credentials {
	return provider.Credentials{Values: []provider.Secret{c.Key}}
}

// Endpoints are the URLs of completions and of the catalogue.
func (c *Client) Endpoints() []string {
	return []string{c.Base + "/chat/completions", c.Base + "/models"}
}

func (c *Client) header() http.Header {
	h := http.Header{}
	if !c.Key.IsZero() {
		h.Set("Authorization", "Bearer "+c.Key.Reveal())
	}
	return h
}

// Complete asks once. Every failure is named, masked and of the library's own
// types, but for the caller's ended context. An endpoint that refuses a schema
// for the answer is asked again without it, and not asked for one again.
func (c *Client) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	model, err := wire.Model(req, c.Dialect.Model)
	if err != nil {
		return nil, c.HTTP.Named(err)
	}
	wanted := req.Output != nil && c.Dialect.OutputSchema
	if !wanted || c.refusedSchema(model) {
		d := c.Dialect
		d.OutputSchema = false
		resp, _, err := c.once(ctx, d, req, model, on)
		if err == nil {
			resp.SchemaDropped = wanted
		}
		return resp, err
	}
	resp, begun, err := c.once(ctx, c.Dialect, req, model, on)
	if err == nil || begun || !namesSchema(err) {
		return resp, err
	}
	c.mu.Lock()
	if c.schemaNo == nil {
		c.schemaNo = map[string]bool{}
	}
	c.schemaNo[model] = true
	c.mu.Unlock()
	return c.Complete(ctx, req, on)
}

func (c *Client) refusedSchema(model string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.schemaNo[model]
}

// namesSchema reports whether a refusal is of the schema for the answer.
func namesSchema(err error) bool {
	e, ok := provider.AsError(err)
	if !ok || e.Status != http.StatusBadRequest {
		return false
	}
	text := strings.ToLower(e.Message)
	return strings.Contains(text, "response_format") || strings.Contains(text, "json_schema")
}

// once asks once. begun says that content has come: what the sink was told cannot
// be taken back by asking again inside of the call.
func (c *Client) once(ctx context.Context, d Dialect, req *provider.Request, model string, on provider.Sink) (resp *provider.Response, begun bool, err error) {
	b, err := d.Body(req)
	if err != nil {
		return nil, false, c.HTTP.Named(err)
	}
	a := NewAccumulator(d, req, model, on, time.Now())
	if err := c.HTTP.Post(ctx, c.Base+"/chat/completions", c.header(), b, httpx.Handlers{Event: a.Event, Whole: a.Whole, Document: a.Document}); err != nil {
		httpx.Metered(err, a.usage) // it ended behind the counters
		return nil, a.ttft > 0, err
	}
	if resp, err = a.Finish(); err != nil {
		return nil, a.ttft > 0, c.HTTP.Named(err)
	}
	return resp, true, nil
}

// Models reads the endpoint's catalogue, once for the life of the client.
func (c *Client) Models(ctx context.Context) ([]provider.ModelInfo, error) {
	return c.catalogue.Get(ctx, func(ctx context.Context) ([]provider.ModelInfo, error) {
		return FetchModels(ctx, c.HTTP, c.Base+"/models", c.header())
	})
}

// FetchModels reads a catalogue.
func FetchModels(ctx context.Context, c *httpx.Client, target string, header http.Header) ([]provider.ModelInfo, error) {
	b, err := c.Get(ctx, target, header, 0, catalog.MaxBytes)
	if err != nil {
		return nil, err
	}
	rows, err := catalog.Parse(b)
	if err != nil {
		return nil, c.Named(err)
	}
	return rows, nil
}

// Reachable reports whether the endpoint answers and takes the key.
func (c *Client) Reachable(ctx context.Context) (bool, error) {
	return c.HTTP.Reachable(ctx, c.Base+"/models", c.header(), probeTimeout)
}
