package loop

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/sandbox/proxy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// egress is the way out of the run's commands where the policy names hosts: a
// proxy that asks the policy at every dial. The zero value is no proxy.
type egress struct {
	proxy  *proxy.Proxy
	policy atomic.Pointer[policy.Policy] // as of the last boundary of a step
	step   atomic.Int64

	mu      sync.Mutex
	dials   []dialled
	refused int // since the last recording
}

// maxRefusals are the refusals that are recorded one by one between two boundaries
// of a step. A command can bring about any number of them, and for nothing; what is
// let through costs it a connection.
const maxRefusals = 1000

// dialled is a decision with the step in which it was made.
type dialled struct {
	proxy.Dial
	step int
}

// openEgress decides what commands may reach, by the policy of the caller alone:
// what the harness may dial for a model is not for commands to have. A policy
// that names hosts gets a proxy, one that allows every host an open network, and
// any other none.
func (d *drive) openEgress(ctx context.Context) error {
	login := d.profile.Egress.ProxyLogin
	d.profile.Egress = sandbox.Egress{}
	if !d.profile.Mode.Contained() {
		return nil
	}
	if !d.base.NamesHosts() {
		d.profile.Egress.Open = d.base.AllowsAnyHost()
		return nil
	}
	d.egress.follow(d.policy, d.last+1)
	var token sandbox.ProxyToken
	if login {
		token = sandbox.ProxyToken(rand.Text())
	}
	// The proxy ends with the drive, whatever ctx does.
	p, err := proxy.Start(context.WithoutCancel(ctx), proxy.Config{
		Policy:     func() policy.Policy { return *d.egress.policy.Load() },
		Report:     d.egress.report,
		AllowLocal: os.Getenv(allowLocalEnv) == "1",
		User:       sandbox.ProxyUser,
		Token:      string(token),
	})
	if err != nil {
		return d.withoutProxy(err)
	}
	d.egress.proxy = p
	d.profile.Egress = sandbox.Egress{Proxy: p.Addr(), ProxyLogin: login, ProxyToken: token}
	applied, err := sandbox.Plan(ctx, d.profile)
	if err != nil {
		return errors.Join(err, p.Close())
	}
	if applied.Rung.ReachesProxy() {
		return nil
	}
	d.egress.proxy = nil
	return errors.Join(p.Close(), d.withoutProxy(fmt.Errorf("%s reaches no proxy", applied.Rung)))
}

// gateProfile is the boundary of a gate's commands: that of the run's, with the
// ceilings of a gate, and the open network where the caller's own words give the
// gate one. What the caller states for the gate alone takes the place of what is
// stated for the run.
func (d *drive) gateProfile() sandbox.Profile {
	p := d.profile
	if own := d.contract.GateSandbox; own != nil {
		run := p
		p = *own
		p.Workspace, p.Temp, p.Writable, p.Protect = run.Workspace, run.Temp, run.Writable, run.Protect
		p.Vars = slices.Concat(run.Vars, own.Vars)
		p.Programs = run.Programs
		p.Reads.Deny = slices.Concat(run.Reads.Deny, own.Reads.Deny)
		// What the run's models are asked with is for no command.
		p.Env.Secrets = slices.Concat(run.Env.Secrets, own.Env.Secrets)
		p.Env.Drop = slices.Concat(run.Env.Drop, own.Env.Drop)
		p.Egress = sandbox.Egress{Open: own.Egress.Open}
	} else if d.contract.Sandbox.Egress.Open {
		p.Egress = sandbox.Egress{Open: true}
	}
	p.Limits = d.contract.GateLimits()
	return p
}

// withoutProxy goes on with a switch in the place of a proxy, unless the caller
// demanded a boundary. The switch stays off: what cannot be asked about is not
// let through.
func (d *drive) withoutProxy(why error) error {
	d.profile.Egress = sandbox.Egress{}
	if d.profile.Require.Egress {
		return &sandbox.Error{Kind: sandbox.ErrRequired, Op: "start egress proxy", Err: why}
	}
	d.log.Warn("the policy names hosts and there is no proxy to ask it: commands have no network", "error", why)
	return nil
}

// follow makes p what is asked from now on, in the name of step.
func (e *egress) follow(p policy.Policy, step int) {
	e.policy.Store(&p)
	e.step.Store(int64(step))
}

// report is called by the proxy, from many goroutines.
func (e *egress) report(p proxy.Dial) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !p.Allowed {
		if e.refused++; e.refused > maxRefusals {
			return
		}
	}
	e.dials = append(e.dials, dialled{p, int(e.step.Load())})
}

// settle records what was dialled since the last time, and lets the proxy follow
// what the policy has become.
func (e *egress) settle(d *drive) { e.attend(d, d.last+1) }

// attend is settle for the commands of any step: what a person approved later is
// carried out behind the step that asked.
func (e *egress) attend(d *drive, step int) {
	if e.policy.Load() == nil {
		return
	}
	e.record(d)
	e.follow(d.policy, step)
}

func (e *egress) record(d *drive) {
	e.mu.Lock()
	dials, more := e.dials, e.refused-maxRefusals
	e.dials, e.refused = nil, 0
	e.mu.Unlock()
	for _, p := range dials {
		j := judged{
			need:    policy.Need{Act: policy.Net, Target: p.Target},
			verdict: policy.Verdict{Rule: p.Rule, Layer: p.Layer},
		}
		if p.Allowed {
			d.rec.decision(p.step, j, "allow", "policy", "", 0)
		} else {
			d.rec.refusal(p.step, j, "")
		}
		d.lease.Record(store.SandboxEvent{Step: p.step, Kind: "dial", Detail: p.Target})
		host := p.Host
		if host == "" {
			host = p.Target // what was asked for had no host and port
		}
		d.emit(p.step, trace.Dialed{Host: host, Port: p.Port, Allowed: p.Allowed})
	}
	if more > 0 {
		step := dials[len(dials)-1].step
		d.lease.Record(store.SandboxEvent{Step: step, Kind: "dials_refused", Detail: fmt.Sprintf("%d more", more)})
		d.log.Warn("commands of a step were refused more dials than are recorded one by one", "run", d.runID(), "step", step, "more", more)
	}
}

// end frees the port, cuts what is open, and records the last dials.
func (e *egress) end(d *drive) error {
	if e.proxy == nil {
		return nil
	}
	err := e.proxy.Close()
	e.proxy = nil
	if d.lease != nil {
		e.record(d)
	}
	return err
}
