package loop

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// dialler is a provider that dials one address for its host, as far as it is let.
type dialler struct {
	url, host, addr string
	refused         error
}

func (p *dialler) Name() string        { return "dialler" }
func (p *dialler) Endpoints() []string { return []string{p.url} }
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
			if !tc.refused && res.Outcome.Kind != trace.Finished {
				t.Errorf("%s, %v", res.Outcome, err)
			}
		})
	}
}
