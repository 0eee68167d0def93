package openai

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/catalog"
	"github.com/initorigin/io-harness-go/provider/internal/chat"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

var (
	_ provider.Provider          = (*Responses)(nil)
	_ provider.ModelHinter       = (*Responses)(nil)
	_ provider.CredentialHolder  = (*Responses)(nil)
	_ provider.FamilyHinter      = (*Responses)(nil)
	_ provider.ImageAccepter     = (*Responses)(nil)
	_ provider.Cataloguer        = (*Responses)(nil)
	_ provider.ReachableReporter = (*Responses)(nil)
)

// probeTimeout bounds the question whether the vendor answers at all.
const probeTimeout = 10 * time.Second

// Responses asks OpenAI's Responses API: the wire of the models that think, which
// get their thinking back encrypted, and that of the vendor's web search. Nothing
// is stored at the vendor; every request holds the whole conversation. It is safe
// for concurrent use.
type Responses struct {
	cfg  Config
	base string
	http *httpx.Client

	catalogue catalog.Cache

	mu         sync.Mutex
	knows      map[string]lessons         // learned from refusals, by model
	unreadable map[[sha256.Size]byte]bool // thinking that the vendor could not read again
}

// lessons are what one model is known not to take.
type lessons struct{ noSchema, noEncrypted bool }

// NewResponses makes a client of the Responses API. BaseURL of cfg is what
// /responses is appended to. A missing key or a base URL that is none is a
// *provider.ConfigError.
func NewResponses(cfg Config) (*Responses, error) {
	cfg, http, base, err := cfg.open()
	if err != nil {
		return nil, err
	}
	return &Responses{cfg: cfg, base: base, http: http, knows: map[string]lessons{}, unreadable: map[[sha256.Size]byte]bool{}}, nil
}

// ResponsesFromEnv makes a client of the Responses API as FromEnv makes one of
// Chat Completions.
func ResponsesFromEnv() (*Responses, error) {
	key, model, err := httpx.FromEnv(name, keyVariable, modelVar, DefaultModel)
	if err != nil {
		return nil, err
	}
	return NewResponses(Config{Key: key, Model: model})
}

// Name is the label in the trace.
func (c *Responses) Name() string { return c.cfg.Name }

// Endpoints are the URLs of completions and of the catalogue.
func (c *Responses) Endpoints() []string { return []string{c.base + "/responses", c.base + "/models"} }

// Credentials are the key.
func (c *Responses) Credentials() provider.Credentials {
	return provider.Credentials{Values: []provider.Secret{c.cfg.Key}}
}

// Format writes name and model, whatever the verb, and nothing of the
// credential.
func (c *Responses) Format(f fmt.State, _ rune) { httpx.Label(f, c.Name(), c.ModelHint()) }

// ModelHint is the model that is asked when a request names none.
func (c *Responses) ModelHint() string { return c.cfg.Model }

// PromptFamily is that of this vendor, whatever the model.
func (c *Responses) PromptFamily() provider.Family { return provider.FamilyOpenAI }

// AcceptsImages is true.
func (c *Responses) AcceptsImages() bool { return true }

// Complete asks once. A model that refuses a schema for the answer, or to hand out
// its thinking encrypted, is asked again without it inside of the call, and not
// asked for it again. Thinking that the vendor cannot read again, as after a change
// of the account, is left out in the same way.
func (c *Responses) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	model, err := wire.Model(req, c.cfg.Model)
	if err != nil {
		return nil, c.http.Named(err)
	}
	for {
		c.mu.Lock()
		known := c.knows[model]
		c.mu.Unlock()
		b, thoughts, err := c.body(req, model, known)
		if err != nil {
			return nil, c.http.Named(err)
		}
		resp, begun, err := c.once(ctx, b, model, on)
		if err == nil {
			resp.SchemaDropped = req.Output != nil && known.noSchema
			return resp, nil
		}
		if begun || !c.learn(err, req, model, known, thoughts) {
			return nil, err
		}
	}
}

// once asks once. begun says that content has come: what the sink was told cannot
// be taken back by asking again inside of the call.
func (c *Responses) once(ctx context.Context, b []byte, model string, on provider.Sink) (resp *provider.Response, begun bool, err error) {
	a := &responseStream{provider: c.cfg.Name, model: model, on: on, start: time.Now(), calls: wire.NewSlots(on.Call, true)}
	if err := c.http.Post(ctx, c.base+"/responses", c.header(), b, httpx.Handlers{Event: a.event, Document: a.document}); err != nil {
		httpx.Metered(err, a.usage)
		return nil, a.ttft > 0, err
	}
	if resp, err = a.finish(); err != nil {
		return nil, a.ttft > 0, c.http.Named(err)
	}
	return resp, true, nil
}

// learn reports whether a refusal says that the same request may be taken without
// something, and notes what. What was left out already is not refused again.
// thoughts are those that the request handed back.
func (c *Responses) learn(err error, req *provider.Request, model string, known lessons, thoughts []json.RawMessage) bool {
	e, ok := provider.AsError(err)
	if !ok || e.Status != http.StatusBadRequest {
		return false
	}
	text := strings.ToLower(e.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(thoughts) > 0 && strings.Contains(text, "encrypted"):
		for _, t := range thoughts {
			c.unreadable[sha256.Sum256(t)] = true
		}
		return true
	case req.Effort != "" && !known.noEncrypted && strings.Contains(text, "encrypted"):
		known.noEncrypted = true
	case req.Output != nil && !known.noSchema && (strings.Contains(text, "text.format") || strings.Contains(text, "json_schema")):
		known.noSchema = true
	default:
		return false
	}
	c.knows[model] = known
	return true
}

func (c *Responses) header() http.Header {
	h := http.Header{}
	h.Set("Authorization", "Bearer "+c.cfg.Key.Reveal())
	return h
}

// Models reads the catalogue, once for the life of the client. It has ids only.
func (c *Responses) Models(ctx context.Context) ([]provider.ModelInfo, error) {
	return c.catalogue.Get(ctx, func(ctx context.Context) ([]provider.ModelInfo, error) {
		return chat.FetchModels(ctx, c.http, c.base+"/models", c.header())
	})
}

// Reachable asks for the list of models and reports whether the vendor is there
// and takes the key, within ten seconds.
func (c *Responses) Reachable(ctx context.Context) (bool, error) {
	return c.http.Reachable(ctx, c.base+"/models", c.header(), probeTimeout)
}
