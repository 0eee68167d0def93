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
				if r.Applied.Egress == EgressAdvisory && tc.dial == "" {
					t.Skipf("%s has only advice to give: a client that ignores the proxy goes past it", rung)
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

// The programs of a project take the login from their variables; one that does not
// know it is not served, and what a command prints does not show it.
func TestTheLoginOfTheProxyIsForTheCommandsAlone(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	var mu sync.Mutex
	var dials []proxy.Dial
	p, err := proxy.Start(t.Context(), proxy.Config{
		Policy: policy.Permissive, AllowLocal: true, User: ProxyUser, Token: string(testToken),
		Report: func(d proxy.Dial) { mu.Lock(); dials = append(dials, d); mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	egress := Egress{Proxy: p.Addr(), ProxyToken: testToken}
	for _, rung := range rungs(t, Profile{Egress: egress}) {
		for _, tc := range []struct {
			name, script, want string
			dialled            bool
		}{
			{"curl", `curl -sS -o /dev/null -w '%{http_code}' "$URL"`, "404", true},
			{"curl through a tunnel", `curl -sS -p -o /dev/null -w '%{http_code}' "$URL"`, "404", true},
			{"git", `git ls-remote "$URL/r.git" 2>&1 | grep -o 'not found'`, "not found", true},
			{"curl without the login", `curl -sS -x "http://$PROXY" -o /dev/null -w '%{http_code}' "$URL"`, "407", false},
			{"curl with another", `curl -sS -x "http://run:guess@$PROXY" -o /dev/null -w '%{http_code}' "$URL"`, "407", false},
			{"what is printed", `curl -sv "$URL" 2>&1; env; echo "$JAVA_TOOL_OPTIONS" >&2; echo "$http_proxy" > here; printf %s "$http_proxy"`, "http://run:**************@" + p.Addr().String(), true},
		} {
			t.Run(string(rung)+"/"+tc.name, func(t *testing.T) {
				if strings.HasPrefix(tc.name, "git") {
					if _, err := exec.LookPath("git"); err != nil {
						t.Skip("git is not here")
					}
				}
				mu.Lock()
				dials = nil
				mu.Unlock()
				ws := realTempDir(t)
				var seen strings.Builder
				r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", tc.script}, Env: []string{"URL=" + s.URL, "PROXY=" + p.Addr().String()}, Stdout: &seen},
					forced(Profile{Workspace: ws, Egress: egress}, rung))
				if err != nil {
					t.Fatal(err)
				}
				if got := r.Stdout.String(); !strings.HasSuffix(strings.TrimSpace(got), tc.want) {
					t.Errorf("got %q and %q, want %q", got, r.Stderr, tc.want)
				}
				for where, text := range map[string]string{"output": r.Output.String(), "stdout": r.Stdout.String(), "stderr": r.Stderr.String(), "what was streamed": seen.String(), "what holds": fmt.Sprintf("%+v %s", r.Applied, r.Applied)} {
					for _, spelled := range testToken.spellings() {
						if strings.Contains(text, string(spelled)) {
							t.Errorf("%s shows it: %q", where, text)
						}
					}
				}
				if tc.name == "what is printed" {
					if b, _ := os.ReadFile(filepath.Join(ws, "here")); !strings.Contains(string(b), string(testToken)) {
						t.Errorf("the command itself has no login: %q", b)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				if dialled := len(dials) > 0; dialled != tc.dialled {
					t.Errorf("recorded %+v", dials)
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

// As root in a container the workspace often belongs to somebody else.
func TestRootWritesAWorkspaceThatBelongsToAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may write what belongs to another")
	}
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			h := fakeHost(t, func(*Host) {})
			if rung == RungNamespaces && !h.asRoot || rung == RungBubblewrap && !h.bwrapAsRoot {
				t.Skip("this root may make namespaces only together with a user namespace")
			}
			a := newArena(t)
			if err := os.Chown(a.ws, 1000, 1000); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(a.ws, 0o700); err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), a.script(`echo x > f && chown 1001 f && echo ok; echo x > "$OUT/new"`), forced(Profile{Workspace: a.ws}, rung))
			if err != nil {
				t.Fatal(err)
			}
			if r.Stdout.String() != "ok\n" || strings.Contains(a.outside(t), "new") {
				t.Errorf("%s; outside: %s", r.Text(0), a.outside(t))
			}
		})
	}
}

// Root too can be confined with a user namespace, where it may not do without.
func TestRootInAUserNamespaceOfItsOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("an ordinary user has no other way")
	}
	h := fakeHost(t, func(h *Host) { h.asRoot = false })
	if err := tryNamespaces(&h); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	a := newArena(t)
	before := a.outside(t)
	r, err := runOn(t, h, a.script(`echo x > f && cat f; echo x > "$OUT/new"; mount -o remount,bind,rw /; rm -f "$OUT/victim"; grep CapEff /proc/self/status`), forced(Profile{Workspace: a.ws}, RungNamespaces))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Stdout.String(); got != "x\nCapEff:\t0000000000000000\n" || a.outside(t) != before {
		t.Errorf("got %q; %s; outside: %s", got, r.Stderr, a.outside(t))
	}
}

// submountFixture runs a command in a workspace in which something is mounted.
func submountFixture(args []string) int {
	r, err := Run(ctxOfFixture(), Cmd{Argv: []string{"sh", "-c", "echo x > ro/f; echo x > rw/f && echo rw; echo x > f && echo top"}}, forced(Profile{Workspace: args[0]}, RungNamespaces))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print(r.Stdout)
	return 0
}

func TestWhatIsMountedReadOnlyInAWorkspaceStaysSo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount something for this")
	}
	if h := fakeHost(t, func(*Host) {}); !h.Namespaces.Works {
		t.Skipf("no namespaces rung: %s", h.Namespaces.Why)
	}
	ws := realTempDir(t)
	out, err := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c",
		`cd "$1" && mkdir ro rw && mount -t tmpfs none ro && mount -t tmpfs none rw && echo old > ro/f && mount -o remount,ro ro && "$2" submount "$1" && cat ro/f`,
		"sh", ws, self(t)).CombinedOutput()
	if err != nil {
		t.Skipf("cannot mount here: %v %s", err, out)
	}
	if string(out) != "rw\ntop\nold\n" {
		t.Errorf("got %q", out)
	}
}
