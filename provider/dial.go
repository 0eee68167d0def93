package provider

import (
	"context"
	"net/netip"
)

type dialKey struct{}

// A DialCheck judges one address before it is dialled. host is the name or
// literal that led to it, without port. An error refuses the connection and
// comes back from the call that wanted it, unwrapped and never retried.
type DialCheck func(host string, addr netip.AddrPort) error

// WithDialCheck makes the providers of this module ask check about every
// address that they dial under ctx: what was authorised by name is so held to
// the addresses that the name leads to, at the moment of dialling. Nil asks
// nobody.
//
// Three connections are not judged: one that is open already, one to a proxy
// of the environment, which resolves names itself, and one of a transport that
// the caller supplied.
func WithDialCheck(ctx context.Context, check DialCheck) context.Context {
	return context.WithValue(ctx, dialKey{}, check)
}

// DialCheckOf returns what WithDialCheck set, or nil.
func DialCheckOf(ctx context.Context) DialCheck {
	check, _ := ctx.Value(dialKey{}).(DialCheck)
	return check
}
