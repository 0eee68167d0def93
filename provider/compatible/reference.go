package compatible

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/catalog"
	"github.com/initorigin/io-harness-go/provider/internal/chat"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
)

// ReferenceURL is the catalogue that a Reference reads unless another is named.
// It is public and takes no key.
const ReferenceURL = "https://openrouter.ai/api/v1/models"

// A Reference looks up prices in one public catalogue. It is read once for the
// life of the value and is safe for concurrent use. The zero value reads
// ReferenceURL.
type Reference struct {
	At        string            // URL of the catalogue; "" means ReferenceURL
	Timeout   time.Duration     // of the request; 0 means provider.RequestTimeout
	Transport http.RoundTripper // nil means the shared one

	cache catalog.Cache
}

// URL is what will be dialled.
func (r *Reference) URL() string {
	if r.At == "" {
		return ReferenceURL
	}
	return r.At
}

// Host is the host of the URL without port, "" when there is none.
func (r *Reference) Host() string {
	u, err := url.Parse(r.URL())
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// fill prices the rows that have no price of their own.
func (r *Reference) fill(ctx context.Context, rows []provider.ModelInfo) ([]provider.ModelInfo, error) {
	known, err := r.cache.Get(ctx, func(ctx context.Context) ([]provider.ModelInfo, error) {
		c := &httpx.Client{Name: "price reference", Transport: r.Transport, Timeout: r.Timeout}
		return chat.FetchModels(ctx, c, r.URL(), http.Header{})
	})
	if err != nil {
		return nil, err
	}
	exact, short := index(known)
	for i := range rows {
		if rows[i].Price != nil {
			continue // also a stated zero
		}
		id := strings.ToLower(rows[i].ID)
		ref, ok := exact[id]
		if !ok && !strings.Contains(id, "/") {
			ref, ok = short[id]
		}
		if ok && ref != nil && ref.Price != nil {
			rows[i].Price, rows[i].PriceTiers = ref.Price, ref.PriceTiers
			rows[i].PriceSource = provider.PriceFromReference(r.Host())
		}
	}
	return rows, nil
}

// index finds rows by their id, and by the id without the one vendor in front
// of it. Two rows with one short id are a guess, so that it matches neither.
func index(rows []provider.ModelInfo) (exact, short map[string]*provider.ModelInfo) {
	exact, short = map[string]*provider.ModelInfo{}, map[string]*provider.ModelInfo{}
	for i := range rows {
		id := strings.ToLower(rows[i].ID)
		exact[id] = &rows[i]
		bare := id
		if vendor, rest, ok := strings.Cut(id, "/"); ok {
			if vendor == "" || strings.Contains(rest, "/") {
				continue
			}
			bare = rest
		}
		if _, twice := short[bare]; twice {
			short[bare] = nil
			continue
		}
		short[bare] = &rows[i]
	}
	return exact, short
}
