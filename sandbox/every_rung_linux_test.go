package sandbox

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A rung that works with a wrapper or a helper hands on what was asked for as it
// stands: the arguments, the directory, the streams and the result.
func TestEveryRungHandsOnTheCommandAsItWasAsked(t *testing.T) {
	ws := realTempDir(t)
	put(t, ws, "sub dir/x", "")
	args := []string{"", " ", "$HOME", "`id`", "; rm -rf /", "a;b", "*", "'\"\\", "-n", "--", "--bind", "é\xff", "\n", "%s"}
	argv := append([]string{"sh", "-c", `pwd -P; for a; do printf '%s\0' "$a"; done; exit 3`, "sh"}, args...)
	for _, p := range everyRung(t, ws) {
		t.Run(string(p.only)+string(p.Mode), func(t *testing.T) {
			var out bytes.Buffer
			r, err := Run(t.Context(), Cmd{Argv: argv, Dir: "sub dir", Stdout: &out}, p)
			if err != nil {
				t.Fatal(err)
			}
			dir, rest, _ := strings.Cut(out.String(), "\n")
			if dir != ws+"/sub dir" {
				t.Errorf("ran in %q", dir)
			}
			if got := strings.Split(strings.TrimSuffix(rest, "\x00"), "\x00"); !slices.Equal(got, args) {
				t.Errorf("got %q, want %q", got, args)
			}
			if !slices.Equal(r.Argv, argv) || filepath.Base(r.Program) != "sh" || !r.Exited(3) {
				t.Errorf("the result is %+v", r)
			}
			if p.only != "" && r.Applied.Rung != p.only {
				t.Errorf("ran under %s: %v", r.Applied.Rung, r.Applied.Why)
			}
			r, err = Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "cat; ls /proc/self/fd; exec 3</dev/tty"}}, p)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(r.Stdout.String()); !slices.Equal(got, []string{"0", "1", "2", "3"}) || r.Success() {
				t.Errorf("input, descriptors or terminal: exit %d, %v", r.Exit, got)
			}
		})
	}
}

// The clock ends what the command started as well, and keeps what was printed.
func TestTheWallClockEndsTheWholeTree(t *testing.T) {
	for _, rung := range append([]Rung{RungFloor, RungNone}, linuxRungs...) {
		t.Run(string(rung), func(t *testing.T) {
			t.Parallel()
			p := forced(Profile{Workspace: realTempDir(t), Limits: Limits{Wall: 400 * time.Millisecond}}, rung)
			switch rung {
			case RungNone:
				p.Mode = FullAccess
			case RungFloor:
			default:
				offered(t, rung, Profile{})
			}
			// On a slow machine the shell may not have begun when its time is up.
			var r *Result
			for r == nil || r.Stdout.Bytes == 0 && p.Limits.Wall < 2*time.Second { // what it leaves behind acts after two
				var err error
				r, err = Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "echo before; (sleep 2; touch survived) & setsid sh -c 'sleep 2; touch survived' & sleep 300"}}, p)
				if err != nil {
					t.Fatal(err)
				}
				p.Limits.Wall *= 4
			}
			if r.Cap != CapWall || r.Exit != -1 || r.Stdout.String() != "before\n" {
				t.Errorf("got %+v", r)
			}
			time.Sleep(2500 * time.Millisecond)
			if des, _ := os.ReadDir(p.Workspace); len(des) != 0 {
				t.Errorf("something went on and made %v", des)
			}
		})
	}
}

// A process that got away from the kill and holds the output does not hold the
// answer.
func TestASurvivorThatHoldsTheOutputDoesNotHoldTheAnswer(t *testing.T) {
	h := fakeHost(t, func(h *Host) { h.Cgroup, h.cgroup = Feature{Why: "left out"}, "" })
	ws := realTempDir(t)
	// Without its marker, its session and its parent nothing tells whose it is.
	script := `env -i setsid sh -c 'echo $$ > survivor; i=0; while [ ! -e stop ] && [ $i -lt 400 ]; do i=$((i+1)); sleep 0.05; done; [ -e stop ] || echo x > waited; echo x > stopped' & while [ ! -s survivor ]; do sleep 0.01; done; echo up`
	r, err := runOn(t, h, Cmd{Argv: []string{"sh", "-c", script}}, Profile{Workspace: ws, ForceFloor: true})
	if _, err := os.Stat(filepath.Join(ws, "waited")); err == nil {
		t.Error("the answer came only when the survivor ended by itself")
	}
	write(t, filepath.Join(ws, "stop"), "")
	if err != nil || !r.Success() || r.Stdout.String() != "up\n" {
		t.Fatalf("got %+v, %v", r, err)
	}
	for range 500 {
		if _, err := os.Stat(filepath.Join(ws, "stopped")); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Skip("the survivor was found and killed: there is nothing that could hold the answer")
}

// What the probe says of bubblewrap comes from having tried it.
func TestBubblewrapIsProbedByTrying(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "h-") // helpers are not taken from the temporary directory
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bwrap := filepath.Join(dir, "bwrap")
	path := os.Getenv("PATH")
	for _, tc := range []struct{ name, script, path, why string }{
		{"there is none", "", dir, "not installed"},
		{"one that fails", "#!/bin/sh\necho no permissions >&2\nexit 1\n", dir + ":" + path, "ended before it had a child"},
		{"one that confines nothing", fakeBwrap, dir + ":" + path, "a write that should be refused was not"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("PATH", tc.path)
			if tc.script != "" {
				write(t, bwrap, tc.script)
				if err := os.Chmod(bwrap, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			h := fakeHost(t, func(*Host) {})
			if err := probeBubblewrap(&h); err == nil || !strings.Contains(err.Error(), tc.why) {
				t.Errorf("got %v, want %q", err, tc.why)
			}
		})
	}
}

// Without Landlock, and then without the helper as well, a command gets the next
// rung that this host has, and the report says so.
func TestALesserHostGetsTheNextRung(t *testing.T) {
	none := Feature{Why: "left out"}
	for _, tc := range []struct {
		name   string
		change func(h *Host)
	}{
		{"everything", func(*Host) {}},
		{"no Landlock", func(h *Host) { h.Landlock, h.LandlockABI = none, 0 }},
		{"no Landlock, no bubblewrap", func(h *Host) { h.Landlock, h.LandlockABI, h.Bubblewrap = none, 0, none }},
		{"no Landlock, no namespaces", func(h *Host) { h.Landlock, h.LandlockABI, h.Namespaces = none, 0, none }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := fakeHost(t, tc.change)
			want := candidates(h, Profile{})[0].rung
			a := newArena(t)
			before := a.outside(t)
			r, err := runOn(t, h, a.script(`echo x > in; echo x > "$OUT/new"; true`), Profile{Workspace: a.ws})
			if err != nil {
				t.Fatal(err)
			}
			if r.Applied.Rung != want {
				t.Errorf("ran under %s, want %s: %v", r.Applied.Rung, want, r.Applied.Why)
			}
			if _, err := os.Stat(filepath.Join(a.ws, "in")); err != nil {
				t.Error(err)
			}
			if held := a.outside(t) == before; held != r.Applied.Confined() {
				t.Errorf("%s: held %v, said %v", r.Applied.Rung, held, r.Applied.Confined())
			}
		})
	}
}

// The mode and times of a file outside: what the report promises is what holds.
// Landlock alone does not know them.
func TestTheModeOfAFileOutside(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			victim := filepath.Join(a.out, "victim")
			if _, err := Run(t.Context(), a.script(`chmod 777 "$OUT/victim"; touch -d 2001-01-01 "$OUT/victim"`), forced(Profile{Workspace: a.ws}, rung)); err != nil {
				t.Fatal(err)
			}
			fi, err := os.Stat(victim)
			if err != nil {
				t.Fatal(err)
			}
			changed := fi.Mode().Perm() == 0o777 || fi.ModTime().Year() == 2001
			if changed && rung != RungLandlock {
				t.Errorf("mode %s, time %s", fi.Mode(), fi.ModTime())
			}
			if !changed && rung == RungLandlock {
				t.Error("Landlock has learnt to keep the mode of files: the guide says that it does not")
			}
		})
	}
}
