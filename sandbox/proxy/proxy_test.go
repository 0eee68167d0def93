package proxy

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a proxy with a resolver and a server of its own.
type world struct {
	proxy  *Proxy
	server *httptest.Server
	port   string
	hits   atomic.Int32

	mu    sync.Mutex
	pol   policy.Policy
	dials []Dial
	names map[string]string // what the resolver answers; comma-separated
	asked []string          // what it was asked
}

func denyAll() policy.Policy {
	return policy.Permissive().WithDefaults(policy.Defaults{Read: policy.Allow, Write: policy.Allow, Exec: policy.Allow, Net: policy.Deny})
}

func newWorld(t *testing.T, pol policy.Policy, change func(*Config)) *world {
	t.Helper()
	w := &world{names: map[string]string{}}
	w.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.hits.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(rw, "host=%s uri=%s proxy=%q conn=%q body=%s", r.Host, r.RequestURI, r.Header.Get("Proxy-Authorization"), r.Header.Get("Connection"), body)
	}))
	t.Cleanup(w.server.Close)
	_, w.port, _ = net.SplitHostPort(w.server.Listener.Addr().String())
	// The server is on this machine, and most tests reach it by a name.
	w.pol = pol.Layer("server").AllowNet(w.server.Listener.Addr().String())
	cfg := Config{
		AllowLocal: true,
		Policy: func() policy.Policy {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.pol
		},
		Report: func(d Dial) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.dials = append(w.dials, d)
		},
		Resolve: func(_ context.Context, host string) ([]netip.Addr, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.asked = append(w.asked, host)
			var out []netip.Addr
			for a := range strings.SplitSeq(w.names[host], ",") {
				if a != "" {
					out = append(out, netip.MustParseAddr(a))
				}
			}
			if len(out) == 0 {
				return nil, errors.New("no such host")
			}
			return out, nil
		},
	}
	if change != nil {
		change(&cfg)
	}
	p, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.proxy = p
	t.Cleanup(func() { _ = p.Close() })
	return w
}

// say sends text as it is and returns all that comes back.
func (w *world) say(t *testing.T, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", w.proxy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	return string(b)
}

// connect opens a tunnel, asks the server through it, and returns the answer.
func (w *world) connect(t *testing.T, target string) string {
	return w.say(t, "CONNECT "+target+" HTTP/1.1\r\nHost: "+target+"\r\n\r\nGET /in HTTP/1.1\r\nHost: inside\r\nConnection: close\r\n\r\n")
}

func TestOnlyOneReadingOfAHost(t *testing.T) {
	allowed := denyAll().Layer("app").AllowNet("docs.example").DenyNet("evil.test")
	open := policy.Permissive().Layer("app").DenyNet("evil.test")
	for _, tc := range []struct {
		name   string
		pol    policy.Policy
		text   func(port string) string
		status string
		out    bool
	}{
		{"the plain name", allowed, connectTo("docs.example:PORT"), "200", true},
		{"in capitals with a closing dot", allowed, connectTo("DOCS.EXAMPLE.:PORT"), "200", true},
		{"as a prefix of another", allowed, connectTo("docs.example.evil.test:PORT"), "403", false},
		{"user name and host", allowed, connectTo("docs.example@evil.test:PORT"), "400", false},
		{"NUL", allowed, connectTo("evil.test\x00.docs.example:PORT"), "403", false},
		{"percent", allowed, connectTo("evil.test%00.docs.example:PORT"), "403", false},
		{"space", allowed, connectTo("docs.example .evil.test:PORT"), "400", false},
		{"port with a zero in front", allowed, connectTo("docs.example:0443"), "403", false},
		{"no port", allowed, connectTo("docs.example"), "403", false},
		{"empty port", allowed, connectTo("docs.example:"), "403", false},
		{"port out of range", allowed, connectTo("docs.example:65536"), "403", false},
		{"port zero", allowed, connectTo("docs.example:0"), "403", false},
		{"a name of 300 characters", allowed, connectTo(strings.Repeat("a.", 150) + "docs.example:PORT"), "403", false},
		{"default deny", allowed, connectTo("other.example:PORT"), "403", false},
		{"denied by name", open, connectTo("evil.test:PORT"), "403", false},
		{"denied in capitals", open, connectTo("EVIL.TEST:PORT"), "403", false},
		{"denied with a closing dot", open, connectTo("evil.test.:PORT"), "403", false},
		{"denied with both", open, connectTo("EVIL.test.:PORT"), "403", false},
		{"an address as a hexadecimal number", open, connectTo("0x7f.1:PORT"), "403", false},
		{"an address as a number", open, connectTo("2130706433:PORT"), "403", false},
		{"an address with a zone", open, connectTo("[fe80::1%25eth0]:PORT"), "403", false},
		{"a path in CONNECT", open, connectTo("docs.example:PORT/x"), "400", false},
		{"absolute form", allowed, get("http://docs.example:PORT/x?y"), "200", true},
		{"absolute form in capitals", allowed, get("HTTP://DOCS.example.:PORT/x"), "200", true},
		{"absolute form with a user name", allowed, get("http://docs.example@evil.test:PORT/"), "403", false},
		{"absolute form with a backslash", allowed, get(`http://evil.test\@docs.example:PORT/`), "400", false},
		{"https in absolute form", allowed, get("https://docs.example:PORT/"), "400", false},
		{"origin form", allowed, get("/x"), "400", false},
		{"another scheme", allowed, get("ftp://docs.example:PORT/"), "400", false},
		{"SOCKS", allowed, raw("\x05\x01\x00"), "400", false},
		{"TLS", allowed, raw("\x16\x03\x01\x02\x00"), "400", false},
		{"HTTP/2", allowed, raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "400", false},
		{"an empty line first", allowed, raw("\r\nCONNECT docs.example:PORT HTTP/1.1\r\n\r\n"), "400", false},
		{"a head that is too long", allowed, raw("GET http://docs.example:PORT/ HTTP/1.1\r\nX: " + strings.Repeat("x", 9<<10) + "\r\n\r\n"), "400", false},
		{"a head of too many lines", allowed, raw("GET http://docs.example:PORT/ HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", 2<<10) + "\r\n"), "400", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, tc.pol, nil)
			w.names = map[string]string{"docs.example": "127.0.0.1", "evil.test": "127.0.0.1", "docs.example.evil.test": "127.0.0.1", "other.example": "127.0.0.1"}
			got := w.say(t, tc.text(w.port))
			if !strings.HasPrefix(got, "HTTP/1.1 "+tc.status) && !strings.HasPrefix(got, "HTTP/1.0 "+tc.status) {
				t.Errorf("answer %q, want %s", got, tc.status)
			}
			if out := w.hits.Load() > 0; out != tc.out {
				t.Errorf("reached the server: %v, want %v", out, tc.out)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, d := range w.dials {
				if d.Allowed != tc.out {
					t.Errorf("recorded %+v", d)
				}
			}
			if (tc.status == "403" || tc.out) && len(w.dials) != 1 {
				t.Errorf("recorded %v, want one decision", w.dials)
			}
			if !tc.out && len(w.asked) > 0 {
				t.Errorf("resolved %v although nothing was to be dialled", w.asked)
			}
		})
	}
}

func connectTo(target string) func(string) string {
	return func(port string) string {
		target := strings.ReplaceAll(target, "PORT", port)
		return "CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\nGET /in HTTP/1.1\r\nHost: inside\r\nConnection: close\r\n\r\n"
	}
}

func get(url string) func(string) string {
	return func(port string) string {
		return "GET " + strings.ReplaceAll(url, "PORT", port) + " HTTP/1.1\r\nHost: liar.test\r\nProxy-Authorization: Basic x\r\nConnection: keep-alive, X-Drop\r\nX-Drop: 1\r\n\r\n"
	}
}

func raw(text string) func(string) string {
	return func(port string) string { return strings.ReplaceAll(text, "PORT", port) }
}

func TestTheServerSeesTheJudgedHostAndNothingOfTheProxy(t *testing.T) {
	w := newWorld(t, denyAll().Layer("app").AllowNet("docs.example"), nil)
	w.names["docs.example"] = "127.0.0.1"
	got := w.say(t, "POST http://user:pw@DOCS.example:"+w.port+"/p?q HTTP/1.1\r\nHost: liar.test\r\nProxy-Authorization: Basic x\r\nProxy-Connection: keep-alive\r\nContent-Length: 4\r\n\r\nbody")
	want := fmt.Sprintf("host=docs.example:%s uri=/p?q proxy=\"\" conn=\"close\" body=body", w.port)
	if !strings.Contains(got, want) || !strings.Contains(got, "Connection: close") {
		t.Errorf("got %q, want %q", got, want)
	}
	if w.hits.Load() != 1 {
		t.Errorf("%d requests, want one", w.hits.Load())
	}
}

func TestASecondRequestOnTheConnectionIsNotServed(t *testing.T) {
	w := newWorld(t, denyAll().Layer("app").AllowNet("docs.example"), nil)
	w.names["docs.example"] = "127.0.0.1"
	one := "GET http://docs.example:" + w.port + "/1 HTTP/1.1\r\nHost: x\r\n\r\n"
	got := w.say(t, one+"GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n"+one)
	if n := strings.Count(got, "HTTP/1.1 "); n != 1 || w.hits.Load() != 1 {
		t.Errorf("%d answers and %d requests: %q", n, w.hits.Load(), got)
	}
}

func TestARefusalNamesTargetRuleAndLayer(t *testing.T) {
	w := newWorld(t, policy.Permissive().Layer("team").DenyNet("*.evil.test"), nil)
	got := w.connect(t, "www.EVIL.test:443")
	for _, want := range []string{"403", "www.evil.test:443", `"*.evil.test"`, `"team"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing from %q", want, got)
		}
	}
	if d := w.dials[0]; d.Host != "www.evil.test" || d.Port != 443 || d.Allowed || d.Rule != "*.evil.test" || d.Layer != "team" {
		t.Errorf("recorded %+v", d)
	}
}

func TestAskIsARefusalHere(t *testing.T) {
	w := newWorld(t, policy.Permissive().Layer("team").AskNet("docs.example"), nil)
	w.names["docs.example"] = "127.0.0.1"
	if got := w.connect(t, "docs.example:"+w.port); !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, "asks") || w.hits.Load() != 0 {
		t.Errorf("got %q", got)
	}
}

func TestAPermittedNameDoesNotLeadToAForbiddenAddress(t *testing.T) {
	for _, tc := range []struct {
		name  string
		addrs string
		local bool
		deny  string
		out   bool
	}{
		{"metadata", "169.254.169.254", true, "", false},
		{"link-local", "fe80::1", true, "", false},
		{"mapped metadata", "::ffff:169.254.169.254", true, "", false},
		{"loopback", "127.0.0.1", false, "", false},
		{"loopback in the other protocol", "::1", false, "", false},
		{"private", "10.0.0.5", false, "", false},
		{"unspecified", "0.0.0.0", false, "", false},
		{"an address that a rule denies", "127.0.0.1", true, "127.0.0.1", false},
		{"loopback when local is permitted", "127.0.0.1", true, "", true},
		{"only the permitted one of two", "169.254.169.254,127.0.0.1", true, "", true},
		{"another address of this machine", "127.0.0.2", true, "", false},
		{"this machine inside the other protocol", "64:ff9b::7f00:1", true, "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pol := denyAll().Layer("app").AllowNet("docs.example")
			if tc.deny != "" {
				pol = pol.DenyNet(tc.deny)
			}
			w := newWorld(t, pol, func(c *Config) { c.AllowLocal = tc.local })
			w.names["docs.example"] = tc.addrs
			got := w.connect(t, "docs.example:"+w.port)
			if out := w.hits.Load() == 1; out != tc.out || strings.HasPrefix(got, "HTTP/1.1 200") != tc.out {
				t.Errorf("reached: %v, want %v; %q", out, tc.out, got)
			}
			if len(w.asked) != 1 {
				t.Errorf("resolved %v, want one look-up", w.asked)
			}
			if d := w.dials; len(d) != 1 || d[0].Allowed != tc.out {
				t.Errorf("recorded %+v", d)
			}
		})
	}
}

// Where local addresses are let through, a name that somebody else serves still does
// not lead to this machine because the name is allowed: a rule must say the address.
func TestANameLeadsToThisMachineOnlyByARuleForTheAddress(t *testing.T) {
	for _, tc := range []struct {
		name, target, addr string
		rules              func(port string) []string
		out                bool
	}{
		{"the address with its port", "docs.example", "127.0.0.1", func(port string) []string { return []string{"docs.example", "127.0.0.1:" + port} }, true},
		{"the address", "docs.example", "127.0.0.1", func(string) []string { return []string{"docs.example", "127.0.0.1"} }, true},
		{"the address, written the other way", "docs.example", "::ffff:127.0.0.1", func(string) []string { return []string{"docs.example", "127.0.0.1"} }, true},
		{"only the name", "docs.example", "127.0.0.1", func(string) []string { return []string{"docs.example"} }, false},
		{"everything", "docs.example", "127.0.0.1", func(string) []string { return []string{"*"} }, false},
		{"a pattern of addresses", "docs.example", "127.0.0.1", func(string) []string { return []string{"docs.example", "127.0.0.*"} }, false},
		{"the address with another port", "docs.example", "127.0.0.1", func(string) []string { return []string{"docs.example", "127.0.0.1:1"} }, false},
		{"another address", "docs.example", "127.0.0.1", func(string) []string { return []string{"docs.example", "127.0.0.2"} }, false},
		{"unspecified", "docs.example", "0.0.0.0", func(string) []string { return []string{"docs.example", "127.0.0.1"} }, false},
		{"metadata has no rule that helps", "docs.example", "169.254.169.254", func(string) []string { return []string{"docs.example", "169.254.169.254"} }, false},
		{"nor has link-local", "docs.example", "fe80::1", func(string) []string { return []string{"docs.example", "[fe80::1]"} }, false},
		{"a name that is this machine's by definition", "localhost", "127.0.0.1", func(string) []string { return []string{"localhost"} }, true},
		{"an address in place of a name", "127.0.0.1", "", func(string) []string { return []string{"127.0.0.?"} }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, denyAll(), nil)
			w.pol = denyAll().Layer("app").AllowNet(tc.rules(w.port)...)
			w.names[tc.target] = tc.addr
			got := w.connect(t, tc.target+":"+w.port)
			if out := w.hits.Load() == 1; out != tc.out || strings.HasPrefix(got, "HTTP/1.1 200") != tc.out {
				t.Errorf("reached: %v, want %v; %q", out, tc.out, got)
			}
			if len(w.asked) > 1 {
				t.Errorf("resolved %v, want at most one look-up", w.asked)
			}
			if d := w.dials; len(d) != 1 || d[0].Allowed != tc.out || !tc.out && d[0].Layer != policy.LayerFloor {
				t.Errorf("recorded %+v", d)
			}
		})
	}
}

func TestUnderThePermissivePolicyTheFloorHolds(t *testing.T) {
	w := newWorld(t, policy.Permissive(), func(c *Config) { c.AllowLocal = false })
	for _, target := range []string{"127.0.0.1:" + w.port, "localhost:" + w.port, "[::1]:" + w.port, "169.254.169.254:80", "metadata.google.internal:80", "10.0.0.1:80"} {
		if got := w.connect(t, target); !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, policy.LayerFloor) {
			t.Errorf("%s: got %q", target, got)
		}
	}
	if w.hits.Load() != 0 {
		t.Error("the server was reached")
	}
}

func TestAPolicyThatChangesHoldsFromTheNextDial(t *testing.T) {
	w := newWorld(t, denyAll().Layer("app").AllowNet("docs.example"), nil)
	w.names["docs.example"] = "127.0.0.1"
	if got := w.connect(t, "docs.example:"+w.port); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Fatalf("got %q", got)
	}
	w.mu.Lock()
	w.pol = denyAll()
	w.mu.Unlock()
	if got := w.connect(t, "docs.example:"+w.port); !strings.HasPrefix(got, "HTTP/1.1 403") {
		t.Errorf("got %q after the policy was narrowed", got)
	}
}

func TestUpstreamFailuresAreTold(t *testing.T) {
	w := newWorld(t, policy.Permissive(), nil)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	_ = closed.Close()
	if got := w.connect(t, addr); !strings.HasPrefix(got, "HTTP/1.1 502") {
		t.Errorf("nobody listens: got %q", got)
	}
	if got := w.connect(t, "unknown.example:80"); !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, "does not resolve") {
		t.Errorf("unknown name: got %q", got)
	}
}

func TestTunnelsAreRawAndEndWithTheProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	w := newWorld(t, policy.Permissive(), nil)
	c, err := net.Dial("tcp", w.proxy.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\n\r\n\x00\x01binary", l.Addr())
	in := bufio.NewReader(c)
	status, err := in.ReadString('\n')
	if err != nil || !strings.Contains(status, "200") {
		t.Fatalf("%q, %v", status, err)
	}
	_, _ = in.ReadString('\n')
	got := make([]byte, len("\x00\x01binary"))
	if _, err := io.ReadFull(in, got); err != nil || string(got) != "\x00\x01binary" {
		t.Fatalf("got %q, %v", got, err)
	}
	if err := w.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := in.Read(got); err == nil {
		t.Errorf("the tunnel still gave %q", got[:n])
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("the tunnel outlives the proxy")
	}
	if c, err := net.Dial("tcp", w.proxy.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
	if err := w.proxy.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

func TestTheProxyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p, err := Start(ctx, Config{Policy: func() policy.Policy { return policy.Policy{} }})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = p.Close()
	if c, err := net.Dial("tcp", p.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the port is still open")
	}
}

func TestAPolicyIsNeeded(t *testing.T) {
	if _, err := Start(t.Context(), Config{}); err == nil {
		t.Error("a proxy without a policy started")
	}
}

// Who does not know the login learns nothing, reaches nothing and leaves no record.
func TestOnlyThoseWhoKnowTheLoginAreServed(t *testing.T) {
	basic := func(login string) string {
		return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(login)) + "\r\n"
	}
	for _, tc := range []struct {
		name, header string
		in           bool
	}{
		{"the login", basic("run:s3cret"), true},
		{"with another name for the header and the scheme", "proxy-authorization: BASIC " + base64.StdEncoding.EncodeToString([]byte("run:s3cret")) + "\r\n", true},
		{"none", "", false},
		{"another token", basic("run:s3creT"), false},
		{"the beginning of the token", basic("run:s3cre"), false},
		{"no token", basic("run:"), false},
		{"another user", basic("root:s3cret"), false},
		{"twice", basic("run:s3cret") + basic("run:s3cret"), false},
		{"another scheme", "Proxy-Authorization: Bearer s3cret\r\n", false},
		{"not encoded", "Proxy-Authorization: Basic run:s3cret\r\n", false},
		{"for the server", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("run:s3cret")) + "\r\n", false},
		{"under a line that is none", "nonsense\r\n" + basic("run:s3cret"), false},
	} {
		for how, text := range map[string]string{
			"tunnel":        "CONNECT docs.example:PORT HTTP/1.1\r\nHost: x\r\n" + tc.header + "\r\nGET /in HTTP/1.1\r\nHost: inside\r\nConnection: close\r\n\r\n",
			"absolute form": "GET http://docs.example:PORT/ HTTP/1.1\r\nHost: x\r\n" + tc.header + "\r\n",
		} {
			t.Run(tc.name+"/"+how, func(t *testing.T) {
				w := newWorld(t, denyAll().Layer("app").AllowNet("docs.example"), func(c *Config) { c.User, c.Token = "run", "s3cret" })
				w.names["docs.example"] = "127.0.0.1"
				got := w.say(t, strings.ReplaceAll(text, "PORT", w.port))
				status := "HTTP/1.1 407 "
				if tc.in {
					status = "HTTP/1.1 200 "
				}
				if !strings.HasPrefix(got, status) || (w.hits.Load() == 1) != tc.in {
					t.Errorf("%d requests, answer %q, want %s", w.hits.Load(), got, status)
				}
				if !tc.in && (!strings.Contains(got, "\r\nProxy-Authenticate: Basic ") || strings.Contains(got, "docs.example")) {
					t.Errorf("answer %q, want one that asks for the login and says no more", got)
				}
				if (len(w.dials) == 1) != tc.in || (len(w.asked) == 1) != tc.in {
					t.Errorf("recorded %v, resolved %v", w.dials, w.asked)
				}
				if strings.Contains(got, "s3cret") || strings.Contains(got, "cnVu") {
					t.Errorf("the login was handed on: %q", got)
				}
			})
		}
	}
}

func TestManyClientsWaitForASlotAndAreServed(t *testing.T) {
	w := newWorld(t, policy.Permissive(), nil)
	var wg sync.WaitGroup
	var ok atomic.Int32
	for range 300 {
		wg.Go(func() {
			c, err := net.Dial("tcp", w.proxy.Addr().String())
			if err != nil {
				return
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", w.server.Listener.Addr())
			if b, err := io.ReadAll(c); err == nil && strings.Contains(string(b), "200 OK") {
				ok.Add(1)
			}
		})
	}
	wg.Wait()
	if ok.Load() != 300 {
		t.Errorf("%d of 300 clients were served", ok.Load())
	}
}

func TestRunsHaveProxiesOfTheirOwn(t *testing.T) {
	a, b := newWorld(t, policy.Permissive(), nil), newWorld(t, denyAll(), nil)
	if a.proxy.Addr() == b.proxy.Addr() {
		t.Fatal("one port for two runs")
	}
	if got := b.connect(t, "127.0.0.1:"+a.port); !strings.HasPrefix(got, "HTTP/1.1 403") {
		t.Errorf("the second run got %q", got)
	}
}

func FuzzHead(f *testing.F) {
	for _, s := range []string{"CONNECT a:1 HTTP/1.1\r\n\r\n", "GET http://a/ HTTP/1.1\r\nX: y\r\n\r\n", "\x05\x01\x00", "\r\n", "GET  / HTTP/1.1\n\n", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		head, err := readHead(bufio.NewReaderSize(strings.NewReader(string(b)), MaxHead))
		if err != nil {
			return
		}
		if len(head) > MaxHead || !strings.HasPrefix(string(b), string(head)) {
			t.Fatalf("head %q of %q", head, b)
		}
		method, target, err := requestLine(head)
		if err == nil && (method == "" || target == "" || strings.ContainsAny(target, " \r\n")) {
			t.Fatalf("read %q %q from %q", method, target, head)
		}
	})
}

// speaking is a server that answers every request with the same bytes.
func speaking(t *testing.T, answer string) (target string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.WriteString(c, answer)
			}
			_ = c.Close()
		}
	})
	t.Cleanup(func() { _ = l.Close(); served.Wait() })
	return l.Addr().String()
}

func TestAnInterimAnswerIsNotTakenForTheAnswer(t *testing.T) {
	const hints = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n"
	const final = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody"
	for _, tc := range []struct{ name, answer, want string }{
		{"none", final, "200 OK"},
		{"one", hints + final, "200 OK"},
		{"of both kinds", "HTTP/1.1 100 Continue\r\n\r\n" + hints + final, "200 OK"},
		{"as many as may be", strings.Repeat(hints, maxInterim) + final, "200 OK"},
		{"too many", strings.Repeat(hints, maxInterim+1) + final, "502 Bad Gateway"},
		{"and nothing", hints, "502 Bad Gateway"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, policy.Permissive(), nil)
			got := w.say(t, get("http://"+speaking(t, tc.answer)+"/")(""))
			if !strings.HasPrefix(got, "HTTP/1.1 "+tc.want) || strings.HasSuffix(got, "body") != (tc.want == "200 OK") {
				t.Errorf("got %q, want %s", got, tc.want)
			}
		})
	}
}
