package loop

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// allowLocalEnv lifts the address floor for every host. It is read from the
// process's own environment and from nowhere else: a file of a workspace must
// not be able to set it.
const allowLocalEnv = "IO_HARNESS_ALLOW_LOCAL_ADDRESSES"

// dialling is the context of a completion: the provider keeps its place in a
// script or a recording for each run, and dials as pinned says.
func (d *drive) dialling(ctx context.Context) context.Context {
	return d.pinned(provider.WithScope(ctx, d.runID().String()))
}

// pinned holds every address that the provider dials to what was authorised by
// name, under the policy as it is now: a client may go on dialling on a goroutine of
// its own when its request is over, while the run's policy changes.
func (d *drive) pinned(ctx context.Context) context.Context {
	if len(d.host.Provider.Endpoints()) == 0 {
		return ctx
	}
	pol := d.policy
	return provider.WithDialCheck(ctx, func(host string, addr netip.AddrPort) error { return d.judgeDial(pol, host, addr) })
}

// judgeDial refuses an address behind a host's name that the name must not lead
// to: one that a rule denies, or one below the floor. A program that named a
// local address itself, as for a model server of its own, meant it.
func (d *drive) judgeDial(pol policy.Policy, host string, addr netip.AddrPort) error {
	need := policy.Need{Act: policy.Net, Target: net.JoinHostPort(strings.Trim(host, "[]"), strconv.Itoa(int(addr.Port()))), Resolved: addr.String()}
	local := os.Getenv(allowLocalEnv) == "1" || d.namesLocal(host)
	if reason, refused := policy.FloorRefuses(addr.Addr(), local); refused {
		refusal := &policy.RefusedError{Act: policy.Net, Target: need.Target, Rule: reason, Layer: policy.LayerFloor}
		return fmt.Errorf("%s leads to %s: %w", host, addr.Addr(), refusal)
	}
	if v := pol.ForProvider(need.Target).Check(need); v.Effect == policy.Deny {
		return fmt.Errorf("%s leads to %s: %w", host, addr.Addr(), v.Refusal(need))
	}
	return nil
}

// namesLocal reports whether one of the provider's own endpoints is this host,
// written as a local address or as localhost.
func (d *drive) namesLocal(host string) bool {
	for _, endpoint := range d.host.Provider.Endpoints() {
		u, err := url.Parse(endpoint)
		if err != nil || !strings.EqualFold(u.Hostname(), strings.Trim(host, "[]")) {
			continue
		}
		if strings.EqualFold(u.Hostname(), "localhost") {
			return true
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil {
			return a.IsLoopback() || a.IsPrivate()
		}
	}
	return false
}

// tellRefusedDial records that the provider was kept from dialling, if err came of
// that. Once is enough: such an error ends the asking.
func (d *drive) tellRefusedDial(step int, err error) {
	var r *policy.RefusedError
	if d.lease == nil || !errors.As(err, &r) || r.Act != policy.Net {
		return
	}
	d.rec.refusal(step, judged{
		need:    policy.Need{Act: r.Act, Target: r.Target},
		verdict: policy.Verdict{Effect: policy.Deny, Rule: r.Rule, Layer: r.Layer, Matched: true},
	}, "")
	d.emit(step, trace.RefusedAct{Act: string(r.Act), Target: r.Target, Rule: r.Rule, Layer: r.Layer})
}
