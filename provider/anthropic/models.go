package anthropic

import (
	"context"
	"net/url"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/catalog"
)

// maxPages bounds how often a catalogue is asked to go on.
const maxPages = 20

// Models reads the vendor's catalogue, once for the life of the client. It has
// no prices.
func (c *Client) Models(ctx context.Context) ([]provider.ModelInfo, error) {
	return c.catalogue.Get(ctx, func(ctx context.Context) ([]provider.ModelInfo, error) {
		all := []provider.ModelInfo{}
		target := c.base + "/v1/models?limit=1000"
		page := target
		for range maxPages {
			b, err := c.http.Get(ctx, page, c.header(), 0, catalog.MaxBytes)
			if err != nil {
				return nil, err
			}
			rows, err := catalog.Parse(b)
			if err != nil {
				return nil, c.http.Named(err)
			}
			all = append(all, rows...)
			last := gjson.GetBytes(b, "last_id").String()
			if !gjson.GetBytes(b, "has_more").Bool() || last == "" || len(rows) == 0 {
				return all, nil
			}
			page = target + "&after_id=" + url.QueryEscape(last)
		}
		return all, nil
	})
}
