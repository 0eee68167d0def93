package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fakeBwrap is a program that speaks bubblewrap's status protocol and builds no
// boundary: what is tested with it is how its answers are read.
const fakeBwrap = `#!/bin/sh
[ -n "$FAKE_FAIL" ] && { echo "bwrap: no permissions" >&2; exit 1; }
while [ "$1" != -- ]; do
	case "$1" in
	--json-status-fd) fd=$2; shift ;;
	--chdir) cd "$2" || exit 1; shift ;;
	esac
	shift
done
shift
eval "echo '{ \"child-pid\": 2 }' >&$fd"
"$@"
code=$?
eval "echo '{ \"exit-code\": '$code' }' >&$fd"
exit $code
`

func fakeHost(t *testing.T, change func(h *Host)) Host {
	t.Helper()
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	change(&h)
	return h
}

func runOn(t *testing.T, h Host, c Cmd, p Profile) (*Result, error) {
	t.Helper()
	pr, err := start(t.Context(), h, c, p)
	if err != nil {
		return nil, err
	}
	return pr.Wait()
}

func TestBubblewrapsAnswersAreReadFromItsStatusChannel(t *testing.T) {
	bwrap := filepath.Join(realTempDir(t), "bwrap")
	if err := os.WriteFile(bwrap, []byte(fakeBwrap), 0o755); err != nil {
		t.Fatal(err)
	}
	h := fakeHost(t, func(h *Host) {
		h.Landlock, h.Namespaces = Feature{Why: "left out"}, Feature{Why: "left out"}
		h.Bubblewrap, h.BubblewrapPath = Feature{Works: true}, bwrap
	})
	ws := realTempDir(t)
	p := Profile{Workspace: ws}
	for _, tc := range []struct {
		name, script string
		exit         int
		signal       string
	}{
		{"an exit code", "exit 3", 3, ""},
		{"success", "true", 0, ""},
		{"a signal", "kill -9 $$", -1, "SIGKILL"},
		{"a forged message of the wrapper", `echo "bwrap: it was me" >&2; exit 1`, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := runOn(t, h, Cmd{Argv: []string{"sh", "-c", tc.script}}, p)
			if err != nil {
				t.Fatal(err)
			}
			if r.Exit != tc.exit || r.Signal != tc.signal || r.Applied.Rung != RungBubblewrap || r.Argv[0] != "sh" {
				t.Errorf("got %+v", r)
			}
		})
	}
	t.Run("a wrapper that fails is passed over and said so", func(t *testing.T) {
		r, err := runOn(t, h, Cmd{Argv: []string{"sh", "-c", "echo ran"}, Env: []string{"FAKE_FAIL=1"}}, p)
		if err != nil {
			t.Fatal(err)
		}
		why := strings.Join(r.Applied.Why, "\n")
		if r.Applied.Rung != RungFloor || r.Applied.Files != FilesOpen || !strings.Contains(why, "linux-bubblewrap: bubblewrap ended before it had a child") {
			t.Errorf("got %s because %q", r.Applied.Rung, why)
		}
		if r.Stdout.String() != "ran\n" {
			t.Errorf("stdout %q", r.Stdout)
		}
	})
	t.Run("a wrapper that fails is a refusal where writes must be confined", func(t *testing.T) {
		p := p
		p.Require.Writes = true
		if _, err := runOn(t, h, Cmd{Argv: []string{"touch", "ran"}, Env: []string{"FAKE_FAIL=1"}}, p); !errors.Is(err, ErrRequired) {
			t.Errorf("got %v, want ErrRequired", err)
		}
		if _, err := os.Stat(filepath.Join(ws, "ran")); err == nil {
			t.Error("the command ran")
		}
	})
	t.Run("what cannot be executed is not a failure of the wrapper", func(t *testing.T) {
		write(t, filepath.Join(ws, "text"), "x")
		if _, err := runOn(t, h, Cmd{Argv: []string{"./text"}}, p); !errors.Is(err, ErrStart) {
			t.Errorf("got %v, want ErrStart", err)
		}
	})
}

func TestARulesetThatCannotBeBuiltNeverRunsUnrestricted(t *testing.T) {
	h := fakeHost(t, func(h *Host) {
		own, newest := planLandlock(&spec{}, h.LandlockABI, 0, listHost), planLandlock(&spec{}, newestABI, 0, listHost)
		if !h.Landlock.Works || own.fs == newest.fs && own.net == newest.net {
			t.Skip("needs a kernel with Landlock that lacks a right of the newest version known here")
		}
		// The kernel will refuse what this version is said to have.
		h.LandlockABI = newestABI
		h.Bubblewrap, h.Namespaces = Feature{Why: "left out"}, Feature{Why: "left out"}
	})
	r, err := runOn(t, h, Cmd{Argv: []string{"true"}}, Profile{Workspace: realTempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Applied.Rung != RungFloor || !strings.Contains(strings.Join(r.Applied.Why, "\n"), "linux-landlock: landlock: ") {
		t.Errorf("got %s because %v", r.Applied.Rung, r.Applied.Why)
	}
	if _, err := runOn(t, h, Cmd{Argv: []string{"true"}}, Profile{Workspace: realTempDir(t), Require: Require{Writes: true}}); !errors.Is(err, ErrRequired) {
		t.Errorf("got %v, want ErrRequired", err)
	}
}

func TestAHostThatCanDoNothingStillRunsAndSaysSo(t *testing.T) {
	none := Feature{Why: "left out"}
	h := fakeHost(t, func(h *Host) {
		*h = Host{OS: "linux", Landlock: none, Seccomp: none, Bubblewrap: none, Namespaces: none, Cgroup: none, Stop: none}
	})
	r, err := runOn(t, h, Cmd{Argv: []string{"sh", "-c", "setsid sleep 300 & echo ran"}}, Profile{Workspace: realTempDir(t), Limits: Limits{OpenFiles: 64}})
	if err != nil {
		t.Fatal(err)
	}
	a := r.Applied
	if a.Rung != RungFloor || a.Kill != KillMarker || len(a.Why) != 3 || len(a.Uncapped) != 1 || !r.Leftover || r.Stdout.String() != "ran\n" {
		t.Errorf("got %+v", a)
	}
	for _, want := range []string{"not confined", "network is open", "can be read by commands", "ceilings not in force: open-files"} {
		if !strings.Contains(a.String(), want) {
			t.Errorf("%q is missing from %q", want, a)
		}
	}
}
