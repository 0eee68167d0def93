package workspace

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
)

func TestCleanPath(t *testing.T) {
	long := strings.Repeat("a", 256)
	deep := strings.Repeat("d/", 2100)
	for _, tc := range []struct {
		in      string
		windows bool
		want    string
		bad     string // part of the reason; empty: it is taken
		escapes bool
	}{
		{in: "", want: ""},
		{in: ".", want: ""},
		{in: "./", want: ""},
		{in: "src/a.go", want: "src/a.go"},
		{in: "./src//a.go", want: "src/a.go"},
		{in: "src/../README.md", want: "README.md"},
		{in: "src/./x/..", want: "src"},
		{in: "a/..", want: ""},
		{in: "...", want: "..."},
		{in: "..a/b", want: "..a/b"},
		{in: `a\b`, want: `a\b`},
		{in: `a\b`, windows: true, want: "a/b"},
		{in: "CON", want: "CON"},
		{in: "a:b", want: "a:b"},
		{in: "name. ", want: "name. "},
		{in: "..", bad: "climbs", escapes: true},
		{in: "../x", bad: "climbs", escapes: true},
		{in: "a/../../a", bad: "climbs", escapes: true},
		{in: "src/../../root/src", bad: "climbs", escapes: true},
		{in: "/etc/passwd", bad: "absolute", escapes: true},
		{in: "//x", bad: "absolute", escapes: true},
		{in: `\\server\share`, windows: true, bad: "absolute", escapes: true},
		{in: `\\?\C:\x`, windows: true, bad: "absolute", escapes: true},
		{in: `C:\x`, windows: true, bad: "drive", escapes: true},
		{in: `c:x`, windows: true, bad: "drive", escapes: true},
		{in: `..\x`, windows: true, bad: "climbs", escapes: true},
		{in: "a\x00b", bad: "NUL"},
		{in: long, bad: "255"},
		{in: deep, bad: "4095"},
		{in: "NUL", windows: true, bad: "device"},
		{in: "src/con.txt", windows: true, bad: "device"},
		{in: "aux .x", windows: true, bad: "device"},
		{in: "COM1", windows: true, bad: "device"},
		{in: "lpt9.log", windows: true, bad: "device"},
		{in: "COM¹", windows: true, bad: "device"},
		{in: "COM10", windows: true, want: "COM10"},
		{in: "COMMON", windows: true, want: "COMMON"},
		{in: "LPT", windows: true, want: "LPT"},
		{in: "conx", windows: true, want: "conx"},
		{in: "file::$DATA", windows: true, bad: "stream"},
		{in: "a/file:s", windows: true, bad: "stream"},
		{in: "dir./x", windows: true, bad: "dot or a space"},
		{in: "x ", windows: true, bad: "dot or a space"},
		{in: "a|b", windows: true, bad: "Windows names"},
	} {
		got, err := cleanPath(tc.in, tc.windows)
		switch {
		case tc.bad == "" && (err != nil || got != tc.want):
			t.Errorf("cleanPath(%.40q, windows %t) = %q, %v, want %q", tc.in, tc.windows, got, err, tc.want)
		case tc.bad != "" && (err == nil || !strings.Contains(err.Reason, tc.bad) || err.Escapes != tc.escapes):
			t.Errorf("cleanPath(%.40q, windows %t) = %q, %v, want an error with %q, escapes %t", tc.in, tc.windows, got, err, tc.bad, tc.escapes)
		}
	}
}

func TestAbsolutePathInsideTheRootIsGivenItsRelativeSpelling(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for abs, rel := range map[string]string{
		tr.path("src/a.go"):      `"src/a.go"`,
		tr.Root():                `"."`,
		tr.path("src/../x/./y/"): `"x/y"`,
	} {
		_, err := tr.Resolve(abs)
		var pe *PathError
		if !errors.As(err, &pe) || pe.Escapes || !strings.Contains(pe.Reason, rel) {
			t.Errorf("Resolve(%q) = %v, want a hint at %s", abs, err, rel)
		}
	}
	for _, p := range []string{filepath.Dir(tr.Root()), tr.Root() + "x", tr.path("../outside/a")} {
		if _, err := tr.Resolve(p); !errors.Is(err, ErrEscape) {
			t.Errorf("Resolve(%q) = %v, want ErrEscape", p, err)
		}
	}
}

func TestEscapingPathIsDeniedWhateverThePolicySays(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	putFile(t, filepath.Join(tr.outside, "x"), "secret")
	for _, p := range []string{"../outside/x", "a/../../outside/x", filepath.Join(tr.outside, "x"), "/etc/passwd", ".."} {
		for _, act := range []policy.Act{policy.Read, policy.Write} {
			if v := tr.CheckPath(act, p); v.Effect != policy.Deny || v.Rule != policy.OutsideRoot || v.Layer != "" {
				t.Errorf("CheckPath(%s, %q) = %+v, want deny by %s", act, p, v, policy.OutsideRoot)
			}
		}
		_, err := tr.ReadFile(t.Context(), p)
		wantRefused(t, err, policy.OutsideRoot)
		_, err = tr.WriteFile(t.Context(), p, "mine")
		wantRefused(t, err, policy.OutsideRoot)
		_, err = tr.ListDir(t.Context(), p, 10)
		wantRefused(t, err, policy.OutsideRoot)
	}
	if got := getFile(t, filepath.Join(tr.outside, "x")); got != "secret" {
		t.Errorf("file outside holds %q", got)
	}
}

func TestUnusablePathIsAnErrorOfTheArgument(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for _, p := range []string{"a\x00b", strings.Repeat("x", 300), strings.Repeat("a/", 3000)} {
		_, err := tr.ReadFile(t.Context(), p)
		var pe *PathError
		if !errors.As(err, &pe) || errors.Is(err, ErrEscape) {
			t.Errorf("ReadFile(%.20q…) = %v, want a PathError that is no escape", p, err)
		}
	}
}

func TestDeepNestingReadsAndWrites(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	deep := strings.Repeat("d/", 400) + "leaf.txt"
	if _, err := tr.WriteFile(t.Context(), deep, "deep\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := tr.ReadFile(t.Context(), deep); got != "deep\n" || err != nil {
		t.Errorf("ReadFile = %q, %v", got, err)
	}
	f, err := tr.Find(t.Context(), "leaf.txt", 10)
	if err != nil || f.Total != 1 || f.Paths[0] != deep {
		t.Errorf("Find found %d, %v, want the deep leaf", f.Total, err)
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"", "a/../b", "../x", `..\x`, "C:/x", "a\x00", "./.", "....", "a/./../..", "CON.txt", strings.Repeat("../", 50)} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, p string, windows bool) {
		got, err := cleanPath(p, windows)
		if err != nil {
			return
		}
		if got != "" && !filepath.IsLocal(got) && !strings.Contains(got, `\`) && !strings.Contains(got, ":") {
			t.Errorf("cleanPath(%q) = %q, which is not local", p, got)
		}
		for part := range strings.SplitSeq(got, "/") {
			if part == ".." || part == "." || part == "" && got != "" {
				t.Errorf("cleanPath(%q) = %q, which holds the part %q", p, got, part)
			}
		}
		again, err := cleanPath(got, windows)
		if err != nil || again != got {
			t.Errorf("cleanPath is not stable: %q -> %q -> %q, %v", p, got, again, err)
		}
	})
}
