package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/initorigin/io-harness-go/policy"
)

// refusal is an answer to the client in place of a connection.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// connect decides about target and, when it may be dialled, dials it. Every
// decision is reported before anything else happens.
func (p *Proxy) connect(ctx context.Context, asked, target string, ok bool) (net.Conn, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout)
	defer cancel()
	d := Dial{Target: asked}
	if !ok {
		d.Layer, d.Rule, d.Reason = policy.LayerFloor, policy.UncheckableHost, "the host cannot be checked"
		return nil, p.refuse(d)
	}
	d.Target = target
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		d.Reason = "no port is named"
		return nil, p.refuse(d)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		d.Reason = "the port is not a number from 1 to 65535"
		return nil, p.refuse(d)
	}
	d.Host, d.Port = host, uint16(n)
	pol := p.cfg.Policy()
	if !p.judge(pol, &d, "") {
		return nil, p.refuse(d)
	}
	if why, refused := policy.FloorRefusesHost(target, p.cfg.AllowLocal); refused {
		d.Layer, d.Rule, d.Reason = policy.LayerFloor, "", why
		return nil, p.refuse(d)
	}
	addrs, err := p.addresses(ctx, host)
	if err != nil || len(addrs) == 0 {
		d.Reason = "the name does not resolve"
		return nil, p.refuse(d)
	}
	fit := p.passing(pol, &d, addrs)
	if len(fit) == 0 {
		return nil, p.refuse(d)
	}
	d.Allowed, d.Reason = true, ""
	p.cfg.Report(d)
	return p.dial(ctx, d, fit)
}

// judge asks the policy, as it stands now, about the name, and about an address
// that the name resolved to when there is one.
func (p *Proxy) judge(pol policy.Policy, d *Dial, resolved string) bool {
	v := pol.Check(policy.Need{Act: policy.Net, Target: d.Target, Resolved: resolved})
	d.Rule, d.Layer = v.Rule, v.Layer
	if v.Effect == policy.Allow {
		return true
	}
	d.Reason = "the policy does not allow it"
	if v.Effect == policy.Ask {
		d.Reason = "the policy asks, and a command cannot wait for the answer"
	}
	return false
}

// addresses are what host stands for. A literal is itself.
func (p *Proxy) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	return p.cfg.Resolve(ctx, host)
}

// passing are the addresses that may be dialled. When there is none, d says why
// of the last one.
func (p *Proxy) passing(pol policy.Policy, d *Dial, addrs []netip.Addr) []netip.Addr {
	named := *d
	var fit []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if why, refused := pol.FloorRefusesAnswer(d.Host, netip.AddrPortFrom(a, d.Port), p.cfg.AllowLocal); refused {
			d.Layer, d.Rule, d.Reason = policy.LayerFloor, "", "it resolves to a "+why
			continue
		}
		if p.judge(pol, d, a.String()) {
			fit = append(fit, a)
		}
	}
	if len(fit) > 0 {
		*d = named
	}
	return fit
}

func (p *Proxy) dial(ctx context.Context, d Dial, addrs []netip.Addr) (net.Conn, *refusal) {
	dialer := net.Dialer{
		// The last word on the address, wherever it came from.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			if why, refused := policy.FloorRefuses(ap.Addr(), p.cfg.AllowLocal); refused {
				return errors.New(why)
			}
			return nil
		},
	}
	var last error
	for _, a := range addrs {
		c, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(a, d.Port).String())
		if err == nil {
			return c, nil
		}
		last = err
	}
	var timeout net.Error
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.As(last, &timeout) && timeout.Timeout() {
		return nil, &refusal{504, fmt.Sprintf("%s did not answer in time", d.Target)}
	}
	return nil, &refusal{502, fmt.Sprintf("%s cannot be reached", d.Target)}
}

// refuse reports a refused dial and words the answer, which the model reads.
func (p *Proxy) refuse(d Dial) *refusal {
	d.Target = printable(d.Target)
	p.cfg.Report(d)
	text := fmt.Sprintf("the harness refused %s: %s", d.Target, d.Reason)
	if d.Rule != "" {
		text += fmt.Sprintf(" (rule %q in layer %q)", d.Rule, d.Layer)
	} else if d.Layer != "" {
		text += fmt.Sprintf(" (layer %q)", d.Layer)
	}
	return &refusal{403, text}
}

// printable is a target that a client sent, fit for a record.
func printable(s string) string {
	const most = 300 // a name has at most 253 bytes
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
