package sandbox

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// crowd is a listener on which more and more clients come, after a failure.
type crowd struct {
	t      *testing.T
	failed atomic.Bool
	open   atomic.Int64
	came   chan net.Conn // the clients' ends
	closed chan struct{}
	once   sync.Once
}

func (c *crowd) Accept() (net.Conn, error) {
	if !c.failed.Swap(true) {
		return nil, &net.OpError{Op: "accept", Err: unix.EMFILE}
	}
	if n := c.open.Load(); n >= maxRelays {
		c.t.Errorf("another client is let in while %d are served", n)
	}
	ours, theirs := net.Pipe()
	select {
	case c.came <- theirs:
		c.open.Add(1)
		return &counted{Conn: ours, open: &c.open}, nil
	case <-c.closed:
		_ = ours.Close()
		_ = theirs.Close()
		return nil, &net.OpError{Op: "accept", Err: net.ErrClosed}
	}
}

func (c *crowd) Close() error   { c.once.Do(func() { close(c.closed) }); return nil }
func (c *crowd) Addr() net.Addr { return &net.TCPAddr{} }

type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// A command opens as many connections as it likes, each of which would take
// descriptors of the host; and one failure to take one up is not the last word.
func TestTheWayToTheProxyIsBoundedAndSurvivesAFailure(t *testing.T) {
	proxy, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	go func() {
		for {
			c, err := proxy.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Read(make([]byte, 1))
				_ = c.Close()
			}()
		}
	}()
	c := &crowd{t: t, came: make(chan net.Conn), closed: make(chan struct{})}
	h := &helper{tree: &tree{}, listener: c}
	h.forward(netip.MustParseAddrPort(proxy.Addr().String()))
	var clients []net.Conn
	for range maxRelays + 50 {
		if len(clients) == maxRelays {
			_ = clients[0].Close()
			clients = clients[1:]
		}
		clients = append(clients, <-c.came)
	}
	h.release()
	for _, client := range clients {
		_ = client.Close()
	}
	if n := c.open.Load(); n != 0 {
		t.Errorf("%d connections are left open", n)
	}
}
