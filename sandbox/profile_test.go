package sandbox

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/initorigin/io-harness-go/sandbox/scrub"
)

func TestProfilesSurviveStorageWithoutWhatBelongsToOneRun(t *testing.T) {
	p := Profile{
		Mode: ReadOnly, SharedTemp: true, Limits: Limits{CPU: time.Second, Wall: time.Minute, Memory: 1, Processes: 2, OpenFiles: 3, Output: 4},
		Env: scrub.Rules{Keep: []string{"A"}, Drop: []string{"B"}}, Egress: Egress{Open: true}, Reads: Reads{Deny: []string{"/x"}},
		Require: Require{Writes: true, Egress: true, Reads: true}, ForceFloor: true, NestedUserNamespaces: true, Shim: ShimOff, AccessConfinement: true,
	}
	full := p
	full.Workspace, full.Writable, full.Temp, full.Vars, full.Protect = "/ws", []string{"/c"}, "/t", []string{"TOKEN=canary"}, []string{"/p"}
	full.Programs, full.Egress.ProxyToken = []string{"/bin"}, "canary"
	full.Env.Secrets, full.Egress.Proxy = []string{"canary"}, addr("127.0.0.1:1")
	b, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "canary") {
		t.Errorf("a secret is stored: %s", b)
	}
	var got Profile
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(p, got, cmpopts.IgnoreUnexported(Profile{}), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if b, _ := json.Marshal(Profile{}); string(b) != "{}" {
		t.Errorf("the zero profile is stored as %s", b)
	}
}

func TestDeniedPathsInsideAnotherAreCoveredByIt(t *testing.T) {
	root := realTempDir(t)
	put(t, root, "secrets/k", "")
	put(t, root, "secretsX", "")
	in := []string{root + "/secrets/k", root + "/secrets", root + "/secretsX", root + "/missing", root + "/secrets/"}
	if d := cmp.Diff([]string{filepath.Join(root, "secrets"), filepath.Join(root, "secretsX")}, existing(in)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// forced makes p take exactly this rung when the host has it.
func forced(p Profile, r Rung) Profile {
	p.only = r
	return p
}
