package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"*", ""}, {"a*b?c", "axbyc"}, {"*a*a*a*b", "aaaaaaaaaa"}, {"\xff?", "\xff\xfe"}, {"é*", "É"}, {"", ""}, {"**", "a/b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, target string) {
		got := match(compile(pattern, false), target, false)
		if got != match(compile(pattern, false), []byte(target), false) {
			t.Errorf("%q matches %q as text and as bytes differently", pattern, target)
		}
		if got && !match(compile(pattern, true), target, true) {
			t.Errorf("%q matches %q as written and not folded", pattern, target)
		}
		if !match(compile(target, false), target, false) {
			t.Errorf("%q does not match itself", target)
		}
		if !match(compile("*"+pattern+"*", false), "x"+target+"y", false) && got {
			t.Errorf("%q matches %q and does not when both have room at the ends", pattern, target)
		}
		// The definition tries every way, so only few stars are put to it.
		if len(target) < 24 && strings.Count(pattern, "*") < 4 && utf8.ValidString(pattern) && utf8.ValidString(target) {
			if want := matchSlowly([]rune(pattern), []rune(target)); got != want {
				t.Errorf("match(%q, %q) = %v, want %v", pattern, target, got, want)
			}
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, seed := range []string{"", "a", "./secrets/k", "../x", "a/../../x", "/etc/passwd", "secrets//k", `secrets\k`, "SECRETS/k", ".git./config", "a\x00b", "\xff"} {
		f.Add(seed)
	}
	p := Permissive().Layer("l").DenyRead("secrets")
	f.Fuzz(func(t *testing.T, target string) {
		for _, host := range []platform{linux, mac, windows} {
			v := p.on(host).checkOn(Need{Act: Read, Target: target}, host)
			below := p.on(host).checkOn(Need{Act: Read, Target: "secrets/" + strings.TrimLeft(target, "/\\")}, host)
			clean := cleanPath(target, host.windows)
			if !strings.Contains(target, "..") && !strings.Contains(target, `\\?\`) && below.Effect != Deny {
				t.Errorf("%q below a denied directory is %+v", target, below)
			}
			if again := p.on(host).checkOn(Need{Act: Read, Target: clean}, host); again != v {
				t.Errorf("%q is %+v and its normal form %q is %+v", target, v, clean, again)
			}
			climbs := clean == ".." || strings.HasPrefix(clean, "../")
			if climbs != (v.Rule == OutsideRoot) {
				t.Errorf("%q: climbs %v, verdict %+v", target, climbs, v)
			}
		}
	})
}

func FuzzArgv(f *testing.F) {
	for _, seed := range []string{"git\x00push", "/usr/bin/git\x00push\x00feature/x", "GIT.EXE\x00push", "git\x00\x00push", "./go\x00test", "go test/x", "", "\x00"} {
		f.Add(seed, "/usr/bin/git")
	}
	p := Permissive().Layer("l").DenyExec("rm", "git push*").AllowExec("*")
	fence := Default().Layer("l").AllowExec("go test*")
	f.Fuzz(func(t *testing.T, words, resolved string) {
		args := strings.Split(words, "\x00")
		n := Need{Act: Exec, Argv: args, Resolved: resolved}
		for _, host := range []platform{linux, windows} {
			v := p.on(host).checkOn(n, host)
			base := strings.ToLower(args[0][strings.LastIndexAny(args[0], `/\`)+1:])
			if base == "rm" && v.Effect != Deny {
				t.Errorf("%q is %+v", args, v)
			}
			if base == "git" && len(args) > 1 && strings.HasPrefix(strings.ToLower(args[1]), "push") && v.Effect != Deny {
				t.Errorf("%q is %+v", args, v)
			}
		}
		if v := fence.Check(n); v.Effect == Allow && v.Layer == "l" {
			if strings.ContainsAny(args[0], `/\`) {
				t.Errorf("%q is allowed by %q although its program is given by path", args, v.Rule)
			}
			if !strings.HasPrefix(strings.Join(args, " "), "go test") {
				t.Errorf("%q is allowed by %q", args, v.Rule)
			}
		}
	})
}

func FuzzHost(f *testing.F) {
	for _, seed := range []string{"https://good.com/", "https://good.com@evil.com:8443/x", "http://[::ffff:127.0.0.1]:80/", "https://bücher.example.", "http://0x7f.1/", "https://a\\b/", "http://[fe80::1%25e]/", "ws://A_b:1"} {
		f.Add(seed)
	}
	open := Permissive().Layer("l").DenyNet("evil.com")
	f.Fuzz(func(t *testing.T, url string) {
		target, ok := NetTarget(url)
		if !ok {
			if target != "" {
				t.Errorf("NetTarget(%q) refuses and returns %q", url, target)
			}
			return
		}
		if again, ok := HostTarget(target); !ok || again != target {
			t.Errorf("NetTarget(%q) = %q, whose canonical form is %q, %v", url, target, again, ok)
		}
		if again, ok := NetTarget("https://" + target + "/"); !ok || again != target {
			t.Errorf("NetTarget(%q) = %q, whose URL gives %q, %v", url, target, again, ok)
		}
		host, port := splitTarget(target)
		if port == "" || strings.ContainsAny(host, "/\\@?# \x00%") || host != strings.ToLower(host) {
			t.Errorf("NetTarget(%q) = %q is not canonical", url, target)
		}
		if want := host == "evil.com"; want != (open.Check(Need{Act: Net, Target: target}).Effect == Deny) {
			t.Errorf("%q: denied %v, want %v", target, !want, want)
		}
	})
}

func FuzzPolicyJSON(f *testing.F) {
	for _, p := range []Policy{{}, Default(), Permissive(), ops().PlanLock(), Default().Contain(Policy{}.Layer("l").AskRead("*"))} {
		data, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"layers":[{"name":"l","rules":[{"act":"read","effect":"deny","effect":"allow","pattern":"\ud800"}]}],"defaults":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Policy
		if json.Unmarshal(data, &p) != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%s was read and cannot be stored: %v", data, err)
		}
		var q Policy
		if err := json.Unmarshal(again, &q); err != nil || !p.Equal(q) {
			t.Errorf("%s was stored as %s and read as another policy (%v)", data, again, err)
		}
	})
}
