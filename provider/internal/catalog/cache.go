package catalog

import (
	"context"
	"slices"
	"sync"

	"github.com/initorigin/io-harness-go/provider"
)

// A Cache keeps what a list of models was when it was first read. Two readers
// at the start may both ask; the first answer stays. A failure is not kept.
type Cache struct {
	mu   sync.Mutex
	rows []provider.ModelInfo
}

// Get returns the list, read by load if it is not there yet.
func (c *Cache) Get(ctx context.Context, load func(context.Context) ([]provider.ModelInfo, error)) ([]provider.ModelInfo, error) {
	c.mu.Lock()
	rows := c.rows
	c.mu.Unlock()
	if rows == nil {
		fresh, err := load(ctx)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		if c.rows == nil {
			c.rows = fresh
		}
		rows = c.rows
		c.mu.Unlock()
	}
	return slices.Clone(rows), nil
}
