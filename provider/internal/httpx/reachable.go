package httpx

import (
	"context"
	"net/http"
	"time"

	"github.com/initorigin/io-harness-go/provider"
)

// probeBytes is how much of an answer is read whose content does not matter.
const probeBytes = 32 << 20

// Reachable asks for a document and reports whether the server is there and
// lets us in. Any other refusal than of the key or by redirection still shows a
// living server.
func (c *Client) Reachable(ctx context.Context, target string, header http.Header, timeout time.Duration) (bool, error) {
	_, err := c.Get(ctx, target, header, timeout, probeBytes)
	if err == nil {
		return true, nil
	}
	e, ok := provider.AsError(err)
	if !ok {
		return false, err
	}
	switch {
	case e.Status == 401, e.Status == 403, e.Status >= 300 && e.Status < 400, e.Status >= 500:
		return false, err
	case e.Status != 0, e.Kind == provider.Malformed:
		return true, nil
	}
	return false, err
}
