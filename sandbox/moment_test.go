package sandbox

import (
	"context"
	"testing"
	"time"
)

// What ends by itself was not killed, whatever else happens in that moment.
func TestACommandThatEndsWithItsContextEndedByItself(t *testing.T) {
	for name, also := range map[string]func(p *Process, cancel func()){
		"its context ends": func(_ *Process, cancel func()) { cancel() },
		"it is killed":     func(p *Process, _ func()) { p.Kill() },
		"its time is over": func(p *Process, _ func()) { p.spec.profile.Limits.Wall = time.Nanosecond },
	} {
		t.Run(name, func(t *testing.T) {
			for range 50 { // of two that are ready one is taken at random
				p := newProcess(&spec{argv: []string{"true"}}, func() error { return nil })
				p.child = &child{
					exited:  make(chan struct{}),
					end:     ending{code: 3},
					kill:    func() bool { return false },
					release: func() {},
					pids:    func() []int { return nil },
					monitor: func(Limits, <-chan struct{}) <-chan Cap { return nil },
				}
				close(p.child.exited)
				ctx, cancel := context.WithCancel(t.Context())
				also(p, cancel)
				p.run()
				go p.supervise(ctx)
				r, err := p.Wait()
				cancel()
				if err != nil || r.Killed || r.Cap != "" || r.Exit != 3 {
					t.Fatalf("%+v, %v", r, err)
				}
			}
		})
	}
}
