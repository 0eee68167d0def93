package loop

import (
	"bytes"
	"context"
	"sync"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// early is a read that was started before the completion that asks for it had
// settled. Nobody hears of it until then, and then only as of the call that it is.
type early struct {
	name   string
	args   []byte
	cancel context.CancelFunc
	keep   func() // lets the run know what the read saw
	done   chan struct{}
	back   returned // once done is closed
}

// wait is what the read came to. It ends soon after the drive's context does.
func (e *early) wait() returned {
	<-e.done
	e.keep()
	return e.back
}

// drop gives the read up and waits until it is gone.
func (e *early) drop() {
	e.cancel()
	<-e.done
}

// speculation starts reads while one completion streams in: the leading calls of
// it, as long as each is a read that the policy allows outright. The first that
// is anything else ends it.
type speculation struct {
	d   *drive
	st  *step
	ctx context.Context

	mu     sync.Mutex
	closed bool
	reads  []*early
}

// speculate returns nil where nothing may start early: nobody streams, calls run
// one by one, or it is no completion of a step.
func (d *drive) speculate(ctx context.Context, st *step, purpose store.Purpose) *speculation {
	if purpose != store.ForStep || !d.streams() || d.contract.ParallelReads() == 1 {
		return nil
	}
	return &speculation{d: d, st: st, ctx: ctx}
}

// offer starts a call that the model has finished writing, if it may be started.
func (s *speculation) offer(index int, from provider.ToolCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || index != len(s.reads) || len(s.reads) >= s.d.contract.ParallelReads() {
		s.closed = true
		return
	}
	e := s.d.startEarly(s.ctx, s.st, index, from)
	if e == nil {
		s.closed = true
		return
	}
	s.reads = append(s.reads, e)
}

// startEarly starts one call, or returns nil when it has to wait for its turn.
func (d *drive) startEarly(ctx context.Context, st *step, index int, from provider.ToolCall) *early {
	entry, ok := d.catalogue.byName[from.Name]
	if !ok || d.masked(from.Name) || !d.catalogue.overlaps(from.Name) || entry.spec.IsIndeterminate() || from.ArgumentsError != "" {
		return nil
	}
	args, err := entry.spec.CheckArgs(from.Arguments)
	if err != nil {
		return nil
	}
	c := &call{index: index, id: callID(st.n, index), name: from.Name, args: args, tool: entry.tool, spec: entry.spec}
	tc := d.toolCall(st, c)
	var keep func()
	tc.Workspace, keep = tc.Workspace.Aside()
	if !d.allowsOutright(c, tc) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &early{name: from.Name, args: args, cancel: cancel, keep: keep, done: make(chan struct{})}
	go func() {
		defer close(e.done)
		e.back = d.invoke(ctx, c, tc)
	}()
	return e
}

// allowsOutright reports whether nobody would have to be asked about a call.
func (d *drive) allowsOutright(c *call, tc tool.Call) bool {
	needs, err := d.needs(c, tc)
	if err != nil {
		return false
	}
	for _, n := range needs {
		if d.judge(n).Effect != policy.Allow {
			return false
		}
	}
	return true
}

// settle hands each read to the settled call that it is. The longest run of
// leading reads that are what the completion came to is kept, and the rest is
// given up. calls is nil when the completion failed.
func (s *speculation) settle(calls []*call) {
	s.mu.Lock()
	s.closed = true
	reads := s.reads
	s.mu.Unlock()
	s.st.speculated.Started += len(reads)
	used := 0
	for used < len(reads) && used < len(calls) && s.d.isCall(reads[used], calls[used]) {
		calls[used].early = reads[used]
		used++
	}
	for _, e := range reads[used:] {
		e.cancel()
	}
	for _, e := range reads[used:] {
		e.drop()
	}
	s.st.speculated.Used += used
	s.st.speculated.Discarded += len(reads) - used
}

func (d *drive) isCall(e *early, c *call) bool {
	if e.name != c.name || c.fault != "" {
		return false
	}
	args, err := d.catalogue.byName[c.name].spec.CheckArgs(c.args)
	return err == nil && bytes.Equal(args, e.args)
}

// tellSpeculated tells the watcher what became of the early reads of a step.
func (d *drive) tellSpeculated(st *step) {
	if st.speculated != (trace.Speculated{}) {
		d.emit(st.n, st.speculated)
	}
}

// dropEarly gives up the reads of a step that no call took: the step ended before
// their turn came.
func (s *step) dropEarly() {
	for _, c := range s.calls {
		if c.early != nil {
			c.early.drop()
		}
	}
}
