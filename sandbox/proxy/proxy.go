package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

const (
	// MaxHead bounds the head of a request, in bytes.
	MaxHead = 8 << 10
	// HeadTimeout is how long a client may take to send it.
	HeadTimeout = 10 * time.Second
	// DialTimeout bounds resolving and connecting together.
	DialTimeout = 30 * time.Second
	// MaxConns are the client connections served at one time; more wait.
	MaxConns = 256
)

// Dial is one decision. It holds no path, no header and no payload.
type Dial struct {
	Target  string // host:port in canonical form, or what was asked for when it has none
	Host    string
	Port    uint16
	Allowed bool
	Rule    string // the rule that decided; empty when the default did
	Layer   string
	Reason  string // why it was refused, in words; empty when allowed
}

// Config is what a proxy needs.
type Config struct {
	// Policy returns the policy in force. It is asked at every dial, from many
	// goroutines, so that a policy that changes during a run holds from then on.
	Policy func() policy.Policy

	// Report receives every decision before anything is dialled. It is called
	// from many goroutines and must not block. Nil drops them.
	Report func(Dial)

	// AllowLocal lets through addresses of this machine and of private networks,
	// which are otherwise refused whatever the policy says. Metadata services and
	// link-local addresses stay refused, and so does an address of this machine
	// that a name resolves to, unless a rule allows it as such. See
	// policy.FloorRefuses and policy.Policy.FloorRefusesAnswer.
	AllowLocal bool

	// User and Token, when Token is not empty, are what a client must state as
	// Proxy-Authorization, in the scheme Basic. Others get status 407; they are
	// told nothing about the policy and are not reported.
	User, Token string

	// Resolve finds the addresses of a name. Nil asks the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Proxy is a running proxy. Close ends it.
type Proxy struct {
	cfg      Config
	listener net.Listener
	addr     netip.AddrPort
	slots    chan struct{}
	stop     context.CancelFunc
	served   sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// Start listens on a free port of 127.0.0.1 and serves until Close is called or
// ctx ends.
func Start(ctx context.Context, cfg Config) (*Proxy, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start egress proxy: %w", err)
	}
	p, err := Serve(ctx, l, cfg)
	if err != nil {
		_ = l.Close()
	}
	return p, err
}

// Serve is Start on a listener of the caller's, which may belong to another
// network namespace; upstream connections are made from this process's own.
func Serve(ctx context.Context, l net.Listener, cfg Config) (*Proxy, error) {
	if cfg.Policy == nil {
		return nil, errors.New("start egress proxy: no policy is given")
	}
	addr, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("start egress proxy: %w", err)
	}
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if cfg.Report == nil {
		cfg.Report = func(Dial) {}
	}
	ctx, stop := context.WithCancel(ctx)
	p := &Proxy{cfg: cfg, listener: l, addr: addr, slots: make(chan struct{}, MaxConns), stop: stop, open: map[net.Conn]bool{}}
	p.served.Go(func() { p.accept(ctx) })
	p.served.Go(func() {
		<-ctx.Done()
		p.shut()
	})
	return p, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() netip.AddrPort { return p.addr }

// Close frees the port, cuts every tunnel and returns when nothing of the proxy
// runs any more. It may be called more than once.
func (p *Proxy) Close() error {
	p.stop()
	p.served.Wait()
	return nil
}

func (p *Proxy) shut() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for c := range p.open {
		_ = c.Close()
	}
}

// hold keeps c so that it can be cut; false means that the proxy has ended.
func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.open[c] = true
	return true
}

func (p *Proxy) drop(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
}

func (p *Proxy) accept(ctx context.Context) {
	for {
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		c, err := p.listener.Accept()
		if err != nil {
			<-p.slots
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of descriptors, as a rule: what is open must close first.
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return
			}
		}
		p.served.Go(func() {
			defer func() { <-p.slots }()
			if p.hold(c) {
				defer p.drop(c)
				p.serve(ctx, c)
			}
		})
	}
}
