//go:build unix

package loop

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/sandbox/proxy"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

const (
	clientEnv = "EGRESS_TEST_URL"
	pastEnv   = "EGRESS_TEST_PAST_THE_PROXY"
)

// TestClientOfEgress is not a test: it is the command of the tests below, an HTTP
// client that uses the proxy it is given, or not.
func TestClientOfEgress(t *testing.T) {
	target := os.Getenv(clientEnv)
	if target == "" {
		t.Skip("only as a command of another test")
	}
	tr := &http.Transport{DisableKeepAlives: true}
	if os.Getenv(pastEnv) == "" {
		u, err := url.Parse(os.Getenv("HTTP_PROXY"))
		if err != nil || u.Host == "" {
			t.Fatalf("there is no proxy: %q", os.Getenv("HTTP_PROXY"))
		}
		tr.Proxy = http.ProxyURL(u)
		fmt.Println("proxy", u.Host)
	}
	c := http.Client{Transport: tr, Timeout: 10 * time.Second}
	resp, err := c.Get(target)
	if err != nil {
		t.Fatalf("not reached: %v", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println("answer", resp.StatusCode, strings.TrimSpace(string(body)))
}

// client is a command that asks for a URL.
func client(target string, past bool) scripted.Turn {
	argv := []string{"env", clientEnv + "=" + target}
	if past {
		argv = append(argv, pastEnv+"=1")
	}
	return command(append(argv, os.Args[0], "-test.run=^TestClientOfEgress$", "-test.v")...)
}

// site is a server on the loopback that counts who reached it.
type site struct {
	*httptest.Server
	hits atomic.Int32
}

func newSite(t *testing.T) *site {
	s := &site{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.hits.Add(1)
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *site) host() string { return s.Listener.Addr().String() }

// networked is a fixture whose policy names the hosts, on a network that is
// denied otherwise. The proxy refuses the loopback unless its host says so.
func networked(t *testing.T, hosts ...string) *fixture {
	t.Helper()
	t.Setenv(allowLocalEnv, "1")
	f := newFixture(t)
	f.host.Policy = open.Layer("net").AllowExec("env *").AllowNet(hosts...)
	return f
}

func (f *fixture) dials(id trace.RunID) []string {
	f.t.Helper()
	var out []string
	for e, err := range f.store.SandboxEvents(context.Background(), id) {
		if err != nil {
			f.t.Fatal(err)
		}
		if e.Kind == "dial" {
			out = append(out, fmt.Sprintf("%d %s", e.Step, e.Detail))
		}
	}
	return out
}

// netRows are the rows of the policy about the network.
func (f *fixture) netRows(id trace.RunID) []string {
	f.t.Helper()
	rows, err := store.Collect(f.store.PolicyEvents(context.Background(), id))
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		if r.Act == string(policy.Net) {
			out = append(out, fmt.Sprintf("%d %s %s by %q in %q: %s", r.Step, r.Kind, r.Target, r.Rule, r.Layer, r.Decision))
		}
	}
	return out
}

func TestCommandsReachTheNamedHostsAndNoOthers(t *testing.T) {
	named, other := newSite(t), newSite(t)
	f := networked(t, named.host())
	m := f.script(client(named.URL, false), client(other.URL, false), scripted.Say("done"))
	res := f.must(trace.Finished)
	results := resultsOf(m)
	contains(t, "the results", results, "answer 200 hello", "answer 403 the harness refused "+other.host())
	if named.hits.Load() != 1 || other.hits.Load() != 0 {
		t.Errorf("%d and %d requests came, want 1 and 0", named.hits.Load(), other.hits.Load())
	}
	same(t, "rows", f.netRows(res.RunID), []string{
		fmt.Sprintf(`1 decision %s by %q in "net": allow`, named.host(), named.host()),
		fmt.Sprintf(`2 refusal %s by "" in "": deny`, other.host()),
	})
	same(t, "dials", f.dials(res.RunID), []string{"1 " + named.host(), "2 " + other.host()})
	var told []trace.Dialed
	for _, ev := range f.seen.all {
		if d, ok := ev.Fact.(trace.Dialed); ok {
			told = append(told, d)
		}
	}
	if len(told) != 2 || !told[0].Allowed || told[1].Allowed || told[0].Host != "127.0.0.1" {
		t.Errorf("told of %+v", told)
	}
	_, rest, _ := strings.Cut(results, "proxy ")
	port, _, _ := strings.Cut(rest, "\n")
	if c, err := net.DialTimeout("tcp", strings.TrimSpace(port), time.Second); err == nil {
		c.Close()
		t.Errorf("the proxy at %s outlives the run", port)
	}
}

// A run that wants its proxy for itself gives the login to its commands and to nobody
// else: not to the model, the trace or the store.
func TestALoginForTheProxyIsKnownToTheCommandsAlone(t *testing.T) {
	named := newSite(t)
	f := networked(t, named.host())
	f.host.Policy = f.host.Policy.Layer("look").AllowExec("sh *", "env", "cat")
	var addr, status string
	look := command("sh", "-c", `printf %s "$HTTP_PROXY" > login; env`)
	m := f.script(client(named.URL, false), look,
		shellCall("env | cat && env >/dev/null && sh -c 'env >&2'"),
		startCall("env; sh -c 'printf out >left'"), until("left"), pollCall(1), scripted.Say("done"))
	f.host.Observer = trace.ObserverFunc(func(e trace.Event) trace.Flow {
		if _, text, ok := strings.Cut(f.read("login"), "@"); ok && addr == "" {
			addr = text
			resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: addr})}}).Get(named.URL)
			if err == nil {
				status = resp.Status
				resp.Body.Close()
			}
		}
		return f.seen.Observe(e)
	})
	res := f.must(trace.Finished, func(c *task.Contract) { c.Sandbox.Egress.ProxyLogin = true })
	contains(t, "the results", resultsOf(m), "answer 200 hello", "HTTP_PROXY=http://run:*")
	if n := strings.Count(resultsOf(m), "\nHTTP_PROXY=http://run:*"); n < 4 {
		t.Errorf("only %d of the environments were told", n)
	}
	if !strings.HasPrefix(status, "407 ") {
		t.Errorf("another program of this host got %q from the proxy, want 407", status)
	}
	u, err := url.Parse(f.read("login"))
	if err != nil {
		t.Fatal(err)
	}
	token, _ := u.User.Password()
	if len(token) < 20 {
		t.Fatalf("the login is %q, which can be guessed", f.read("login"))
	}
	same(t, "dials", f.dials(res.RunID), []string{"1 " + named.host()})
	for _, name := range []string{"", "-wal"} {
		if b, err := os.ReadFile(f.store.Path() + name); err == nil && strings.Contains(string(b), token) {
			t.Errorf("the store (%q) holds the token", name)
		}
	}
	if text := fmt.Sprintf("%+v %+v", m.Requests(), f.seen.all); strings.Contains(text, token) {
		t.Error("the model or a watcher was shown the token")
	}
}

func TestTheModelIsToldHowFarTheNetworkIsHeld(t *testing.T) {
	for _, tc := range []struct {
		name string
		pol  policy.Policy
		want map[sandbox.EgressScope]string
	}{
		{"hosts are named", open.Layer("net").AllowNet("docs.example"), map[sandbox.EgressScope]string{
			sandbox.EgressExact: "permitted hosts through the run's proxy", sandbox.EgressPort: "only through the run's proxy", sandbox.EgressAdvisory: "advisory",
		}},
		{"no rule", open, map[sandbox.EgressScope]string{sandbox.EgressNone: "no network", sandbox.EgressOpen: "the network is open"}},
	} {
		f := newFixture(t)
		f.host.Policy = tc.pol
		m := f.script(scripted.Say("done"))
		f.must(trace.Finished)
		system := strings.Join(m.Requests()[0].System, "\n")
		ok := false
		for _, words := range tc.want {
			ok = ok || strings.Contains(system, words)
		}
		if !ok {
			t.Errorf("%s: the system block says none of %v:\n%s", tc.name, tc.want, system)
		}
	}
}

func TestACommandThatIgnoresTheProxyReachesNothing(t *testing.T) {
	named, other := newSite(t), newSite(t)
	f := networked(t, named.host())
	host, err := sandbox.Probe(t.Context())
	if err != nil || !host.Rung().DeniesEgress() {
		t.Skipf("this host cannot refuse the network: %v", err)
	}
	m := f.script(client(other.URL, true), scripted.Say("done"))
	res := f.must(trace.Finished)
	contains(t, "the results", resultsOf(m), "not reached")
	if other.hits.Load() != 0 || len(f.dials(res.RunID)) != 0 {
		t.Errorf("%d requests came, dials %v", other.hits.Load(), f.dials(res.RunID))
	}
}

func TestWithoutARuleThereIsNoProxyAndNoNetwork(t *testing.T) {
	other := newSite(t)
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	t.Setenv("NO_PROXY", "*")
	f := newFixture(t)
	f.host.Policy = open.Layer("net").AllowExec("env *", "env")
	m := f.script(client(other.URL, true), command("env"), scripted.Say("done"))
	f.must(trace.Finished)
	results := resultsOf(m)
	if strings.Contains(results, "http_proxy=") || strings.Contains(results, "HTTP_PROXY=") {
		t.Errorf("a proxy is named: %s", results)
	}
	if host, err := sandbox.Probe(t.Context()); err == nil && host.Rung().DeniesEgress() && other.hits.Load() != 0 {
		t.Error("the network was reached")
	}
}

// TestWhichPolicyGivesWhichNetwork looks at what commands are given before
// anything runs.
func TestWhichPolicyGivesWhichNetwork(t *testing.T) {
	for _, tc := range []struct {
		name        string
		pol         policy.Policy
		change      func(*task.Contract)
		open, proxy bool
	}{
		{"no rule, denied by default", policy.Default(), nil, false, false},
		{"no rule, allowed by default", policy.Permissive(), nil, true, false},
		{"a host is allowed", policy.Default().Layer("a").AllowNet("docs.example"), nil, false, true},
		{"a host is denied", policy.Permissive().Layer("a").DenyNet("evil.test"), nil, false, true},
		{"a host is asked about", policy.Default().Layer("a").AskNet("x.test"), nil, false, true},
		{"a flag of the contract widens nothing", policy.Default(), func(c *task.Contract) { c.Sandbox.Egress.Open = true }, false, false},
		{"commands are not contained", policy.Default().Layer("a").AllowNet("docs.example"), func(c *task.Contract) { c.Sandbox.Mode = sandbox.FullAccess }, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.host.Policy = tc.pol
			f.host.Provider = &endpoints{f.host.Provider}
			c := f.contract()
			if tc.change != nil {
				tc.change(&c)
			}
			d, err := newDrive(t.Context(), f.host.withDefaults(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer d.close()
			if open := d.gateProfile().Egress.Open; open != (tc.open || c.Sandbox.Egress.Open) {
				t.Errorf("the gate's network is open: %v", open)
			}
			if e := d.profile.Egress; e.Open != tc.open || e.Proxy.IsValid() != tc.proxy {
				t.Errorf("egress %+v, want open %v, proxy %v", e, tc.open, tc.proxy)
			}
		})
	}
}

// endpoints is a provider that dials somewhere: that is not for commands to have.
type endpoints struct{ provider.Provider }

func (e *endpoints) Endpoints() []string { return []string{"https://model.example/v1"} }

func TestANarrowerPolicyHoldsForTheNextDial(t *testing.T) {
	named := newSite(t)
	f := networked(t, named.host())
	f.host.Approver = approve.ApproverFunc(func(context.Context, approve.Request) (approve.Decision, error) {
		d := approve.Approve()
		d.Remember = []policy.Rule{{Act: policy.Net, Effect: policy.Deny, Pattern: named.host()}}
		return d, nil
	})
	m := f.script(client(named.URL, false), command("printf", "x"), client(named.URL, false), scripted.Say("done"))
	res := f.must(trace.Finished)
	contains(t, "the results", resultsOf(m), "answer 200 hello", "answer 403")
	if named.hits.Load() != 1 {
		t.Errorf("%d requests came, want 1", named.hits.Load())
	}
	if rows := f.netRows(res.RunID); len(rows) != 2 || !strings.Contains(rows[1], `3 refusal`) || !strings.Contains(rows[1], policy.LayerRemembered) {
		t.Errorf("rows %v", rows)
	}
}

// What a person approves later is carried out before the next step begins, and its
// dials follow the rules that were remembered, in the name of the step that asked.
func TestACommandThatIsApprovedLaterDialsUnderTheRulesOfTheRun(t *testing.T) {
	named, other := newSite(t), newSite(t)
	f := networked(t, named.host(), other.host())
	f.host.Policy = f.host.Policy.Layer("ask").AskExec("env *")
	deny := []policy.Rule{{Act: policy.Net, Effect: policy.Deny, Pattern: other.host()}}
	f.host.Approver = approve.ApproverFunc(func(_ context.Context, r approve.Request) (approve.Decision, error) {
		if r.Step == 1 {
			return approve.Approve(deny...), nil
		}
		return approve.Defer(), nil
	})
	f.script(client(named.URL, false), client(other.URL, false))
	res := f.must(trace.AwaitingApproval)
	m := f.script(scripted.Say("done"))
	if end, err := f.resume(res.RunID, approving(res, approve.Approve())); err != nil || end.Outcome.Kind != trace.Finished {
		t.Fatalf("%s, %v", end.Outcome, err)
	}
	contains(t, "the results", resultsOf(m), "answer 200 hello", "answer 403 the harness refused "+other.host())
	if named.hits.Load() != 1 || other.hits.Load() != 0 {
		t.Errorf("%d and %d requests came, want 1 and 0", named.hits.Load(), other.hits.Load())
	}
	same(t, "dials", f.dials(res.RunID), []string{"1 " + named.host(), "2 " + other.host()})
}

func TestTheDialsOfTheLastStepAreRecorded(t *testing.T) {
	named := newSite(t)
	f := networked(t, named.host())
	f.script(client(named.URL, false))
	res := f.must(trace.StepCapReached, withSteps(1))
	same(t, "dials", f.dials(res.RunID), []string{"1 " + named.host()})
	kinds := f.seen.kinds()
	if f.seen.count("dialed") != 1 || kinds[len(kinds)-1] != "finished" {
		t.Errorf("events %v", kinds)
	}
}

func TestTheFloorHoldsForANameThatLeadsHome(t *testing.T) {
	named := newSite(t)
	f := networked(t, "localhost:*", "127.0.0.1:*")
	t.Setenv(allowLocalEnv, "")
	_, port, _ := net.SplitHostPort(named.host())
	m := f.script(client("http://localhost:"+port, false), client(named.URL, false), scripted.Say("done"))
	res := f.must(trace.Finished)
	if named.hits.Load() != 0 {
		t.Error("a command reached a server of this machine")
	}
	contains(t, "the results", resultsOf(m), "answer 403")
	for _, row := range f.netRows(res.RunID) {
		if !strings.Contains(row, "refusal") || !strings.Contains(row, policy.LayerFloor) {
			t.Errorf("row %s", row)
		}
	}
}

func TestALeftRunningCommandUsesTheProxyToo(t *testing.T) {
	named := newSite(t)
	f := networked(t, named.host())
	f.host.Policy = f.host.Policy.Layer("more").AllowExec("touch *")
	line := fmt.Sprintf("env %s=%s %s -test.run=^TestClientOfEgress$ > out; touch over", clientEnv, named.URL, os.Args[0])
	f.script(startCall(strings.ReplaceAll(strings.ReplaceAll(line, "^", `'^'`), "$ >", `'$' >`)), until("over"), scripted.Say("done"))
	res := f.must(trace.Finished)
	if named.hits.Load() != 1 || len(f.dials(res.RunID)) != 1 {
		t.Errorf("%d requests came, dials %v; it said %s", named.hits.Load(), f.dials(res.RunID), f.read("out"))
	}
}

// A boundary that confines reading needs to know where toolchains start from; the gate
// is inside the same one, and the caller's contract stays as it was.
func TestPlacesOfProgramsAreNamedWhereReadingIsConfined(t *testing.T) {
	home := t.TempDir()
	t.Setenv("JAVA_HOME", home)
	for _, confined := range []bool{true, false} {
		f := newFixture(t)
		own := []string{"/opt/tool"}
		d, err := newDrive(t.Context(), f.host.withDefaults(), f.contract(func(c *task.Contract) {
			c.Sandbox.AccessConfinement, c.Sandbox.Programs = confined, own
			c.GateSandbox = &sandbox.Profile{AccessConfinement: confined}
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		if got := slices.Contains(d.profile.Programs, home); got != confined || d.profile.Programs[0] != own[0] {
			t.Errorf("confined %v: the run has %q", confined, d.profile.Programs)
		}
		if got := d.gateProfile().Programs; !slices.Equal(got, d.profile.Programs) {
			t.Errorf("confined %v: the gate has %q", confined, got)
		}
		if len(d.contract.Sandbox.Programs) != 1 {
			t.Errorf("the contract has %q", d.contract.Sandbox.Programs)
		}
	}
}

// A command asks its proxy for nothing as often as it likes. What is let through is
// on record all the same.
func TestAFloodOfRefusedDialsIsCounted(t *testing.T) {
	f := newFixture(t)
	var e egress
	e.follow(f.host.Policy, 1)
	for i := range 3 * maxRefusals {
		e.report(proxy.Dial{Target: fmt.Sprintf("h%d.test:80", i), Host: fmt.Sprintf("h%d.test", i), Port: 80})
	}
	e.report(proxy.Dial{Target: "let.test:80", Host: "let.test", Port: 80, Allowed: true})
	if n := len(e.dials); n != maxRefusals+1 || !e.dials[n-1].Allowed {
		t.Fatalf("%d dials are kept", n)
	}

	named, other := newSite(t), newSite(t)
	f = networked(t, named.host())
	f.host.Policy = f.host.Policy.Layer("curl").AllowExec("curl *")
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	f.script(command("curl", "-s", "-o", "/dev/null", fmt.Sprintf("%s/[1-%d]", other.URL, maxRefusals+7)), command("curl", "-s", named.URL), scripted.Say("done"))
	res := f.must(trace.Finished)
	if got := f.dials(res.RunID); len(got) != maxRefusals+1 || got[maxRefusals] != "2 "+named.host() {
		t.Errorf("%d dials are on record, the last %q", len(got), got[len(got)-1])
	}
	events, err := store.Collect(f.store.SandboxEvents(context.Background(), res.RunID))
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(events, func(e store.SandboxEvent) bool { return e.Kind == "dials_refused" }); i < 0 || events[i].Detail != "7 more" || events[i].Step != 1 {
		t.Errorf("the rest is not counted: %d", i)
	}
}
