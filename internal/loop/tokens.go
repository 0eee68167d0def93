package loop

import (
	"sync"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

// tokenPump carries streamed text from the wire to a watcher. The wire never
// waits for the watcher: the queue between them has no bound, and close returns
// when everything in it was handed over. What it hands over is text: a character
// that a delta ends within waits for its rest.
type tokenPump struct {
	emit func(trace.Fact)
	done chan struct{}

	mu     sync.Mutex
	ready  *sync.Cond
	queue  []trace.Fact
	begun  string // the start of a character, whose rest is to come
	fed    bool
	closed bool
	fell   string // the provider that a chain fell back to last
}

func newTokenPump(emit func(trace.Fact)) *tokenPump {
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
		for _, f := range batch {
			p.emit(f)
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
	p.fed = true
	text = p.begun + text
	n := whole(text)
	p.begun = text[n:]
	p.add(text[:n])
	p.mu.Unlock()
}

// add queues text; mu is held.
func (p *tokenPump) add(text string) {
	if text == "" {
		return
	}
	p.queue = append(p.queue, trace.Token{Text: clean(text)})
	p.ready.Signal()
}

// fellBack says that what was put so far is of no answer: the next provider of a
// chain begins.
func (p *tokenPump) fellBack(provider string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(p.begun)
	p.begun, p.fed, p.fell = "", false, provider
	p.queue = append(p.queue, trace.FellBackTo{Provider: provider})
	p.ready.Signal()
}

// whole is how much of text comes before a character that its end cuts in two.
func whole(text string) int {
	for i := len(text) - 1; i >= max(0, len(text)-utf8.UTFMax); i-- {
		if !utf8.RuneStart(text[i]) {
			continue
		}
		if !utf8.FullRuneInString(text[i:]) {
			return i
		}
		break
	}
	return len(text)
}

// end closes the pump behind an answer: one that did not stream is handed over
// as a whole, so that who watches has read what was said.
func (p *tokenPump) end(answer string) {
	p.mu.Lock()
	fed := p.fed
	p.mu.Unlock()
	if !fed {
		p.put(answer)
	}
	p.close()
}

func (p *tokenPump) close() {
	p.mu.Lock()
	p.add(p.begun)
	p.begun, p.closed = "", true
	p.mu.Unlock()
	p.ready.Signal()
	<-p.done
}
