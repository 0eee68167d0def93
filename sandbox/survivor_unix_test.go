//go:build unix

package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// A program that runs as another user cannot be signalled. Its run goes on without it.
func TestWhatCannotBeKilledIsGivenUpAndSaidToBe(t *testing.T) {
	var released, removed atomic.Bool
	cause := errors.New("the time is over")
	p := newProcess(&spec{argv: []string{"sudo", "sleep"}}, func() error { removed.Store(true); return nil })
	p.killDelay = 10 * time.Millisecond
	c := &child{
		exited: make(chan struct{}), kill: func() bool { return false }, release: func() { released.Store(true) },
		monitor: func(Limits, <-chan struct{}) <-chan Cap { return nil },
	}
	p.child = c
	ctx, cancel := context.WithCancelCause(t.Context())
	p.run()
	go p.supervise(ctx)
	cancel(cause)
	r, err := p.Wait()
	if !errors.Is(err, cause) || !r.Killed || !r.Survived || r.Exit != -1 || r.Success() {
		t.Errorf("got %+v, %v", r, err)
	}
	if released.Load() || removed.Load() {
		t.Error("what the program still uses was taken away under it")
	}
	c.end = ending{}
	close(c.exited)
	for range 500 {
		if released.Load() && removed.Load() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("what it used is still held after its end")
}
