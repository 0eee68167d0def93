//go:build unix

package workspace

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

func TestOnlyRegularFilesAreTouched(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	if err := syscall.Mkfifo(tr.path("pipe"), 0o644); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	if err := syscall.Mkfifo(tr.path("pipe.png"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(tr.Root()) // socket paths are short
	l, err := net.Listen("unix", "sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	tr.put("dir/x", "x")
	tr.link("pipe", "topipe")
	for p, kind := range map[string]string{"pipe": "named pipe", "pipe.png": "named pipe", "sock": "socket", "dir": "directory", "topipe": "named pipe"} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for what, err := range map[string]error{
				"ReadTyped":  second(tr.ReadTyped(t.Context(), p)),
				"ReadBytes":  second(tr.ReadBytes(t.Context(), p)),
				"ReadLines":  second(tr.ReadLines(t.Context(), p, 1, 1, 10)),
				"WriteFile":  second(tr.WriteFile(t.Context(), p, "x")),
				"EditFile":   second(tr.EditFile(t.Context(), p, "x", "y")),
				"Remove":     tr.Remove(t.Context(), p),
				"Digest":     second(tr.Digest(t.Context(), p)),
				"WriteBytes": second(tr.WriteBytes(t.Context(), p, []byte{0})),
			} {
				var nr *NotRegularError
				if !errors.As(err, &nr) || nr.Kind != kind {
					t.Errorf("%s(%q) = %v, want it refused as a %s", what, p, err, kind)
				}
			}
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("a %s blocks", kind)
		}
	}
	m, err := tr.Grep(t.Context(), "x", "", 9)
	if err != nil || m.Total != 1 {
		t.Errorf("Grep beside a pipe = %+v, %v", m, err)
	}
}

func TestDeviceIsRefusedWithoutBeingOpened(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	if err := syscall.Mknod(tr.path("null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Skipf("devices cannot be made here: %v", err)
	}
	if _, err := tr.ReadBytes(t.Context(), "null"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("ReadBytes = %v, want it refused as a device", err)
	}
	if _, err := tr.WriteFile(t.Context(), "null", "x"); !errors.Is(err, ErrNotRegular) {
		t.Errorf("WriteFile = %v, want it refused as a device", err)
	}
}

func TestHardLinkIsNoDoorOutOfTheRoot(t *testing.T) {
	for name, write := range map[string]func(*tree) (Change, error){
		"write": func(tr *tree) (Change, error) { return tr.WriteFile(tr.t.Context(), "notes.txt", "mine\n") },
		"edit":  func(tr *tree) (Change, error) { return tr.EditFile(tr.t.Context(), "notes.txt", "theirs", "mine") },
		"patch": func(tr *tree) (Change, error) {
			c, _, err := tr.PatchFile(tr.t.Context(), "notes.txt", "@@ -1 +1 @@\n-theirs\n+mine\n")
			return c, err
		},
		"revert": func(tr *tree) (Change, error) {
			return tr.Revert(tr.t.Context(), "notes.txt", "@@ -1 +1 @@\n-mine\n+theirs\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			rc := filepath.Join(tr.outside, "rc")
			putFile(t, rc, "theirs\n")
			if err := os.Link(rc, tr.path("notes.txt")); err != nil {
				t.Skipf("no hard links here: %v", err)
			}
			c, err := write(tr)
			if err != nil {
				t.Fatal(err)
			}
			if got := getFile(t, rc); got != "theirs\n" {
				t.Errorf("the file outside holds %q", got)
			}
			if got := tr.get("notes.txt"); got != "mine\n" {
				t.Errorf("notes.txt = %q", got)
			}
			if !c.Unlinked {
				t.Error("the change does not say that the link was broken")
			}
		})
	}
}

func TestModeSurvivesEveryWrite(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o077} {
		old := syscall.Umask(umask)
		func() {
			defer syscall.Umask(old)
			tr := newTree(t, policy.Permissive())
			for f, mode := range map[string]os.FileMode{"tool.sh": 0o755, "key": 0o600, "shared": 0o664, "odd": 0o640} {
				tr.put(f, "one\ntwo\n")
				if err := os.Chmod(tr.path(f), mode); err != nil {
					t.Fatal(err)
				}
				_, err1 := tr.WriteFile(t.Context(), f, "one\nTWO\n")
				_, err2 := tr.EditFile(t.Context(), f, "TWO", "2")
				_, _, err3 := tr.PatchFile(t.Context(), f, "@@ -2 +2 @@\n-2\n+two\n")
				if err := errors.Join(err1, err2, err3); err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(tr.path(f))
				if err != nil || info.Mode().Perm() != mode {
					t.Errorf("umask %03o: %s has mode %v, want %v (%v)", umask, f, info.Mode().Perm(), mode, err)
				}
			}
			if _, err := tr.WriteFile(t.Context(), "fresh", "x"); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(tr.path("fresh"))
			if want := os.FileMode(0o666 &^ umask); err != nil || info.Mode().Perm() != want {
				t.Errorf("umask %03o: a new file has mode %v, want %v", umask, info.Mode().Perm(), want)
			}
		}()
	}
}

func TestOverwriteIsForADirectoryThatTakesNoNewNames(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("d/file", "a longer text\n")
	tt, err := tr.target(t.Context(), "d/file")
	if err != nil {
		t.Fatal(err)
	}
	defer tt.close()
	if err := tt.overwrite([]byte("short\n")); err != nil {
		t.Fatal(err)
	}
	if got := tr.get("d/file"); got != "short\n" {
		t.Errorf("d/file = %q", got)
	}
	if err := os.Link(tr.path("d/file"), filepath.Join(tr.outside, "other")); err != nil {
		t.Skipf("no hard links here: %v", err)
	}
	if err := tt.overwrite([]byte("through\n")); err == nil {
		t.Error("overwrite wrote into a file with another name")
	}
	if got := getFile(t, filepath.Join(tr.outside, "other")); got != "short\n" {
		t.Errorf("the other name holds %q", got)
	}
}

func TestAReplacedFileKeepsItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	tr := newTree(t, policy.Permissive())
	tr.put("f", "old\n")
	if err := os.Chown(tr.path("f"), 1234, 4321); err != nil {
		t.Skipf("files cannot be given away here: %v", err)
	}
	if _, err := tr.WriteFile(t.Context(), "f", "new\n"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(tr.path("f"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1234 || st.Gid != 4321 {
		t.Errorf("the file belongs to %d:%d", st.Uid, st.Gid)
	}
}

func TestWhatIsPutBackHasItsMode(t *testing.T) {
	for _, there := range []bool{false, true} {
		tr := newTree(t, policy.Permissive())
		if there {
			tr.put("tool.sh", "other\n")
		}
		if _, err := tr.Restore(t.Context(), "tool.sh", []byte("old\n"), 0o751); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(tr.path("tool.sh"))
		if err != nil || info.Mode().Perm() != 0o751 || tr.get("tool.sh") != "old\n" {
			t.Errorf("with a file there %v: mode %v, %v, content %q", there, info.Mode(), err, tr.get("tool.sh"))
		}
	}
}

// What came in place of a file is not taken for it, though it may have got the number that
// the file had, and a pipe is not waited for, since nobody writes to it.
func TestWhatCameInPlaceOfAFileIsNotTakenForIt(t *testing.T) {
	pipe := func(tr *tree) error { return syscall.Mkfifo(tr.path("f"), 0o600) }
	for name, swap := range map[string]func(tr *tree) error{
		"a pipe, the file is moved": func(tr *tree) error {
			return errors.Join(os.Rename(tr.path("f"), tr.path("g")), pipe(tr))
		},
		"a pipe, the file is removed": func(tr *tree) error { return errors.Join(os.Remove(tr.path("f")), pipe(tr)) },
		"another file": func(tr *tree) error {
			return errors.Join(os.Rename(tr.path("f"), tr.path("g")), os.WriteFile(tr.path("f"), []byte("y\n"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put("f", "x\n")
			seen, err := os.Stat(tr.path("f"))
			if err != nil {
				t.Fatal(err)
			}
			if err := swap(tr); err != nil {
				t.Fatal(err)
			}
			parent, err := tr.dir.openDir("", false)
			if err != nil {
				t.Fatal(err)
			}
			defer parent.Close()
			got := make(chan error, 1)
			go func() {
				f, err := openIn(parent, "f", "f", os.O_RDONLY, seen)
				if err == nil {
					f.Close()
				}
				got <- err
			}()
			select {
			case err = <-got:
			case <-time.After(10 * time.Second): // a deadline for a hang
				t.Error("the pipe was waited for")
				if w, werr := os.OpenFile(tr.path("f"), os.O_WRONLY, 0); werr == nil {
					w.Close()
				}
				err = <-got
			}
			if !errors.Is(err, ErrMoved) {
				t.Errorf("openIn = %v, want ErrMoved", err)
			}
		})
	}
}

// moment is a context that lets something happen when it is asked for the second time.
type moment struct {
	context.Context
	asked int
	then  func() error
}

func (m *moment) Err() error {
	if m.asked++; m.asked > 1 {
		return m.then()
	}
	return nil
}

// Giving a file that has other names a file of its own can fail in the middle.
func TestOutputThatCannotBeTakenLeavesNothingBehind(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(tr *tree) error
		want error
		left string
	}{
		"the run ends":         {func(*tree) error { return context.Canceled }, context.Canceled, "kept"},
		"the file is replaced": {func(tr *tree) error { os.Remove(tr.path("f")); tr.put("f", "another's"); return nil }, ErrMoved, "another's"},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			other := filepath.Join(tr.outside, "rc")
			putFile(t, other, "kept")
			if err := os.Link(other, tr.path("f")); err != nil {
				t.Skipf("no hard links here: %v", err)
			}
			f, err := tr.OpenOutput(&moment{Context: t.Context(), then: func() error { return tc.then(tr) }}, "f", true)
			if err == nil {
				f.Close()
			}
			if !errors.Is(err, tc.want) || tr.get("f") != tc.left || getFile(t, other) != "kept" {
				t.Errorf("OpenOutput = %v; f holds %q, its other name %q", err, tr.get("f"), getFile(t, other))
			}
			tr.noTemporary()
		})
	}
}
