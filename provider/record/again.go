package record

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
)

// A Change is a question that is answered otherwise than it was.
type Change struct {
	Question      int // from 0, in the order of the recording
	Before, After *provider.Response
}

// Again asks live every question of the recording, in the recorded order, and
// returns what it answered as a new recording, to be saved by the caller. Failures
// that asking again may heal are tried again as retry says, three times at most.
//
// The questions stay those that were recorded. One that holds the results of an
// earlier answer still holds the old ones, so where a Change says that calls
// differ, a run will leave the new recording behind it: make that run once more
// with New instead. Thinking that another vendor signed is not sent to live.
//
// Whatever fails, the recorder holds what was answered until then.
func (r *Replayer) Again(ctx context.Context, live provider.Provider, retry provider.RetryPolicy) (*Recorder, []Change, error) {
	rec := New(live)
	var changes []Change
	for i, e := range r.exchanges {
		resp, err := patiently(ctx, rec, e.Request, retry)
		if err != nil {
			return rec, changes, fmt.Errorf("question %d of %d: %w", i+1, len(r.exchanges), err)
		}
		if differ(e.Response, resp) {
			changes = append(changes, Change{Question: i, Before: e.Response.Clone(), After: resp.Clone()})
		}
	}
	return rec, changes, nil
}

// maxTries is how often one question is asked.
const maxTries = 3

func patiently(ctx context.Context, p provider.Provider, req *provider.Request, retry provider.RetryPolicy) (*provider.Response, error) {
	for try := 1; ; try++ {
		resp, err := p.Complete(ctx, req.Clone(), provider.Sink{})
		if err == nil {
			return resp, nil
		}
		wait, again := retry.Wait(try, err)
		if !again || try == maxTries {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, &provider.Interrupted{Provider: p.Name(), Err: httpx.Ended(ctx)}
		}
	}
}

// differ reports whether a run would go on differently: by the text, the calls or
// the ending. What an answer cost, and which model gave it, is no difference.
func differ(a, b *provider.Response) bool {
	if a.Text != b.Text || a.Ending() != b.Ending() || len(a.Calls) != len(b.Calls) {
		return true
	}
	for i, c := range a.Calls {
		d := b.Calls[i]
		if c.Name != d.Name || c.ArgumentsError != d.ArgumentsError || !bytes.Equal(c.Arguments, d.Arguments) {
			return true
		}
	}
	return false
}
