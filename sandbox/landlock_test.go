package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeFiles is a file system of directories (ending in a slash) and files.
func fakeFiles(paths ...string) lister {
	return func(dir string) []entry {
		var out []entry
		seen := map[string]bool{}
		for _, q := range paths {
			rest, ok := strings.CutPrefix(q, strings.TrimSuffix(dir, "/")+"/")
			if !ok || rest == "" {
				continue
			}
			name, _, isDir := strings.Cut(rest, "/")
			if link := strings.HasSuffix(name, "@"); !seen[name] {
				seen[name] = true
				out = append(out, entry{name: strings.TrimSuffix(name, "@"), dir: isDir, link: link})
			}
		}
		return out
	}
}

func TestLandlockRightsFollowTheVersion(t *testing.T) {
	for _, tc := range []struct {
		abi   int
		fs    uint64
		net   uint64
		scope uint64
	}{
		{1, 1<<13 - 1, 0, 0},
		{2, 1<<14 - 1, 0, 0},
		{3, 1<<15 - 1, 0, 0},
		{4, 1<<15 - 1, 3, 0},
		{5, 1<<16 - 1, 3, 0},
		{6, 1<<16 - 1, 3, 3},
		{7, 1<<16 - 1, 3, 3},
		{8, 1<<16 - 1, 3, 3},
		{9, 1<<17 - 1, 3, 3},
		{10, 1<<17 - 1, 15, 3},
		{11, 1<<17 - 1, 15, 3},
		{99, 1<<17 - 1, 15, 3},
	} {
		p := planLandlock(&spec{}, tc.abi, sameProcessFix, fakeFiles())
		if p.fs != tc.fs || p.net != tc.net || p.scope != tc.scope {
			t.Errorf("version %d handles %#x %#x %#x, want %#x %#x %#x", tc.abi, p.fs, p.net, p.scope, tc.fs, tc.net, tc.scope)
		}
	}
	if p := planLandlock(&spec{}, 7, 0, fakeFiles()); p.scope != scopeAbstract {
		t.Errorf("without the fix the scope is %#x: signals between threads of one process would be cut off", p.scope)
	}
}

func TestLandlockPlan(t *testing.T) {
	files := fakeFiles("/ws/", "/cache/", "/tmp/run/", "/dev/null", "/dev/tty", "/dev/shm/")
	base := spec{roots: []string{"/ws", "/cache"}, temp: "/tmp/run"}
	for abi := 1; abi <= newestABI; abi++ {
		for _, mode := range []Mode{WorkspaceWrite, ReadOnly} {
			s := base
			s.profile.Mode = mode
			if mode == ReadOnly {
				s.roots = nil
			}
			p := planLandlock(&s, abi, sameProcessFix, files)
			var order []string
			for _, r := range p.rules {
				if r.rights == fsResolveUnix {
					continue
				}
				order = append(order, r.path)
				if r.rights&^p.fs != 0 {
					t.Errorf("version %d: the rule for %s names a right that is not handled: %#x", abi, r.path, r.rights&^p.fs)
				}
				if r.rights&withheld != 0 {
					t.Errorf("version %d: %s may make devices", abi, r.path)
				}
				if strings.HasPrefix(r.path, "/dev/") && r.path != "/dev/shm" && r.rights != deviceRights {
					t.Errorf("version %d: %s has rights of a directory: %#x", abi, r.path, r.rights)
				}
			}
			want := append([]string{"/", "/ws", "/cache", "/tmp/run"}, append(slices.Clone(devices), "/dev/shm")...)
			if mode == ReadOnly {
				want = append([]string{"/", "/tmp/run"}, devices...)
			}
			if d := cmp.Diff(want, order); d != "" {
				t.Errorf("version %d %s (-want +got):\n%s", abi, mode, d)
			}
			if p.rules[0].rights != readRights {
				t.Errorf("the root has %#x, want reading only", p.rules[0].rights)
			}
		}
	}
}

func TestLandlockNetwork(t *testing.T) {
	for _, tc := range []struct {
		name    string
		e       Egress
		abi     int
		net     uint64
		connect uint16
	}{
		{"open handles nothing", Egress{Open: true}, 11, 0, 0},
		{"denied grants nothing", Egress{}, 11, 15, 0},
		{"proxied grants one port", Egress{Proxy: addr("127.0.0.1:77")}, 7, 3, 77},
		{"below version 4 there is nothing to grant", Egress{Proxy: addr("127.0.0.1:77")}, 3, 0, 0},
	} {
		p := planLandlock(&spec{profile: Profile{Egress: tc.e}}, tc.abi, 0, fakeFiles())
		if p.net != tc.net || p.connect != tc.connect {
			t.Errorf("%s: handles %#x, connects to %d", tc.name, p.net, p.connect)
		}
	}
}

// Of the devices only those that are granted can be read, and shared memory.
func TestDevicesAreNotReadUnderLandlock(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("unix paths")
	}
	files := fakeFiles("/bin/sh", "/ws/a.go", "/tmp/run/", "/dev/null", "/dev/sda", "/dev/pts/0", "/dev/input/event0", "/dev/shm/a", "/dev/shm/b")
	for _, tc := range []struct {
		mode   Mode
		denied []string
		want   []string // what can be read in /dev, beside what every command may
	}{
		{WorkspaceWrite, nil, []string{"/dev/shm", "/dev/shm"}},
		{ReadOnly, nil, []string{"/dev/shm"}},
		{ReadOnly, []string{"/dev/shm/a"}, []string{"/dev/shm/b"}},
		{ReadOnly, []string{"/dev"}, nil},
	} {
		s := spec{rung: RungLandlock, roots: []string{"/ws"}, temp: "/tmp/run", denied: tc.denied, profile: Profile{Mode: tc.mode}}
		var got []string
		for _, r := range planLandlock(&s, 7, sameProcessFix, files).rules {
			switch {
			case r.path == "/" && r.rights != fsReadDir:
				t.Errorf("everything can be read: %#x", r.rights)
			case r.rights&fsReadFile != 0 && strings.HasPrefix(r.path, "/dev") && !slices.Contains(devices, r.path):
				got = append(got, r.path)
			}
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s, denied %v (-want +got):\n%s", tc.mode, tc.denied, d)
		}
	}
	// A root that cannot be listed leaves no choice.
	s := spec{rung: RungLandlock, temp: "/tmp/run"}
	if p := planLandlock(&s, 7, sameProcessFix, fakeFiles()); p.rules[0] != (landlockRule{"/", readRights}) {
		t.Errorf("got %+v", p.rules)
	}
}

func TestDeniedReadsAreLeftOutOfTheGrants(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("unix paths")
	}
	files := fakeFiles("/bin/sh", "/etc/passwd", "/ws/a.go", "/ws/src/b.go", "/ws/secrets/k", "/ws/.env", "/ws/link@", "/top", "/tmp/run/")
	s := spec{roots: []string{"/ws"}, temp: "/tmp/run", denied: []string{"/ws/.env", "/ws/secrets"}}
	p := planLandlock(&s, 7, sameProcessFix, files)
	got := map[string]uint64{}
	for _, r := range p.rules {
		got[r.path] |= r.rights
	}
	for path, want := range map[string]uint64{
		"/": fsReadDir, "/bin": readRights, "/etc": readRights, "/top": fsExecute | fsReadFile,
		"/ws/a.go": fsExecute | fsReadFile, "/ws/src": readRights,
	} {
		if got[path] != want {
			t.Errorf("%s has %#x, want %#x", path, got[path], want)
		}
	}
	for _, path := range []string{"/ws", "/ws/secrets", "/ws/secrets/k", "/ws/.env", "/ws/link"} {
		if got[path]&(fsReadFile|fsExecute) != 0 {
			t.Errorf("%s can be read: %#x", path, got[path])
		}
	}
	if got["/ws"]&fsMakeReg == 0 {
		t.Error("the workspace can no longer be written")
	}
}
