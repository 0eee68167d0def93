package loop

import "sync"

// tokenPump carries streamed text from the wire to a watcher. The wire never
// waits for the watcher: the queue between them has no bound, and close returns
// when everything in it was handed over.
type tokenPump struct {
	emit func(text string)
	done chan struct{}

	mu     sync.Mutex
	ready  *sync.Cond
	queue  []string
	closed bool
}

func newTokenPump(emit func(string)) *tokenPump {
	p := &tokenPump{emit: emit, done: make(chan struct{})}
	p.ready = sync.NewCond(&p.mu)
	go p.run()
	return p
}

func (p *tokenPump) run() {
	defer close(p.done)
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && !p.closed {
			p.ready.Wait()
		}
		batch := p.queue
		p.queue = nil
		closed := p.closed
		p.mu.Unlock()
		for _, text := range batch {
			p.emit(text)
		}
		if closed && len(batch) == 0 {
			return
		}
	}
}

func (p *tokenPump) put(text string) {
	if text == "" {
		return
	}
	p.mu.Lock()
	p.queue = append(p.queue, text)
	p.mu.Unlock()
	p.ready.Signal()
}

func (p *tokenPump) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ready.Signal()
	<-p.done
}
