package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

// doors are all methods that act on one named path, by what they need.
func doors(tr *tree) map[policy.Act]map[string]func(ctx context.Context, p string) error {
	closing := func(f *os.File, err error) error {
		if f != nil {
			f.Close()
		}
		return err
	}
	return map[policy.Act]map[string]func(context.Context, string) error{
		policy.Read: {
			"ReadTyped": func(ctx context.Context, p string) error { return second(tr.ReadTyped(ctx, p)) },
			"ReadFile":  func(ctx context.Context, p string) error { return second(tr.ReadFile(ctx, p)) },
			"ReadBytes": func(ctx context.Context, p string) error { return second(tr.ReadBytes(ctx, p)) },
			"ReadLines": func(ctx context.Context, p string) error { return second(tr.ReadLines(ctx, p, 1, 1, 0)) },
			"Digest":    func(ctx context.Context, p string) error { return second(tr.Digest(ctx, p)) },
			"ListDir":   func(ctx context.Context, p string) error { return second(tr.ListDir(ctx, p, 5)) },
			"OpenInput": func(ctx context.Context, p string) error { return closing(tr.OpenInput(ctx, p)) },
			"PreviewEdit": func(ctx context.Context, p string) error {
				return second(tr.PreviewEdit(ctx, p, "text", "other"))
			},
		},
		policy.Write: {
			"WriteFile": func(ctx context.Context, p string) error {
				return second(tr.WithJournal(nil).WriteFile(ctx, p, "text\n"))
			},
			"WriteBytes": func(ctx context.Context, p string) error {
				return second(tr.WithJournal(nil).WriteBytes(ctx, p, []byte("text\n")))
			},
			"EditFile": func(ctx context.Context, p string) error {
				return second(tr.WithJournal(nil).EditFile(ctx, p, "text", "text"))
			},
			"PatchFile": func(ctx context.Context, p string) error {
				_, _, err := tr.WithJournal(nil).PatchFile(ctx, p, "@@ -1 +1 @@\n-text\n+text\n")
				return err
			},
			"Revert": func(ctx context.Context, p string) error {
				return second(tr.WithJournal(nil).Revert(ctx, p, "@@ -1 +1 @@\n-text\n+text\n"))
			},
			"OpenOutput": func(ctx context.Context, p string) error { return closing(tr.OpenOutput(ctx, p, true)) },
		},
	}
}

// What CheckPath denies, every method refuses, with the same rule; what it does not
// deny, none refuses. Where a change must be read first, the read counts as well.
func TestEveryMethodEnforcesWhatCheckPathSays(t *testing.T) {
	p := policy.Permissive().Layer("ops").DenyRead("secrets/*", ".env").DenyWrite("ro/*", "secrets/*").AskWrite("ask/*").AskRead("ask/*")
	tr := newTree(t, p)
	for _, f := range []string{"secrets/k", ".env/prod", "ro/a", "ask/a", "ok/a"} {
		tr.put(f, "text\n")
	}
	putFile(t, filepath.Join(tr.outside, "f"), "text\n")
	tr.link("../ro/a", "ok/ro")
	tr.link("../secrets", "ok/s")
	tr.link(tr.outside, "out")
	needsRead := map[string]bool{"EditFile": true, "PatchFile": true, "Revert": true}
	refused, served := 0, 0
	for act, methods := range doors(tr) {
		for name, call := range methods {
			for _, path := range []string{
				"secrets/k", "./secrets/../secrets/k", "secrets/new", ".env/prod", "ro/a", "ro/new", "ask/a", "ok/a", "ok/ro", "ok/s/k", "ok/s/new", "ok/new", "out/f", "out/new", "../x", "/etc/hosts",
			} {
				v := tr.CheckPath(act, path)
				if r := tr.CheckPath(policy.Read, path); needsRead[name] && v.Effect != policy.Deny {
					v = r
				}
				err := call(t.Context(), path)
				var re *policy.RefusedError
				if got := errors.As(err, &re); got != (v.Effect == policy.Deny) {
					t.Errorf("%s(%q) = %v, and CheckPath says %+v", name, path, err, v)
				} else if got && re.Rule != v.Rule {
					t.Errorf("%s(%q) is refused by %q, and CheckPath says %q", name, path, re.Rule, v.Rule)
				} else if got {
					refused++
				} else {
					served++
				}
				if name == "WriteFile" || name == "WriteBytes" || name == "OpenOutput" {
					for _, made := range []string{"ok/new", "ro/new"} {
						_ = os.Remove(tr.path(made))
					}
				}
			}
		}
	}
	if refused < 50 || served < 50 {
		t.Errorf("%d refused and %d not, which are too few to say anything", refused, served)
	}
	tr.absent("secrets/new")
}

// A refusal never tells whether there is something at the path, by any method.
func TestNoRefusalTellsWhatIsThere(t *testing.T) {
	tr := newTree(t, policy.Permissive().Layer("ops").DenyRead("secrets/*").DenyWrite("secrets/*"))
	tr.put("secrets/aa", "CONTENT\n")
	tr.put("secrets/bb/x", "CONTENT\n")
	tr.put("public", "CONTENT\n")
	tr.link("dd", "secrets/dd")            // a loop
	tr.link("../../outside", "secrets/ee") // out of the root
	tr.link("../public", "secrets/ff")
	for act, methods := range doors(tr) {
		for name, call := range methods {
			var texts []string
			for _, p := range []string{"secrets/aa", "secrets/bb", "secrets/cc", "secrets/dd", "secrets/ee", "secrets/ff"} { // a file, a directory, nothing, links
				err := call(t.Context(), p)
				if err == nil {
					t.Fatalf("%s(%q) was served", name, p)
				}
				texts = append(texts, strings.ReplaceAll(err.Error(), p, "PATH"))
			}
			if len(slices.Compact(slices.Clone(texts))) != 1 || strings.Contains(texts[0], "CONTENT") {
				t.Errorf("%s: a %s is refused differently for a file, a directory, nothing and links: %q", name, act, texts)
			}
		}
	}
}

// The permissive policy holds the root and the name of git's own file, and nothing else.
func TestThePermissivePolicyHoldsTheRootOnly(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for _, p := range []string{".env", "id_rsa", "a.pem", "io.toml", "io.local.toml", ".git/config", ".git/hooks/pre-commit", "sub/.git/config", "node_modules/x"} {
		if _, err := tr.WithJournal(nil).WriteFile(t.Context(), p, "text\n"); err != nil {
			t.Errorf("WriteFile(%q) = %v", p, err)
		}
		if got, err := tr.ReadFile(t.Context(), p); err != nil || got != "text\n" {
			t.Errorf("ReadFile(%q) = %q, %v", p, got, err)
		}
	}
	for act, methods := range doors(tr) {
		for name, call := range methods {
			for _, p := range []string{"../x", "..", "/etc/hosts", "a/../../x"} {
				if err := call(t.Context(), p); !refusedBy(err) {
					t.Errorf("%s of %q by %s = %v", act, p, name, err)
				}
			}
		}
	}
}
