package chat

import (
	"context"
	"net/http"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// Complete asks target once in this dialect. Every failure is named, masked and
// of the library's own types, but for the caller's ended context.
func Complete(ctx context.Context, c *httpx.Client, d Dialect, target string, header http.Header, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	b, err := d.Body(req)
	if err != nil {
		return nil, c.Named(err)
	}
	model, err := wire.Model(req, d.Model)
	if err != nil {
		return nil, c.Named(err)
	}
	a := NewAccumulator(d, req, model, on, time.Now())
	if err := c.Post(ctx, target, header, b, httpx.Handlers{Event: a.Event, Document: a.Document}); err != nil {
		if e, ok := provider.AsError(err); ok && e.Usage == nil {
			e.Usage = a.usage // the connection broke behind the counters
		}
		return nil, err
	}
	resp, err := a.Finish()
	if err != nil {
		return nil, c.Named(err)
	}
	return resp, nil
}
