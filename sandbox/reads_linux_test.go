package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDeniedReadsAreHiddenFromCommands(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			for _, d := range []string{"secrets", "src"} {
				if err := os.Mkdir(filepath.Join(a.ws, d), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(a.ws, "secrets/k"), "canary-dir")
			write(t, filepath.Join(a.ws, ".env"), "canary-file")
			write(t, filepath.Join(a.out, "victim"), "canary-out")
			write(t, filepath.Join(a.ws, "src/a"), "plain-src")
			write(t, filepath.Join(a.ws, "b"), "plain-top")
			if err := os.Symlink("../secrets/k", filepath.Join(a.ws, "src/link")); err != nil {
				t.Fatal(err)
			}
			p := forced(Profile{Workspace: a.ws, Reads: Reads{Deny: []string{
				filepath.Join(a.ws, "secrets"), filepath.Join(a.ws, "secrets/k"), filepath.Join(a.ws, ".env"), a.out, filepath.Join(a.ws, "missing"),
			}}}, rung)
			r, err := Run(t.Context(), a.script(`
				cat secrets/k .env src/link "$OUT/victim" 2>/dev/null
				cp secrets/k copy; cat copy; ln secrets/k src/hard; cat src/hard; mv secrets moved; cat moved/k; mv .env src/env; cat src/env
				mv secrets/k src/k; cat src/k; cat /proc/self/cwd/secrets/k; grep -r canary . ; tar cf - secrets .env | cat
				cat src/a b; ls >/dev/null || echo "no listing"; echo new > src/n && cat src/n; echo t > "$TMPDIR/t" && cat "$TMPDIR/t"`), p)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Applied.Reads {
				t.Fatalf("%s does not hide reads", rung)
			}
			out := r.Stdout.String()
			if strings.Contains(out, "canary") {
				t.Errorf("a denied file was read: %q", out)
			}
			for _, want := range []string{"plain-src", "plain-top", "new", "t"} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing from %q; stderr %s", want, out, r.Stderr)
				}
			}
		})
	}
}

// What must not be read may lie in the directory that commands have for their
// temporary files, as a workspace in the shared one does.
func TestDeniedReadsInTheTemporaryDirectoryAreHidden(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			temp := filepath.Dir(a.ws)
			t.Setenv("TMPDIR", temp)
			if err := os.Mkdir(filepath.Join(a.ws, "secrets"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(a.ws, "secrets/k"), "canary-dir")
			write(t, filepath.Join(a.ws, ".env"), "canary-file")
			write(t, filepath.Join(a.ws, "b"), "plain-top")
			p := forced(Profile{Workspace: a.ws, SharedTemp: true, Reads: Reads{Deny: []string{
				filepath.Join(a.ws, "secrets"), filepath.Join(a.ws, ".env"),
			}}}, rung)
			r, err := Run(t.Context(), a.script(`cat secrets/k .env; cat b; echo new > "$TMPDIR/made"; echo x > made`), p)
			if err != nil {
				t.Fatal(err)
			}
			out := r.Stdout.String()
			if strings.Contains(out, "canary") || !r.Applied.Reads {
				t.Errorf("a denied file was read: %q, and what holds is said to be %s", out, r.Applied)
			}
			if !strings.Contains(out, "plain-top") {
				t.Errorf("an ordinary file cannot be read: %q, %s", out, r.Stderr)
			}
			for _, made := range []string{filepath.Join(temp, "made"), filepath.Join(a.ws, "made")} {
				if _, err := os.Stat(made); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Hooks that are kept may lie in something that is hidden, and the other way round.
func TestWhatIsKeptMayLieInWhatIsHidden(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			put(t, a.ws, ".git/hooks/pre-commit", "old")
			put(t, a.ws, "kept/secret", "canary")
			p := forced(Profile{
				Workspace: a.ws, Protect: []string{filepath.Join(a.ws, ".git/hooks"), filepath.Join(a.ws, "kept")},
				Reads: Reads{Deny: []string{filepath.Join(a.ws, ".git"), filepath.Join(a.ws, "kept/secret")}},
			}, rung)
			r, err := Run(t.Context(), a.script(`cat .git/hooks/pre-commit kept/secret; echo x > .git/hooks/pre-commit; echo done`), p)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Stdout.String(); got != "done\n" || r.Applied.Rung != rung {
				t.Errorf("got %q under %s: %s", got, r.Applied.Rung, r.Stderr)
			}
			if rung == RungLandlock {
				return // it keeps nothing inside of what may be written
			}
			if b, err := os.ReadFile(filepath.Join(a.ws, ".git/hooks/pre-commit")); err != nil || string(b) != "old" {
				t.Errorf("the hook is %q, %v", b, err)
			}
		})
	}
}
