package sandbox

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// confined is a profile with access confinement, in a workspace and beside a directory
// that are both outside of every temporary directory. It skips where there is no
// container to be had.
func confined(t *testing.T) (p Profile, outside string) {
	t.Helper()
	if f := probedContainer(); !f.Works {
		t.Skip("no container here: ", f.Why)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(here, ".scratch-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	p.Workspace, outside = filepath.Join(dir, "ws"), filepath.Join(dir, "outside")
	for _, d := range []string{p.Workspace, outside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.AccessConfinement = true
	return p, outside
}

// Where there is no container the command is not started on anything less.
func TestAccessConfinementIsNeverLessThanAskedFor(t *testing.T) {
	f := probedContainer()
	ws := realTempDir(t)
	made := filepath.Join(ws, "made")
	r, err := Run(t.Context(), program("windows-write", made), Profile{Workspace: ws, AccessConfinement: true})
	if f.Works {
		if err != nil || r.Applied.Rung != RungAppContainer || !r.Applied.Confined() {
			t.Errorf("got %+v, %v", r, err)
		}
		return
	}
	if !errors.Is(err, ErrRequired) || !strings.Contains(err.Error(), "access confinement was asked for") ||
		!strings.Contains(err.Error(), "nothing was started") || !strings.Contains(err.Error(), f.Why) {
		t.Errorf("got %v, want an error that says what was asked for, why not, and that nothing ran", err)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("the command ran")
	}
	if _, err := Plan(t.Context(), Profile{Workspace: ws, AccessConfinement: true}); !errors.Is(err, ErrRequired) {
		t.Errorf("a plan of it: got %v, want ErrRequired", err)
	}
	if r := mustRun(t, program("windows-write", made), Profile{Workspace: ws}); !r.Success() || r.Applied.Rung != RungJobObject {
		t.Errorf("without asking for it: got %+v", r)
	}
}

func TestAContainerConfinesWrites(t *testing.T) {
	p, outside := confined(t)
	in, out := filepath.Join(p.Workspace, "made"), filepath.Join(outside, "made")
	r := mustRun(t, program("windows-write", in, out), p)
	if r.Applied.Rung != RungAppContainer || r.Applied.Kill != KillJob || !strings.Contains(r.Stdout.String(), "wrote made") || !strings.Contains(r.Stdout.String(), "refused made") {
		t.Errorf("under %s: %s", r.Applied.Rung, r.Text(0))
	}
	if _, err := os.Stat(in); err != nil {
		t.Error("a write inside did not land")
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a write outside landed")
	}
	if r := mustRun(t, program("windows-write", out), Profile{Workspace: p.Workspace}); !r.Success() {
		t.Errorf("without the container: %s", r.Text(0))
	}
	p.Mode = ReadOnly
	if r := mustRun(t, program("windows-write", filepath.Join(p.Workspace, "second")), p); r.Success() || r.Applied.Files != FilesTemp {
		t.Errorf("under read-only: %s", r.Text(0))
	}
}

func TestAContainerReadsOnlyWhatItIsGiven(t *testing.T) {
	p, outside := confined(t)
	write(t, filepath.Join(p.Workspace, "in"), "to be read")
	write(t, filepath.Join(outside, "secret"), "canary")
	if r := mustRun(t, Cmd{Argv: []string{"cmd.exe", "/d", "/c", "type", "in"}}, p); !strings.Contains(r.Stdout.String(), "to be read") {
		t.Errorf("inside: %s", r.Text(0))
	}
	c := Cmd{Argv: []string{"cmd.exe", "/d", "/c", "type", filepath.Join(outside, "secret")}}
	if r := mustRun(t, c, p); r.Success() || strings.Contains(r.Output.String(), "canary") {
		t.Errorf("outside: %s", r.Text(0))
	}
	if r := mustRun(t, c, Profile{Workspace: p.Workspace}); !strings.Contains(r.Stdout.String(), "canary") {
		t.Errorf("without the container: %s", r.Text(0))
	}
}

// Nothing on the loopback is reached from inside, and so nothing is offered there.
func TestAContainerHasNoProxy(t *testing.T) {
	p, _ := confined(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p.Egress = Egress{Proxy: addr(l.Addr().String()), ProxyToken: testToken}
	r := mustRun(t, Cmd{Argv: []string{"cmd.exe", "/d", "/c", "set"}}, p)
	if strings.Contains(r.Stdout.String(), l.Addr().String()) || r.Applied.Egress != EgressNone {
		t.Errorf("%s with %s", r.Applied, r.Text(0))
	}
}

// The command interpreter finds a script in a container by a relative name alone.
func TestAScriptStartsInAContainerByItsRelativeName(t *testing.T) {
	p, _ := confined(t)
	write(t, filepath.Join(p.Workspace, "tool.cmd"), "@echo ran\r\n")
	if r := mustRun(t, Cmd{Argv: []string{"cmd.exe", "/d", "/c", `.\tool.cmd`}}, p); strings.TrimSpace(r.Stdout.String()) != "ran" {
		t.Errorf("got %s", r.Text(0))
	}
}

// A directory that cannot be given stops the command before anything of it runs.
func TestAContainerIsNotMadeAroundTheUsersOwnDirectory(t *testing.T) {
	p, _ := confined(t)
	home, err := userProfile()
	if err != nil {
		t.Fatal(err)
	}
	made := filepath.Join(p.Workspace, "made")
	p.Writable = []string{home}
	t.Setenv("PATH", filepath.Join(os.Getenv("SYSTEMROOT"), "System32"))
	if _, err := Run(t.Context(), program("windows-write", made), p); !errors.Is(err, ErrRequired) || !strings.Contains(err.Error(), home) {
		t.Errorf("got %v, want ErrRequired that names it", err)
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("the command ran")
	}
}
