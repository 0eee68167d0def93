package loop

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/workspace"
)

// hidden is what the policy denies commands to read. It was looked for when the run
// began; a command that renames a directory takes what is denied in it to another
// place, where the next one would find it.
type hidden struct {
	mu    sync.Mutex
	paths []string
	moved bool // paths is not any more what the run began with
}

// from is p with what is denied hidden where it lies now. The workspace is looked
// through again only when something is not where it was.
func (h *hidden) from(ctx context.Context, ws *workspace.Workspace, p sandbox.Profile) sandbox.Profile {
	h.mu.Lock()
	defer h.mu.Unlock()
	gone := slices.ContainsFunc(h.paths, func(path string) bool {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrNotExist)
	})
	if gone {
		// Without an answer the old one stands: ctx has ended, and nothing starts.
		if now, err := ws.Denied(ctx, policy.Read); err == nil {
			h.paths, h.moved = now, true
		}
	}
	if h.moved {
		p.Reads.Deny = slices.Concat(p.Reads.Deny, h.paths)
	}
	return p
}
