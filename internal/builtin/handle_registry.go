package builtin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
)

const (
	maxHandles  = 8        // commands that are left running at one time
	pollWindow  = 16 << 10 // bytes that one poll returns at most
	startWithin = 250 * time.Millisecond
)

var (
	errHandleLimit = fmt.Errorf("%d commands are running already, as many as there may be: end one with shell_kill first", maxHandles)
	errRunOver     = errors.New("the run is over")
)

// HandleState is how a command stands that was left running.
type HandleState struct {
	Running bool
	Killed  bool
	// Orphaned: the process that started it is gone, and so is it. Nobody may
	// signal what it was.
	Orphaned bool
	Code     *int // nil while it runs, and when no exit code ended it
	Reason   string
}

// String is the state as a model is told it.
func (s HandleState) String() string {
	word := "running"
	switch {
	case s.Orphaned:
		word = "orphaned"
	case s.Killed:
		word = "killed"
	case s.Running:
	case s.Code != nil:
		word = fmt.Sprintf("exited %d", *s.Code)
	default:
		word = "ended without an exit code"
	}
	if s.Reason != "" {
		word += " (" + s.Reason + ")"
	}
	return word
}

// HandleJournal makes the life of handles durable and tells of it. Its methods
// may be called from several goroutines.
type HandleJournal interface {
	// Begin records a line before it is started, and numbers it.
	Begin(ctx context.Context, step int, line string) (int, error)
	// Processes replaces what is recorded of the processes of a running handle.
	Processes(ctx context.Context, handle int, pids []int) error
	// Read records what a poll has read.
	Read(step, handle int, chunk string)
	// Polled follows every poll of a handle that there is.
	Polled(step, handle, bytes int)
	// Over records the end of a handle. The first word about it stands.
	Over(ctx context.Context, step, handle int, s HandleState) error
}

// Handles are the commands that one run left running. Whoever made it must call
// End, which leaves none behind.
type Handles struct {
	journal HandleJournal
	grace   time.Duration // from the request to end until the kill
	ctx     context.Context
	cancel  context.CancelCauseFunc

	mu       sync.Mutex
	live     map[int]*handle
	past     map[int]HandleState // of an earlier period of the run
	reserved int                 // slots of lines that are being started
	over     bool                // End was called
}

// NewHandles makes the registry of a run. A line that is to be killed has grace to end
// when it is asked to.
func NewHandles(j HandleJournal, grace time.Duration) *Handles {
	h := &Handles{journal: j, grace: grace, live: map[int]*handle{}, past: map[int]HandleState{}}
	h.ctx, h.cancel = context.WithCancelCause(context.Background())
	return h
}

// Adopt notes a handle of an earlier period of the run, of which nothing can be
// reached any more: it can be asked about, and is never signalled.
func (hs *Handles) Adopt(n int, s HandleState) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.past[n] = s
}

// handle is one line that was left running.
type handle struct {
	n      int
	tape   *tape
	begun  chan struct{}
	done   chan struct{} // closed when nothing of it is left and end is set
	cancel context.CancelFunc
	end    HandleState

	settle   sync.Mutex // held while its end is being recorded
	recorded bool       // guarded by settle

	mu     sync.Mutex
	procs  []*sandbox.Process
	killed bool
	reason string
	pids   []int // as recorded
	cursor int64 // how much of the tape was read
}

func (h *handle) over() bool {
	select {
	case <-h.done:
		return true
	default:
		return false
	}
}

// state is how it stands now.
func (h *handle) state() HandleState {
	if h.over() {
		return h.end
	}
	return HandleState{Running: true}
}

// start runs a planned line in the background and returns once it is known to
// have begun, or to have failed to.
func (hs *Handles) start(ctx context.Context, e *Env, c tool.Call, line *shellLine) (*handle, error) {
	if err := hs.reserve(); err != nil {
		return nil, err
	}
	n, err := hs.journal.Begin(ctx, c.Step, line.text)
	if err != nil {
		hs.release()
		return nil, err
	}
	h := &handle{n: n, tape: newTape(0, pollWindow), begun: make(chan struct{}), done: make(chan struct{})}
	out, err := newRecording(h.tape, e.ProxyToken)
	if err != nil {
		h.end = HandleState{Reason: err.Error()}
		close(h.done)
		hs.admit(h) // so that its end is recorded later, should it not be now
		return nil, errors.Join(err, hs.settle(context.WithoutCancel(ctx), c.Step, h))
	}
	var runCtx context.Context
	runCtx, h.cancel = context.WithCancel(hs.ctx)
	r := &shellRun{env: e, call: c, line: line, out: out.w, err: out.w, started: h.add}
	if !hs.admit(h) {
		h.cancel()
		out.close()
		return nil, errors.Join(errRunOver, hs.journal.Over(context.WithoutCancel(ctx), c.Step, n, HandleState{Killed: true, Reason: errRunOver.Error()}))
	}
	r.start = e.Begin(c, line.text, true)
	go h.run(runCtx, r, out)
	t := time.NewTimer(startWithin)
	defer t.Stop()
	select {
	case <-h.begun:
	case <-h.done:
	case <-t.C:
	case <-ctx.Done():
	}
	// A failure is not told: the handle runs, its number must not be lost, and the
	// next step records its processes again.
	_ = hs.snapshot(context.WithoutCancel(ctx), h)
	return h, nil
}

func (hs *Handles) reserve() error {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	running := hs.reserved
	for _, h := range hs.live {
		if !h.over() {
			running++
		}
	}
	if hs.over {
		return errRunOver
	}
	if running >= maxHandles {
		return errHandleLimit
	}
	hs.reserved++
	return nil
}

// admit puts a handle in its slot, unless the run ended meanwhile.
func (hs *Handles) admit(h *handle) bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.reserved--
	if !hs.over {
		hs.live[h.n] = h
	}
	return !hs.over
}

func (hs *Handles) release() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.reserved--
}

// run is the life of a handle.
func (h *handle) run(ctx context.Context, r *shellRun, out *recording) {
	defer close(h.done)
	defer h.cancel()
	r.run(ctx)
	out.close()
	r.start.Over("")
	h.mu.Lock()
	defer h.mu.Unlock()
	switch res := r.last.result; {
	case h.killed && r.cut: // else it had ended by itself, be it in the same moment
		h.end.Killed, h.end.Reason = true, h.reason
		if res != nil && res.Survived {
			h.end.Reason += ", and it could not be killed"
		}
	case r.stop != nil:
		h.end.Reason = r.stop.Error()
	case res != nil && res.Cap != "":
		h.end.Reason = fmt.Sprintf("it hit the sandbox's %s ceiling", res.Cap)
	case res != nil && res.Signal != "":
		h.end.Reason = "killed by signal " + res.Signal
	default:
		code := r.last.status
		h.end.Code = &code
	}
}

// add is told of each process of the line, from the goroutine that runs it.
func (h *handle) add(p *sandbox.Process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.procs) == 0 {
		close(h.begun)
	}
	h.procs = append(h.procs, p)
	if h.killed {
		p.Kill()
	}
}

// processes are those that live, the first of the line first.
func (h *handle) processes() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	var pids []int
	for _, p := range h.procs {
		pids = append(pids, p.Pids()...)
	}
	return pids
}

// ask asks what runs of it to end, the last stage first. Nothing more of the line is
// started.
func (h *handle) ask(reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over() {
		h.killed, h.reason = true, reason
	}
	for _, p := range slices.Backward(h.procs) {
		p.Terminate()
	}
}

// kill ends handles and returns when nothing of them is left. They are asked first,
// where there is grace, and are killed when that or ctx is over.
func (hs *Handles) kill(ctx context.Context, reason string, all ...*handle) {
	if hs.grace > 0 {
		for _, h := range all {
			h.ask(reason)
		}
		patience := time.NewTimer(hs.grace)
		defer patience.Stop()
	waiting:
		for _, h := range all {
			select {
			case <-h.done:
			case <-patience.C:
				break waiting
			case <-ctx.Done():
				break waiting
			}
		}
	}
	for _, h := range all {
		h.kill(reason)
	}
	for _, h := range all {
		<-h.done
	}
}

// kill ends it, the last stage first. It does not wait: done tells when nothing
// of it is left.
func (h *handle) kill(reason string) {
	h.mu.Lock()
	if !h.over() {
		h.killed, h.reason = true, reason
	}
	for _, p := range slices.Backward(h.procs) {
		p.Kill()
	}
	h.mu.Unlock()
	h.cancel()
}

// snapshot records the processes of a handle, when they changed.
func (hs *Handles) snapshot(ctx context.Context, h *handle) error {
	pids := h.processes()
	h.mu.Lock()
	same := len(pids) == 0 || slices.Equal(pids, h.pids)
	h.mu.Unlock()
	if same {
		return nil
	}
	if err := hs.journal.Processes(ctx, h.n, pids); err != nil {
		return err
	}
	h.mu.Lock()
	h.pids = pids
	h.mu.Unlock()
	return nil
}

// Housekeep records what became of the handles since the last time: their
// processes, and those that ended by themselves. step is the step that begins.
func (hs *Handles) Housekeep(ctx context.Context, step int) error {
	var errs []error
	for _, h := range hs.sorted() {
		if !h.over() {
			errs = append(errs, hs.snapshot(ctx, h))
		} else {
			errs = append(errs, hs.settle(ctx, step, h))
		}
	}
	return errors.Join(errs...)
}

// Running reports whether something that was left running still runs.
func (hs *Handles) Running() bool {
	return slices.ContainsFunc(hs.sorted(), func(h *handle) bool { return !h.over() })
}

// settle records the end of a handle, until that has succeeded once. Its output
// can still be polled.
func (hs *Handles) settle(ctx context.Context, step int, h *handle) error {
	h.settle.Lock()
	defer h.settle.Unlock()
	if h.recorded {
		return nil
	}
	if err := hs.journal.Over(ctx, step, h.n, h.end); err != nil {
		return err
	}
	h.recorded = true
	return nil
}

// End kills what still runs, records how every handle ended, and returns when
// nothing of them is left. Nothing can be started afterwards. It may be called
// more than once.
func (hs *Handles) End(ctx context.Context, step int) error {
	hs.mu.Lock()
	hs.over = true
	hs.mu.Unlock()
	var errs []error
	all := hs.sorted()
	hs.kill(ctx, "run ended", all...)
	for _, h := range all {
		errs = append(errs, hs.settle(ctx, step, h))
	}
	hs.cancel(errRunOver)
	return errors.Join(errs...)
}

func (hs *Handles) sorted() []*handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	out := make([]*handle, 0, len(hs.live))
	for _, h := range hs.live {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *handle) int { return a.n - b.n })
	return out
}

// find is the handle of that number, or what is left of one. Neither: there is none.
func (hs *Handles) find(n int) (*handle, HandleState, bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h, live := hs.live[n]
	s, past := hs.past[n]
	return h, s, live || past
}

// read takes what a handle printed since the last time: the newest of it, as far as
// there is room. What is passed over is told by its size, since it cannot be had
// again.
func (hs *Handles) read(step int, h *handle, room int) (text string, skipped int64) {
	h.mu.Lock()
	chunk, skipped, next := h.tape.since(h.cursor, min(max(room, 1), pollWindow), h.over())
	h.cursor = next
	h.mu.Unlock()
	text = string(chunk)
	if text != "" {
		hs.journal.Read(step, h.n, text)
	}
	return text, skipped
}
