package sandbox

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox/proxy"
)

// A command with an ordinary client gets to the hosts that the policy names and
// to nothing else, whether or not it minds the proxy variables.
func TestAnOrdinaryClientReachesOnlyNamedHosts(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not on this machine")
	}
	var hits atomic.Int32
	server := func() (*httptest.Server, string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hits.Add(1); fmt.Fprint(w, "hello") }))
		t.Cleanup(s.Close)
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		return s, port
	}
	_, named := server()
	_, other := server()
	pol := policy.Permissive().WithDefaults(policy.Defaults{Read: policy.Allow, Write: policy.Allow, Exec: policy.Allow, Net: policy.Deny}).
		Layer("app").AllowNet("127.0.0.1:" + named)
	var mu sync.Mutex
	var dials []proxy.Dial
	p, err := proxy.Start(t.Context(), proxy.Config{
		Policy:     func() policy.Policy { return pol },
		AllowLocal: true,
		Report:     func(d proxy.Dial) { mu.Lock(); dials = append(dials, d); mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	egress := Egress{Proxy: p.Addr()}
	for _, rung := range rungs(t, Profile{Egress: egress}) {
		for _, tc := range []struct {
			name, script string
			hit          bool
			dial         string
		}{
			{"the named host", `curl -sS "http://127.0.0.1:$NAMED/"`, true, "127.0.0.1:" + named},
			{"the named host through a tunnel", `curl -sS -p "http://127.0.0.1:$NAMED/"`, true, "127.0.0.1:" + named},
			{"another host", `curl -sS -f "http://127.0.0.1:$OTHER/"`, false, "127.0.0.1:" + other},
			{"another host through a tunnel", `curl -sS -p "http://127.0.0.1:$OTHER/"`, false, "127.0.0.1:" + other},
			{"past the proxy", `curl -sS --noproxy '*' "http://127.0.0.1:$OTHER/"`, false, ""},
			{"past the proxy to the named host", `curl -sS --noproxy '*' "http://127.0.0.1:$NAMED/"`, false, ""},
			{"without the variables", `env -u http_proxy -u HTTP_PROXY -u ALL_PROXY -u all_proxy curl -sS "http://127.0.0.1:$OTHER/"`, false, ""},
		} {
			t.Run(string(rung)+"/"+tc.name, func(t *testing.T) {
				hits.Store(0)
				mu.Lock()
				dials = nil
				mu.Unlock()
				r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", tc.script}, Env: []string{"NAMED=" + named, "OTHER=" + other}},
					forced(Profile{Workspace: realTempDir(t), Egress: egress}, rung))
				if err != nil {
					t.Fatal(err)
				}
				if hit := hits.Load() > 0; hit != tc.hit || r.Success() != tc.hit || tc.hit && r.Stdout.String() != "hello" {
					t.Errorf("reached: %v, want %v; %s", hit, tc.hit, r.Text(0))
				}
				mu.Lock()
				defer mu.Unlock()
				if tc.dial == "" && len(dials) > 0 || tc.dial != "" && (len(dials) != 1 || dials[0].Target != tc.dial || dials[0].Allowed != tc.hit) {
					t.Errorf("recorded %+v, want %q", dials, tc.dial)
				}
			})
		}
	}
}

func TestMountsHideAndProtectWhileTheCommandRuns(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		if rung != RungNamespaces {
			continue
		}
		a := newArena(t)
		for _, d := range []string{"secrets", ".git/hooks"} {
			if err := os.MkdirAll(filepath.Join(a.ws, d), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(a.ws, "secrets/k"), "canary")
		write(t, filepath.Join(a.ws, ".git/hooks/pre-commit"), "old")
		write(t, filepath.Join(a.ws, "io.toml"), "old")
		p := forced(Profile{
			Workspace: a.ws,
			Reads:     Reads{Deny: []string{filepath.Join(a.ws, "secrets")}},
			Protect:   []string{filepath.Join(a.ws, ".git/hooks"), filepath.Join(a.ws, "io.toml"), filepath.Join(a.ws, "missing"), a.out},
		}, rung)
		r, err := Run(t.Context(), a.script(`
			echo made > new && cat new; mkdir -p node_modules/a && ls -d node_modules/a
			mv secrets moved; rmdir secrets; umount secrets; echo x > secrets/new; cat secrets/k moved/k
			echo evil > .git/hooks/pre-commit; echo evil > .git/hooks/post-checkout; rm -f .git/hooks/pre-commit
			mv .git/hooks .git/old; mv .git gone; echo evil > io.toml; mv io.toml io.old; rm -f io.toml; chmod 777 io.toml
			echo ok > .git/config; true`), p)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Stdout.String(); got != "made\nnode_modules/a\n" {
			t.Errorf("stdout %q; stderr %s", got, r.Stderr)
		}
		for path, want := range map[string]string{"secrets/k": "canary", "io.toml": "old"} {
			if b, err := os.ReadFile(filepath.Join(a.ws, path)); err != nil || string(b) != want {
				t.Errorf("%s is %q, %v; want %q", path, b, err, want)
			}
		}
		// The directory that holds it may be renamed; what is in it stays.
		found := false
		_ = filepath.WalkDir(a.ws, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.Name() == "pre-commit" {
				b, _ := os.ReadFile(path)
				found = string(b) == "old"
			}
			if err == nil && strings.Contains(d.Name(), "post-checkout") {
				t.Errorf("made %s", path)
			}
			return nil
		})
		if !found {
			t.Error("the hook is not as it was")
		}
		return
	}
	t.Skip("no rung on this host works with mounts")
}
