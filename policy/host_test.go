package policy

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNetTargets(t *testing.T) {
	for _, tc := range []struct{ url, want string }{
		{"https://example.com/", "example.com:443"},
		{"http://example.com/path?q#f", "example.com:80"},
		{"HTTPS://Example.COM", "example.com:443"},
		{"ws://example.com:8080/x", "example.com:8080"},
		{"wss://example.com", "example.com:443"},
		{"https://user:pw@example.com/", "example.com:443"},
		{"https://good.com@evil.com/", "evil.com:443"},
		{"https://a@b@evil.com/", "evil.com:443"},
		{"https://evil.com?@good.com/", "evil.com:443"},
		{"https://evil.com#@good.com/", "evil.com:443"},
		{"https://EVIL.com./", "evil.com:443"},
		{"https://evil.com:8443/", "evil.com:8443"},
		{"http://192.0.2.7/", "192.0.2.7:80"},
		{"http://[::1]:80/", "[::1]:80"},
		{"http://[0:0:0:0:0:0:0:1]/", "[::1]:80"},
		{"http://[2001:DB8::1]/", "[2001:db8::1]:80"},
		{"http://[::ffff:127.0.0.1]/", "127.0.0.1:80"},
		{"https://bücher.example/", "xn--bcher-kva.example:443"},
		{"https://xn--bcher-kva.example/", "xn--bcher-kva.example:443"},
		{"https://example。com/", "example.com:443"},
		{"https://еxample.com/", "xn--xample-2of.com:443"}, // Cyrillic е
		{"https://my_service:8080/", "my_service:8080"},
		{"https://docs.example.evil.test/", "docs.example.evil.test:443"},

		{"https://good.com\\@evil.com/", ""},
		{"http://127.0.0.1:11434\\@good.com/v1", ""},
		{"https://user@/x", ""},
		{"https://[]/x", ""},
		{"https://[::1]:/x", ""},
		{"https://[::1]evil.com/x", ""},
		{"https://[/x", ""},
		{"https://host:/x", ""},
		{"https://host:80:443/", ""},
		{"https://host:abc/", ""},
		{"https://host:0/", ""},
		{"https://host:65536/", ""},
		{"https://host:0443/", ""},
		{"https://host:+80/", ""},
		{"https://", ""},
		{"file:///etc/passwd", ""},
		{"not a url", ""},
		{"javascript:alert(1)", ""},
		{"view-source:https://good.com/", ""},
		{"chrome://settings", ""},
		{"data:text/html,x", ""},
		{"http://127.1/", ""},
		{"http://2130706433/", ""},
		{"http://2852039166/", ""},
		{"http://0x7f.1/", ""},
		{"http://0x7f000001/", ""},
		{"http://017700000001/", ""},
		{"http://127.0.0.01/", ""},
		{"http://1.2.3.4.5/", ""},
		{"http://256.1.1.1/", ""},
		{"http://a.0x/", ""},
		{"http://[fe80::1%25eth0]/", ""},
		{"http://[fe80::1%eth0]/", ""},
		{"http://[127.0.0.1]/", ""},
		{"https://ex%61mple.com/", ""},
		{"https://evil.test%00.docs.example/", ""},
		{"https://evil.test\x00.docs.example/", ""},
		{"https://docs.example .evil.test/", ""},
		{"https://docs.example\n/", ""},
		{"https://a..b/", ""},
		{"https://.a/", ""},
		{"https://a../", ""},
		{"https://-a.com/", ""},
		{"https://a-.com/", ""},
		{"https://xn--a/", ""},
		{"https://" + strings.Repeat("a", 300) + "/", ""},
		{"https://" + strings.Repeat("a", 64) + ".com/", ""},
		{"https://" + strings.Repeat("a.", 130) + "com/", ""},
		{"https://*.example.com/", ""},
	} {
		t.Run(tc.url, func(t *testing.T) {
			got, ok := NetTarget(tc.url)
			if got != tc.want || ok != (tc.want != "") {
				t.Errorf("NetTarget(%q) = %q, %v, want %q", tc.url, got, ok, tc.want)
			}
		})
	}
}

func TestHosts(t *testing.T) {
	closed := Default().Layer("l").AllowNet("good.com", "API.good.com").DenyNet("evil.com")
	open := Permissive().Layer("l").DenyNet("evil.com")
	deny := func(globs ...string) Policy { return Permissive().Layer("l").DenyNet(globs...) }
	for _, tc := range []struct {
		name             string
		p                Policy
		target, resolved string
		want             Effect
		rule             string
	}{
		{"control: the allowed host", closed, "good.com:443", "", Allow, "good.com"},
		{"control: another host", closed, "other.com:443", "", Deny, ""},
		{"a host below the allowed one", closed, "good.com.evil.test:443", "", Deny, ""},
		{"an allowed host in another case and with a closing dot", closed, "GOOD.COM.", "", Allow, "good.com"},
		{"an allow that is not canonical never matches", closed, "api.good.com:443", "", Deny, ""},
		{"a denied host in another case", open, "EVIL.com:443", "", Deny, "evil.com"},
		{"a denied host with a closing dot", open, "evil.com.:443", "", Deny, "evil.com"},
		{"a denied host on another port", open, "evil.com:8443", "", Deny, "evil.com"},
		{"a denied host without a port", open, "evil.com", "", Deny, "evil.com"},
		{"a deny with a port is for that port", deny("evil.com:443"), "evil.com:80", "", Allow, ""},
		{"a deny with a port holds there", deny("evil.com:443"), "evil.com:443", "", Deny, "evil.com:443"},
		{"a deny in another case", deny("Evil.COM"), "evil.com:443", "", Deny, "Evil.COM"},
		{"a deny with a closing dot", deny("evil.com."), "evil.com:443", "", Deny, "evil.com."},
		{"a deny with a closing dot and a wildcard", deny("*.Evil.com."), "a.evil.com:443", "", Deny, "*.Evil.com."},
		{"a deny of a wildcard misses the domain itself", deny("*.example.com"), "example.com:443", "", Allow, ""},
		{"a deny of a bare suffix matches another domain too", deny("*example.com"), "evilexample.com:443", "", Deny, "*example.com"},
		{"a deny by its unicode name", deny("bücher.example"), "xn--bcher-kva.example:443", "", Deny, "bücher.example"},
		{"a deny by its ASCII name", deny("xn--bcher-kva.example"), "bücher.example:443", "", Deny, "xn--bcher-kva.example"},
		{"a deny by its unicode name below a wildcard", deny("*.bücher.example"), "a.xn--bcher-kva.example:443", "", Deny, "*.bücher.example"},
		{"a deny with fullwidth dots", deny("evil．com"), "evil.com:443", "", Deny, "evil．com"},
		{"a homograph is another name", deny("example.com"), "еxample.com:443", "", Allow, ""},
		{"a mapped address is the address", deny("127.0.0.1"), "[::ffff:127.0.0.1]:80", "", Deny, "127.0.0.1"},
		{"a deny of a mapped address is of the address", deny("[::ffff:127.0.0.1]"), "127.0.0.1:80", "", Deny, "[::ffff:127.0.0.1]"},
		{"a long spelling of an address in the rule", deny("[0:0:0:0:0:0:0:1]"), "[::1]:80", "", Deny, "[0:0:0:0:0:0:0:1]"},
		{"an address without brackets in the rule", deny("::1"), "[::1]:80", "", Deny, "::1"},
		{"a name that resolves to a denied address", deny("10.0.0.5"), "nice.com:443", "10.0.0.5", Deny, "10.0.0.5"},
		{"a name that resolves to a denied address and port", deny("10.0.0.5:443"), "nice.com:443", "10.0.0.5", Deny, "10.0.0.5:443"},
		{"a name that resolves to a denied IPv6 address", deny("[fd00::*]"), "nice.com:443", "fd00::7", Deny, "[fd00::*]"},
		{"what a name resolves to allows nothing", Default().Layer("l").AllowNet("10.0.0.5"), "nice.com:443", "10.0.0.5", Deny, ""},
		{"a target with no single reading under the permissive policy", Permissive(), "127.1:80", "", Deny, UncheckableHost},
		{"an empty target", Permissive(), "", "", Deny, UncheckableHost},
		{"an empty port", Permissive(), "host:", "", Deny, UncheckableHost},
		{"an address without brackets in the target", Permissive(), "::1", "", Deny, UncheckableHost},
		{"a resolved address that is none", Permissive(), "a.com:80", "0x7f.1", Deny, UncheckableHost},
		{"a blank in the name", Permissive(), "docs.example .evil.test", "", Deny, UncheckableHost},
		{"a NUL in the name", Permissive(), "evil.test\x00.docs.example:443", "", Deny, UncheckableHost},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.p.Check(Need{Act: Net, Target: tc.target, Resolved: tc.resolved})
			if got.Effect != tc.want || got.Rule != tc.rule || got.Matched != (tc.rule != "") {
				t.Errorf("Check(%q) = %+v, want %s by %q", tc.target, got, tc.want, tc.rule)
			}
		})
	}
}

func TestHostTargetIsASingleSpelling(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "B", ".", ":", "80", "0x7f", "127", "[", "]", "::1", "é", "xn--", "-", "_", "@", "%", "。", "1", "ffff"})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		got, ok := HostTarget(s)
		if !ok {
			if got != "" {
				t.Fatalf("HostTarget(%q) refuses and returns %q", s, got)
			}
			return
		}
		again, ok := HostTarget(got)
		if !ok || again != got {
			t.Fatalf("HostTarget(%q) = %q, and of that %q, %v", s, got, again, ok)
		}
		if got != strings.ToLower(got) || strings.ContainsAny(got, " \x00/\\@%") {
			t.Fatalf("HostTarget(%q) = %q is not canonical", s, got)
		}
	})
}

func TestEgressQuestions(t *testing.T) {
	for _, tc := range []struct {
		name       string
		p          Policy
		any, names bool
	}{
		{"the default policy", Default(), false, false},
		{"the permissive policy", Permissive(), true, false},
		{"an allowed host", Default().Layer("l").AllowNet("a.com"), true, true},
		{"an asked host cannot be asked about at a switch", Default().Layer("l").AskNet("a.com"), false, true},
		{"a denied host is a named host", Permissive().Layer("l").DenyNet("a.com"), true, true},
		{"the provider's layer counts only where it is asked for", Default().ForProvider("a.com:443"), true, true},
		{"a default that asks", Default().WithDefaults(Defaults{Net: Ask}), false, false},
		{"the zero policy", Policy{}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.p.AllowsAnyHost(); got != tc.any {
				t.Errorf("AllowsAnyHost() = %v, want %v", got, tc.any)
			}
			if got := tc.p.NamesHosts(); got != tc.names {
				t.Errorf("NamesHosts() = %v, want %v", got, tc.names)
			}
		})
	}
}

func TestDomainFilter(t *testing.T) {
	for _, tc := range []struct {
		name           string
		p              Policy
		allow, blocked string
		fails          bool
	}{
		{name: "ports are dropped and repeats merge", p: Default().Layer("l").AllowNet("a.com:443", "a.com", "b.com"), allow: "a.com b.com"},
		{name: "a star is no allow list", p: Default().Layer("l").AllowNet("*").DenyNet("x.com"), blocked: "x.com"},
		{name: "a default that allows is no allow list", p: Permissive().Layer("l").DenyNet("x.com", "w.com:80"), blocked: "w.com x.com"},
		{name: "no host at all would read as no filter", p: Default(), fails: true},
		{name: "an ask cannot be carried", p: Permissive().Layer("l").AskNet("a.com"), fails: true},
		{name: "a scheme cannot be carried", p: Permissive().Layer("l").AllowNet("https://a.com"), fails: true},
		{name: "a path cannot be carried", p: Permissive().Layer("l").DenyNet("a.com/x"), fails: true},
		{name: "everything blocked", p: Permissive().Layer("l").DenyNet("*"), fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			allow, blocked, err := tc.p.DomainFilter()
			if (err != nil) != tc.fails {
				t.Fatalf("DomainFilter() error = %v, want failure %v", err, tc.fails)
			}
			if got := strings.Join(allow, " "); got != tc.allow {
				t.Errorf("allowed = %q, want %q", got, tc.allow)
			}
			if got := strings.Join(blocked, " "); got != tc.blocked {
				t.Errorf("blocked = %q, want %q", got, tc.blocked)
			}
		})
	}
}

func TestAddressFloor(t *testing.T) {
	for _, tc := range []struct {
		target         string
		refused, local bool // without and with local addresses lifted
	}{
		{"93.184.216.34", false, false},
		{"example.com:443", false, false},
		{"[2606:2800:220:1:248:1893:25c8:1946]:443", false, false},
		{"127.0.0.1:8080", true, false},
		{"127.9.9.9", true, false},
		{"[::1]:80", true, false},
		{"localhost:8080", true, false},
		{"x.localhost", true, false},
		{"LOCALHOST.", true, false},
		{"10.0.0.5", true, false},
		{"172.16.0.1", true, false},
		{"192.168.1.1", true, false},
		{"[fd00::1]", true, false},
		{"100.64.0.1", true, false},
		{"100.127.255.255", true, false},
		{"100.63.0.1", false, false},
		{"100.128.0.1", false, false},
		{"0.0.0.0", true, false},
		{"0.1.2.3", true, false},
		{"[::]", true, false},
		{"224.0.0.1", true, false},
		{"255.255.255.255", true, false},
		{"[ff02::1]", true, false},
		{"[::ffff:10.0.0.1]", true, false},
		{"[64:ff9b::a00:1]", true, false},
		{"[64:ff9b:1::a00:1]", true, false},
		{"[2002:a00:1::]", true, false},
		{"[64:ff9b::5db8:d822]", false, false},
		{"169.254.169.254", true, true},
		{"169.254.1.1", true, true},
		{"[fe80::1]", true, true},
		{"[::ffff:169.254.169.254]", true, true},
		{"[64:ff9b::a9fe:a9fe]", true, true},
		{"100.100.100.200", true, true},
		{"[fd00:ec2::254]", true, true},
		{"metadata.google.internal", true, true},
		{"METADATA.google.internal.:80", true, true},
		{"2852039166", true, true},
		{"0x7f.1", true, true},
	} {
		t.Run(tc.target, func(t *testing.T) {
			for local, want := range map[bool]bool{false: tc.refused, true: tc.local} {
				reason, got := FloorRefusesHost(tc.target, local)
				if got != want || (reason != "") != want {
					t.Errorf("with local %v: refused = %v (%q), want %v", local, got, reason, want)
				}
			}
		})
	}
	open := Permissive().Layer("app").AllowNet("*", "127.0.0.1", "[::1]:80")
	for _, tc := range []struct {
		host, addr string
		refused    bool // with local addresses lifted
	}{
		{"docs.example", "93.184.216.34:80", false},
		{"docs.example", "10.0.0.5:80", false}, // this machine is meant, not its network
		{"docs.example", "127.0.0.1:80", false},
		{"docs.example", "[::ffff:127.0.0.1]:80", false},
		{"docs.example", "127.0.0.2:80", true},
		{"docs.example", "[::1]:80", false},
		{"docs.example", "[::1]:81", true},
		{"docs.example", "0.0.0.0:80", true},
		{"docs.example", "[::]:80", true},
		{"docs.example", "[64:ff9b::7f00:1]:80", true},
		{"docs.example", "169.254.169.254:80", true},
		{"x.LOCALHOST.", "127.0.0.2:80", false},
		{"localhost", "0.0.0.0:80", true},
		{"127.0.0.2", "127.0.0.2:80", false},
		{"[::1]", "[::1]:81", false},
	} {
		reason, got := open.FloorRefusesAnswer(tc.host, netip.MustParseAddrPort(tc.addr), true)
		if got != tc.refused || (reason != "") != tc.refused {
			t.Errorf("%s at %s: refused = %v (%q), want %v", tc.host, tc.addr, got, reason, tc.refused)
		}
	}
	if _, refused := open.FloorRefusesAnswer("docs.example", netip.MustParseAddrPort("127.0.0.1:80"), false); !refused {
		t.Error("a rule lifted the floor")
	}
	if _, refused := Permissive().Contain(open).FloorRefusesAnswer("docs.example", netip.MustParseAddrPort("127.0.0.1:80"), true); !refused {
		t.Error("what a child allows itself counted")
	}
	for _, p := range []Policy{Permissive().Layer("app").AskNet("127.0.0.1", "127.0.0.1:80"), Permissive().Layer("app").DenyNet("127.0.0.1")} {
		if _, refused := p.FloorRefusesAnswer("docs.example", netip.MustParseAddrPort("127.0.0.1:80"), true); !refused {
			t.Error("a rule that does not allow the address let a name lead to it")
		}
	}
	if _, refused := FloorRefuses(netip.Addr{}, true); !refused {
		t.Error("no address at all passed")
	}
	if _, refused := FloorRefuses(netip.MustParseAddr("fe80::1%eth0"), true); !refused {
		t.Error("an address with a zone passed")
	}
}
