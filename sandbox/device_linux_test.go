package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A node of a device that is harmless to write, made where nothing is granted and
// in the workspace, is no way to the device in namespaces, also without Landlock.
func TestDeviceNodesOfTheHostAreOutOfReach(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make a device node, or may use one")
	}
	a := newArena(t)
	zero := int(unix.Mkdev(1, 5)) // /dev/zero, which everybody may open who reaches it
	for _, dir := range []string{a.out, a.ws} {
		if err := unix.Mknod(filepath.Join(dir, "node"), unix.S_IFCHR|0o666, zero); errors.Is(err, unix.EPERM) {
			t.Skip("device nodes cannot be made here")
		} else if err != nil {
			t.Fatal(err)
		}
	}
	script := `for f in "$OUT/node" "$WS/node" /dev/kmsg /dev/mem /dev/vda /dev/sda /dev/nvme0n1 /dev/loop0; do
		true 2>/dev/null < "$f" && echo "read $f"; true 2>/dev/null >> "$f" && echo "wrote $f"; done
		exit 0`
	control, err := Run(t.Context(), a.script(script), Profile{Workspace: a.ws, Mode: FullAccess})
	if err != nil || !strings.Contains(control.Stdout.String(), "wrote "+a.out+"/node") {
		t.Skipf("a node is of no use here to anybody: %s %v", control.Text(0), err)
	}
	for name, h := range map[string]Host{
		"with Landlock":                         fakeHost(t, func(*Host) {}),
		"without Landlock":                      fakeHost(t, func(h *Host) { h.Landlock, h.LandlockABI = Feature{Why: "left out"}, 0 }),
		"without Landlock, in a user namespace": fakeHost(t, func(h *Host) { h.Landlock, h.LandlockABI, h.asRoot = Feature{Why: "left out"}, 0, false }),
	} {
		t.Run(name, func(t *testing.T) {
			if !h.Namespaces.Works {
				t.Skipf("no namespaces rung: %s", h.Namespaces.Why)
			}
			r, err := runOn(t, h, a.script(script), forced(Profile{Workspace: a.ws}, RungNamespaces))
			if errors.Is(err, ErrApparatus) {
				t.Skipf("not to be had on this host: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Stdout.String(); got != "" || !r.Success() {
				t.Errorf("reached a device:\n%s%s", got, r.Stderr)
			}
		})
	}
}

func TestTheDevicesThatProgramsUseAreThere(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", `set -e
				echo x > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c; head -c 4 /dev/random | wc -c
				(echo x > /dev/full) 2>/dev/null || echo full
				echo in > /dev/stdout; echo err > /dev/stderr; echo fd > /dev/fd/1
				echo s > /dev/shm/f; cat /dev/shm/f; rm /dev/shm/f
				(: < /dev/tty) 2>/dev/null || echo none`}}, forced(Profile{Workspace: realTempDir(t)}, rung))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Fields(r.Stdout.String()); strings.Join(got, " ") != "4 4 4 full in fd s none" || r.Stderr.String() != "err\n" {
				t.Errorf("exit %d, got %v; %s", r.Exit, got, r.Stderr)
			}
		})
	}
}
