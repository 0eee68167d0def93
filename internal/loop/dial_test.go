package loop

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// dialler is a provider that dials one address for its host, as far as it is let.
type dialler struct {
	url, host, addr string
	refused         error
}

func (p *dialler) Name() string        { return "dialler" }
func (p *dialler) Endpoints() []string { return []string{p.url} }
func (p *dialler) Reachable(ctx context.Context) (bool, error) {
	if err := provider.DialCheckOf(ctx)(p.host, netip.MustParseAddrPort(p.addr)); err != nil {
		return false, err
	}
	return true, nil
}
func (p *dialler) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	check := provider.DialCheckOf(ctx)
	if check == nil {
		return nil, errors.New("nobody judges what is dialled")
	}
	if p.refused = check(p.host, netip.MustParseAddrPort(p.addr)); p.refused != nil {
		return nil, p.refused
	}
	return scripted.Say("reached")(ctx, req)
}

func TestAnAddressIsHeldToWhatItsNameWasAuthorisedFor(t *testing.T) {
	for _, tc := range []struct {
		name    string
		url     string
		host    string
		addr    string
		pol     policy.Policy
		lifted  bool
		refused bool
	}{
		{"a public address", "https://api.example.com", "api.example.com", "93.184.216.34:443", open, false, false},
		{"a name that leads to this machine", "https://api.example.com", "api.example.com", "127.0.0.1:443", open, false, true},
		{"a name that leads into the private network", "https://api.example.com", "api.example.com", "10.0.0.7:443", open, false, true},
		{"a name that leads to the metadata service", "https://api.example.com", "api.example.com", "169.254.169.254:80", open, true, true},
		{"a private address inside an IPv6 one", "https://api.example.com", "api.example.com", "[::ffff:10.0.0.7]:443", open, false, true},
		{"a local address that the program named", "http://127.0.0.1:11434/v1", "127.0.0.1", "127.0.0.1:11434", open, false, false},
		{"localhost that the program named", "http://localhost:11434/v1", "localhost", "127.0.0.1:11434", open, false, false},
		{"a local address when the floor is lifted", "https://api.example.com", "api.example.com", "127.0.0.1:443", open, true, false},
		{"an address that a rule denies", "https://api.example.com", "api.example.com", "93.184.216.34:443", open.DenyNet("93.184.216.34"), false, true},
		{"the metadata service that the program named", "http://169.254.169.254", "169.254.169.254", "169.254.169.254:80", open, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			lift := "0"
			if tc.lifted {
				lift = "1"
			}
			t.Setenv(allowLocalEnv, lift)
			f := newFixture(t)
			p := &dialler{url: tc.url, host: tc.host, addr: tc.addr}
			f.model(p)
			f.host.Policy = tc.pol
			res, err := f.run()
			if got := p.refused != nil; got != tc.refused {
				t.Fatalf("refused: %v", p.refused)
			}
			if tc.refused && (!errors.Is(err, policy.ErrRefused) || res.Outcome.Kind != trace.EscalatedTerminal) {
				t.Errorf("%s, %v", res.Outcome, err)
			}
			f.dialRefused(res.RunID, 1, tc.refused)
			if calls := f.providerCalls(res.RunID); tc.refused && (len(calls) != 1 || calls[0].Failure != "Refused") {
				t.Errorf("calls: %+v", calls)
			}
			if !tc.refused && res.Outcome.Kind != trace.Finished {
				t.Errorf("%s, %v", res.Outcome, err)
			}
		})
	}
}

// dialRefused holds that a refused dial is one row and one event, and any other
// none.
func (f *fixture) dialRefused(id trace.RunID, step int, refused bool) {
	f.t.Helper()
	var told []trace.RefusedAct
	for _, ev := range f.seen.all {
		if r, ok := ev.Fact.(trace.RefusedAct); ok {
			told = append(told, r)
		}
	}
	rows := f.refusals(id)
	if !refused {
		if len(rows)+len(told) > 0 {
			f.t.Errorf("refusals of what was allowed: %+v, %+v", rows, told)
		}
		return
	}
	if len(rows) != 1 || len(told) != 1 {
		f.t.Fatalf("refusals: %+v, %+v; want one row and one event", rows, told)
	}
	r, e := rows[0], told[0]
	if r.Step != step || r.Act != "net" || r.Target == "" || r.Rule == "" || r.Layer == "" {
		f.t.Errorf("row %+v", r)
	}
	if e.Act != r.Act || e.Target != r.Target || e.Rule != r.Rule || e.Layer != r.Layer {
		f.t.Errorf("the event %+v is not the row %+v", e, r)
	}
}

func TestAnAddressIsJudgedWhenAProviderIsAskedWhetherItIsThere(t *testing.T) {
	f := newFixture(t)
	f.host.Provider = &dialler{url: "https://api.example.com", host: "api.example.com", addr: "10.0.0.7:443"}
	res, err := f.run(func(c *task.Contract) { c.Routing.RequirePrimary = true })
	var invalid *task.InvalidError
	if !errors.As(err, &invalid) || !errors.Is(err, policy.ErrRefused) || res.RunID == 0 {
		t.Fatalf("run %d, %v", res.RunID, err)
	}
	f.dialRefused(res.RunID, 0, true)
	if n := len(f.providerCalls(res.RunID)); n != 0 {
		t.Errorf("%d completions", n)
	}
}

// A client may go on dialling for a request that is over. It is judged by what held
// when the request was made, beside whatever the run does meanwhile.
func TestADialThatOutlivesItsRequestIsJudgedByThePolicyOfThat(t *testing.T) {
	f := newFixture(t)
	f.model(&dialler{url: "https://api.example.com"})
	d, err := newDrive(t.Context(), f.host.withDefaults(), f.contract())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	check := provider.DialCheckOf(d.pinned(t.Context()))
	addr := netip.MustParseAddrPort("93.184.216.34:443")
	done := make(chan error)
	go func() { done <- check("api.example.com", addr) }()
	d.remember([]policy.Rule{{Act: policy.Net, Effect: policy.Deny, Pattern: "93.184.216.34"}})
	if err := <-done; err != nil {
		t.Errorf("the dial of the earlier request: %v", err)
	}
	if err := provider.DialCheckOf(d.pinned(t.Context()))("api.example.com", addr); !errors.Is(err, policy.ErrRefused) {
		t.Errorf("the dial of a later request: %v", err)
	}
}
