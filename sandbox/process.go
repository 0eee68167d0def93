package sandbox

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// waitDelay is how long the end of the output is waited for once the program
// has ended and its tree was killed. Only a process that escaped the kill and
// holds a stream makes it pass.
const waitDelay = 2 * time.Second

// killDelay is how long a killed program may take to be gone, with what it has to
// give back. Only one that runs as another user, as under sudo, takes longer.
const killDelay = 10 * time.Second

// errKilled marks a kill that [Process.Kill] asked for.
var errKilled = errors.New("killed")

// Process is a started command. Its methods may be called from several
// goroutines.
type Process struct {
	spec       *spec
	removeTemp func() error
	killDelay  time.Duration
	started    time.Time
	child      *child
	applied    Applied

	closeAfterStart []io.Closer // the child's ends of our pipes
	streams         []stream
	stdin           *os.File // our end of the input pipe; nil when there is none
	input           io.Reader

	stdout, stderr, output *capture

	writers sync.Mutex    // held for a write to the caller: both streams may share one
	drained chan struct{} // closed when every stream has ended and was passed on
	kill    chan error    // asks the supervisor for a kill; holds one
	done    chan struct{} // closed when result and err are set

	result *Result
	err    error
}

func newProcess(s *spec, removeTemp func() error) *Process {
	limit := s.profile.Limits.output()
	return &Process{
		spec:       s,
		removeTemp: removeTemp,
		killDelay:  killDelay,
		stdout:     newCapture(limit),
		stderr:     newCapture(limit),
		output:     newCapture(limit),
		drained:    make(chan struct{}),
		kill:       make(chan error, 1),
		done:       make(chan struct{}),
	}
}

// Pid is the process id of the program.
func (p *Process) Pid() int { return p.child.pid }

// Pids are the processes of the command that live now, as far as the kill
// scope can tell; the program itself comes first.
func (p *Process) Pids() []int {
	select {
	case <-p.done:
		return nil
	default:
		return p.child.pids()
	}
}

// Applied is what holds for this command.
func (p *Process) Applied() Applied { return p.applied }

// Done is closed when nothing of the command is left and Wait would not block. See
// [Result.Survived] for the one exception.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns how the command ended, once nothing of it is left and its output
// is complete. The error is the cause of the context that ended it; the Result
// is never nil.
func (p *Process) Wait() (*Result, error) {
	<-p.done
	return p.result, p.err
}

// Terminate asks the command to end, where the system has a way to ask: SIGTERM
// to its process group. It does not wait; Kill is for one that does not heed.
func (p *Process) Terminate() {
	select {
	case <-p.done:
	default:
		p.child.terminate()
	}
}

// Kill ends the command and everything it started. It does not wait; a command
// that has ended is left alone.
func (p *Process) Kill() {
	select {
	case p.kill <- errKilled:
	default: // one is already on its way
	}
}

// open makes the three streams of the child.
func (p *Process) open(c Cmd) error {
	fail := func(err error) error { return &Error{Kind: ErrApparatus, Op: "open streams", Err: err} }
	files := make([]*os.File, 3)
	switch in := c.Stdin.(type) {
	case *os.File:
		files[0] = in
	case nil:
		null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
		if err != nil {
			return fail(err)
		}
		files[0] = null
		p.closeAfterStart = append(p.closeAfterStart, null)
	default:
		r, w, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		files[0], p.stdin, p.input = r, w, in
		p.closeAfterStart = append(p.closeAfterStart, r)
	}
	for i, w := range []io.Writer{c.Stdout, c.Stderr} {
		if f, ok := w.(*os.File); ok {
			files[i+1] = f
			continue
		}
		r, pw, err := os.Pipe()
		if err != nil {
			return fail(err)
		}
		widenPipe(r)
		own := []*capture{p.stdout, p.stderr}[i]
		s := stream{r: r, kept: []*capture{own, p.output}}
		if hide := p.spec.profile.Egress.ProxyToken.spellings(); hide != nil {
			s.mask = &masker{hide: hide}
		}
		if w != nil {
			s.to = &serial{mu: &p.writers, w: w}
		}
		files[i+1] = pw
		p.streams = append(p.streams, s)
		p.closeAfterStart = append(p.closeAfterStart, pw)
	}
	p.spec.files = files
	return nil
}

// climb starts the child on the first rung whose apparatus can be built.
func (p *Process) climb(base Applied) error {
	s := p.spec
	var fell []string
	ladder := candidates(s.host, s.profile)
	tried := map[Rung]bool{}
	for i := 0; i < len(ladder); i++ {
		ch := ladder[i]
		if tried[ch.rung] {
			continue
		}
		tried[ch.rung] = true
		ch.why = append(append([]string{}, ch.why...), fell...)
		a := s.describe(ch, base)
		if err := s.refuses(a); err != nil {
			return err
		}
		s.rung = ch.rung
		c, err := launch(s, &a)
		if err == nil {
			p.child, p.applied = c, a
			return nil
		}
		var e *Error
		if !errors.As(err, &e) || !errors.Is(e, ErrApparatus) {
			return err
		}
		fell = append(fell, string(ch.rung)+": "+reason(e))
		if ch.rung == RungFloor || ch.rung == RungNone {
			return err
		}
		if more := s.widen(); more {
			ladder, i = candidates(s.host, s.profile), -1
		}
	}
	return &Error{Kind: ErrApparatus, Op: "start", Program: first(s.argv), Err: errors.New("no rung is left")}
}

// widen looks for the namespaces rung when that was left out because a stronger
// one seemed to serve, and reports whether there is one now.
func (s *spec) widen() bool {
	p := s.profile
	if s.host.looked || s.host.OS != "linux" || p.Shim == ShimOff || p.only != "" {
		return false
	}
	s.host = withNamespaces(s.host)
	return s.host.Namespaces.Works
}

func reason(e *Error) string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return e.Kind.Error()
}

// abandon gives back what was opened for a child that never ran.
func (p *Process) abandon() {
	for _, c := range p.closeAfterStart {
		_ = c.Close()
	}
	for _, s := range p.streams {
		_ = s.r.Close()
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	_ = p.removeTemp()
}

// run takes the command over that was just started. Supervise does the rest.
func (p *Process) run() {
	p.started = time.Now()
	for _, c := range p.closeAfterStart {
		_ = c.Close()
	}
	p.closeAfterStart = nil
	var open atomic.Int32
	open.Store(int32(len(p.streams)))
	if len(p.streams) == 0 {
		close(p.drained)
	}
	for _, s := range p.streams {
		go func() {
			s.drain()
			if open.Add(-1) == 0 {
				close(p.drained)
			}
		}()
	}
	if p.stdin != nil {
		// Not waited for: it may block in a reader of the caller's, which no one
		// else can interrupt. Closing our end of the pipe ends it at its next write.
		go feed(p.stdin, p.input)
	}
}

func feed(w *os.File, r io.Reader) {
	_, _ = io.Copy(w, r) // a command that stops reading is no failure
	_ = w.Close()
}

// serial lets one write at a time through.
type serial struct {
	mu *sync.Mutex
	w  io.Writer
}

func (s *serial) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(b)
}

// drainSize is how much of a stream is read at once.
const drainSize = 128 << 10

var drainBuffers = sync.Pool{New: func() any { return new([drainSize]byte) }}

func (s stream) drain() {
	buf := drainBuffers.Get().(*[drainSize]byte)
	defer drainBuffers.Put(buf)
	broken := s.to == nil
	pass := func(b []byte) {
		if len(b) == 0 {
			return
		}
		starts := runeStarts(b)
		for _, c := range s.kept {
			c.add(b, starts)
		}
		if !broken {
			_, err := s.to.Write(b)
			broken = err != nil
		}
	}
	for {
		n, err := s.r.Read(buf[:])
		if s.mask == nil {
			pass(buf[:n])
		} else {
			pass(s.mask.next(buf[:n]))
		}
		if err != nil {
			if s.mask != nil {
				pass(s.mask.rest())
			}
			return
		}
	}
}

// supervise waits for the first of: the program's end, the end of the context,
// a ceiling, a kill. It then clears away what is left and settles the result.
func (p *Process) supervise(ctx context.Context) {
	var wall <-chan time.Time
	if d := p.spec.profile.Limits.Wall; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		wall = t.C
	}
	stopMonitor := make(chan struct{})
	over := p.child.monitor(p.spec.profile.Limits, stopMonitor)

	r := &Result{Argv: p.spec.argv, Program: p.spec.path, Exit: -1, Applied: p.applied}
	select {
	case <-p.child.exited:
	case <-ctx.Done():
		// Of one that ended by itself in the same moment its own end is told.
		if r.Killed = !p.exited(); r.Killed {
			p.err = context.Cause(ctx)
		}
	case <-wall:
		if r.Killed = !p.exited(); r.Killed {
			r.Cap = CapWall
		}
	case c := <-over: // not closed before stopMonitor is
		r.Cap, r.Killed = c, true
	case <-p.kill:
		r.Killed = !p.exited()
	}
	if r.Killed {
		p.child.kill()
		r.Survived = !within(p.child.exited, p.killDelay)
	}
	close(stopMonitor)
	if over != nil {
		for range over {
		}
	}
	p.settle(r)
	close(p.done)
}

// exited reports whether the program has ended and was reaped.
func (p *Process) exited() bool {
	select {
	case <-p.child.exited:
		return true
	default:
		return false
	}
}

// within waits for c to be closed, at most for d.
func within(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c: // as most often, without a timer
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// settle fills in the result once the program itself is gone, or could not be killed.
func (p *Process) settle(r *Result) {
	// The leftovers were killed before the program was reaped; what still holds a
	// stream got away from the kill.
	late := false
	if !within(p.drained, waitDelay) {
		late = p.child.kill()
		for _, s := range p.streams {
			_ = s.r.Close()
		}
		<-p.drained
	}
	for _, s := range p.streams {
		_ = s.r.Close()
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	release := func() {
		p.child.release()
		_ = p.removeTemp()
	}
	end := ending{code: -1}
	if r.Survived {
		go func() {
			<-p.child.exited
			release()
		}()
	} else {
		end = p.child.end
		if over := p.child.overMemory; over != nil && end.signal == "SIGKILL" && over() {
			end.cap = CapMemory
		}
		release()
	}
	r.Leftover = (end.leftover || late) && !r.Killed
	r.Signal = end.signal
	r.CPU = end.cpu
	if !r.Killed && end.signal == "" {
		r.Exit = end.code
	}
	if r.Cap == "" && end.cap != "" && p.applied.InForce(end.cap) {
		r.Cap = end.cap
		r.Exit = -1
	}
	r.Stdout, r.Stderr, r.Output = p.stdout.output(), p.stderr.output(), p.output.output()
	r.Duration = time.Since(p.started)
	p.result = r
}

// ending is how the program itself ended.
type ending struct {
	code     int
	signal   string
	cap      Cap
	cpu      time.Duration
	leftover bool // something it had started was still there
}

// child is what a rung started.
type child struct {
	pid    int
	exited chan struct{} // closed when end is set and the program is reaped
	end    ending

	// kill ends the whole tree, at once; it may be called at any time. After the end
	// of the program it reports whether something else was still there.
	kill func() bool
	// terminate asks the program and its group to end
	terminate func()
	pids      func() []int // what lives
	release   func()       // called once, after the end
	// overMemory reports, behind the end and before release, whether the kernel ended the
	// command for its ceiling on memory. It is nil where no kernel does.
	overMemory func() bool
	// monitor watches the ceilings that no kernel holds for us and reports the
	// first that is hit, until stop is closed.
	monitor func(l Limits, stop <-chan struct{}) <-chan Cap
}

// startError turns the failure of a system call into the error that the caller
// gets: every one of them is a fact about the command, not about the sandbox.
func startError(s *spec, err error) error {
	kind := ErrStart
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) {
		err = errors.Join(errors.New("the host has no room for another process"), err)
	}
	return &Error{Kind: kind, Op: "start", Program: s.argv[0], Rung: s.rung, Err: err}
}
