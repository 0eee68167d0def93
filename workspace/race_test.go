package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

// attack runs a goroutine that keeps exchanging two things at one path, until
// the function that it returns is called.
func attack(t *testing.T, exchange func()) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				exchange()
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// swap puts next in the place of rel in one rename, and keeps what was there.
func (tr *tree) swapper(rel, spare string) func() {
	return func() {
		_ = os.Rename(tr.path(rel), tr.path("tmp-swap"))
		_ = os.Rename(tr.path(spare), tr.path(rel))
		_ = os.Rename(tr.path("tmp-swap"), tr.path(spare))
	}
}

func TestDirectorySwappedForALinkLeadsNobodyOut(t *testing.T) {
	for name, portable := range map[string]bool{"as on this system": false, "portable": true} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive().Layer("ops").DenyRead("secrets/*").DenyWrite("secrets/*"))
			if portable {
				usePortable(t, tr.Workspace)
			}
			putFile(t, filepath.Join(tr.outside, "f.txt"), "OUTSIDE\n")
			tr.put("secrets/f.txt", "DENIED\n")
			tr.put("dir/f.txt", "inside\n")
			tr.link(tr.outside, "spare1")
			tr.link("secrets", "spare2")
			n := 0
			exchanges := []func(){tr.swapper("dir", "spare1"), tr.swapper("dir", "spare2")}
			stop := attack(t, func() {
				e := exchanges[n/2%2] // in and out again, then the other
				n++
				e()
			})
			served := 0
			for i := range 6000 {
				got, err := tr.WithJournal(nil).ReadFile(t.Context(), "dir/f.txt")
				if strings.Contains(got, "OUTSIDE") || strings.Contains(got, "DENIED") {
					t.Fatalf("ReadFile = %q", got)
				}
				if err == nil {
					served++
				}
				if i%100 != 0 { // a write waits for the disk, several times
					continue
				}
				_, _ = tr.WithJournal(nil).WriteFile(t.Context(), "dir/f.txt", "inside\n")
				_, _ = tr.WriteFile(t.Context(), "dir/new.txt", "inside\n")
				if m, err := tr.Grep(t.Context(), "OUTSIDE|DENIED", "dir/*", 5); err == nil && m.Total > 0 {
					t.Fatalf("Grep found %+v", m)
				}
			}
			stop()
			if served == 0 {
				t.Error("no read was ever served, so the race was not tried")
			}
			if got := getFile(t, filepath.Join(tr.outside, "f.txt")); got != "OUTSIDE\n" {
				t.Errorf("the file outside holds %q", got)
			}
			if got := tr.get("secrets/f.txt"); got != "DENIED\n" {
				t.Errorf("the denied file holds %q", got)
			}
			for _, d := range []string{tr.outside, tr.path("secrets")} {
				if entries, err := os.ReadDir(d); err != nil || len(entries) != 1 {
					t.Errorf("%s now holds %v, %v", d, entries, err)
				}
			}
		})
	}
}

func TestLeafSwappedForALinkIsNotFollowed(t *testing.T) {
	for name, portable := range map[string]bool{"as on this system": false, "portable": true} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive().Layer("ops").DenyRead("secret").DenyWrite("secret"))
			if portable {
				usePortable(t, tr.Workspace)
			}
			target := filepath.Join(tr.outside, "f")
			putFile(t, target, "OUTSIDE\n")
			tr.put("secret", "DENIED\n")
			tr.put("leaf", "inside\n")
			tr.link(target, "spare1")
			tr.link("secret", "spare2")
			n := 0
			exchanges := []func(){tr.swapper("leaf", "spare1"), tr.swapper("leaf", "spare2")}
			stop := attack(t, func() {
				e := exchanges[n/2%2]
				n++
				e()
			})
			for i := range 6000 {
				got, _ := tr.WithJournal(nil).ReadFile(t.Context(), "leaf")
				if got != "" && got != "inside\n" {
					t.Fatalf("ReadFile = %q", got)
				}
				if i%60 != 0 {
					continue
				}
				_, _ = tr.WithJournal(nil).WriteFile(t.Context(), "leaf", "inside\n")
				_, _ = tr.WithJournal(nil).EditFile(t.Context(), "leaf", "inside", "inside")
			}
			stop()
			if got := getFile(t, target); got != "OUTSIDE\n" {
				t.Errorf("the file outside holds %q", got)
			}
			if got := tr.get("secret"); got != "DENIED\n" {
				t.Errorf("the denied file holds %q", got)
			}
		})
	}
}

// usePortable makes the workspace do without openat2, as on other systems.
func usePortable(t *testing.T, w *Workspace) {
	t.Helper()
	w.dir.portable = true
	if _, err := w.dir.openBeneath("x", false); !errors.Is(err, errors.ErrUnsupported) {
		t.Fatalf("openBeneath = %v, want ErrUnsupported", err)
	}
}

func TestWritersOfOneFileTakeTurns(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	const workers, each = 8, 25
	tr.put("count", strings.Repeat("x\n", 1))
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			w := tr.WithJournal(nil).WithTool("worker")
			for range each {
				// Every edit is based on what is there at that moment, so none is lost.
				if _, err := w.EditFile(t.Context(), "count", "x\n", "x\n"+string(rune('a'+i))+"\n"); err != nil {
					t.Errorf("edit: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := strings.Count(tr.get("count"), "\n"); got != workers*each+1 {
		t.Errorf("%d lines, want %d: an edit was lost", got, workers*each+1)
	}
	tr.noTemporary()
}

// What the attacker above wins now and then is tried here every time: the path
// was resolved, and then became a link.
func TestResolvedPathThatBecameALinkIsNotOpened(t *testing.T) {
	for name, portable := range map[string]bool{"as on this system": false, "portable": true} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.dir.portable = portable
			tr.put("secrets/f.txt", "DENIED\n")
			tr.put("secrets/sub/g.txt", "DENIED\n")
			tr.link("secrets", "dir")
			tr.link("secrets/f.txt", "leaf")
			for _, p := range []string{"dir/f.txt", "leaf", "dir/sub/g.txt"} {
				if f, _, err := tr.dir.openFile(p); err == nil {
					f.Close()
					t.Errorf("openFile(%q) followed a link", p)
				}
				if tt, err := tr.target(t.Context(), p); err == nil {
					tt.close()
					t.Errorf("target(%q) followed a link", p)
				}
			}
			for _, p := range []string{"dir", "dir/sub"} {
				if d, err := tr.dir.openDir(p, true); !errors.Is(err, ErrMoved) {
					if d != nil {
						d.Close()
					}
					t.Errorf("openDir(%q) = %v, want ErrMoved", p, err)
				}
				if f, err := tr.dir.openList(p); err == nil {
					f.Close()
					t.Errorf("openList(%q) followed a link", p)
				}
			}
		})
	}
}

func TestFileThatIsNotTheOneThatWasSeenIsNotUsed(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("d/a", "one")
	tr.put("d/b", "two")
	d, err := tr.dir.openDir("d", false)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	seen, err := d.Lstat("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(tr.path("d/a")); err != nil {
		t.Fatal(err)
	}
	tr.link("b", "d/a")
	if f, err := openIn(d, "a", "d/a", os.O_RDONLY, seen); !errors.Is(err, ErrMoved) {
		if f != nil {
			f.Close()
		}
		t.Errorf("openIn = %v, want ErrMoved", err)
	}
}
