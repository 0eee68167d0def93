package httpx

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/initorigin/io-harness-go/provider"
)

type hostKey struct{}

// refusedDial carries a refusal through the layers of the HTTP client.
type refusedDial struct{ err error }

func (r *refusedDial) Error() string { return r.err.Error() }
func (r *refusedDial) Unwrap() error { return r.err }

// dial connects, and asks the check of the context about each address right
// before it is used: the resolution that is judged is the one that is dialled.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(address); err == nil {
		ctx = context.WithValue(ctx, hostKey{}, host)
	}
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, ControlContext: judge}
	return d.DialContext(ctx, network, address)
}

func judge(ctx context.Context, _, address string, _ syscall.RawConn) error {
	check := provider.DialCheckOf(ctx)
	if check == nil {
		return nil
	}
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return &refusedDial{err}
	}
	host, _ := ctx.Value(hostKey{}).(string)
	if err := check(host, addr); err != nil {
		return &refusedDial{err}
	}
	return nil
}
