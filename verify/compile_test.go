package verify

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
)

func newRustBench(t *testing.T) *bench {
	b := newBench(t)
	if out, err := exec.Command("rustc", "--version").CombinedOutput(); err != nil {
		t.Skipf("no usable rustc on this host: %v: %s", err, out)
	}
	b.profile.Limits.CPU = 0 // a busy machine compiles slowly
	return b
}

func TestAFileCompilesAloneAndKeepsItsItems(t *testing.T) {
	b := newRustBench(t)
	b.write("good.rs", "pub fn f() -> i32 { 1 }\n")
	b.write("attribute.rs", "#![allow(dead_code)]\n#![deny(missing_docs)]\n//! Words.\nfn f() {}")
	b.write("nostd.rs", "#![no_std]\npub fn f() {}")
	b.write("shadow.rs", "#[macro_export]\nmacro_rules! assert { ($($t:tt)*) => {} }\npub fn f() {}\n")
	b.write("emptied.rs", "#![cfg(any())]\npub fn f() -> i32 { \"no number\" }\n")
	b.write("lastwords.rs", "pub fn f() {}\n#[cfg(any())]\n")
	b.write("broken.rs", "pub fn f( {")
	b.write("comment.rs", "pub fn f() {}\n/* never closed")
	for _, tc := range []struct {
		file, step string
	}{
		{"good.rs", ""},
		{"attribute.rs", ""},
		{"nostd.rs", ""},
		{"shadow.rs", ""},
		{"emptied.rs", stepEmptied},
		{"lastwords.rs", stepEmptied},
		{"broken.rs", stepCompile},
		{"comment.rs", stepCompile},
		{"missing.rs", stepCompile},
	} {
		t.Run(tc.file, func(t *testing.T) {
			v := b.judge(EachCompiles(Rust, tc.file))
			if v.Passed != (tc.step == "") || v.Step != tc.step || v.Phase != PhaseCompiles {
				t.Errorf("verdict = %+v, want the failing step %q", v, tc.step)
			}
			if tc.file == "missing.rs" && v.Detail != "missing.rs: missing" {
				t.Errorf("detail = %q, want it to say that the file is missing", v.Detail)
			}
			if tc.step != "" && !strings.Contains(v.Feedback(), tc.file) {
				t.Errorf("feedback %q does not name the file", v.Feedback())
			}
		})
	}
	t.Run("the first that fails ends it", func(t *testing.T) {
		b.spawned = nil
		v := b.judge(EachCompiles(Rust, "good.rs", "broken.rs", "emptied.rs"))
		if !strings.HasPrefix(v.Detail, "broken.rs") || len(b.spawned) != 3 {
			t.Errorf("verdict = %+v after %d commands, want broken.rs after 3", v, len(b.spawned))
		}
	})
}

func TestTheCompilerIsAskedOfThePolicyEachTime(t *testing.T) {
	b := newRustBench(t)
	b.write("good.rs", "pub fn f() {}")
	b.passes(EachCompiles(Rust, "good.rs"))
	if len(b.asked) != 2 || !strings.HasPrefix(b.asked[0], "rustc ") || !strings.HasPrefix(b.asked[1], "rustc ") {
		t.Errorf("asked %q, want both commands by the name rustc", b.asked)
	}
	b.spawned = nil
	b.pol = policy.Permissive().Layer("x").DenyExec("rustc")
	if err := b.errs(EachCompiles(Rust, "good.rs")); !errors.Is(err, policy.ErrRefused) || len(b.spawned) != 0 {
		t.Errorf("error = %v with %d commands started, want a refusal and none", err, len(b.spawned))
	}
}

func TestACompilerThatIsNotThereIsAnError(t *testing.T) {
	b := newBench(t)
	b.write("good.rs", "pub fn f() {}")
	b.path = t.TempDir()
	err := b.errs(b.prepare(EachCompiles(Rust, "good.rs")))
	var g *GateError
	if !errors.Is(err, sandbox.ErrMissing) || !errors.As(err, &g) || g.Phase != PhaseCompiles {
		t.Errorf("error = %v, want the missing program in the phase compiles", err)
	}
	env := b.env()
	env.Temp = ""
	if _, err := Evaluate(context.Background(), EachCompiles(Rust, "good.rs"), env); err == nil || !strings.Contains(err.Error(), "Temp") {
		t.Errorf("error = %v, want one that names Temp", err)
	}
}

func TestOnlyKnownLanguagesAreCompiled(t *testing.T) {
	for _, c := range []Criterion{EachCompiles("cobol", "a"), EachCompiles(Rust)} {
		var invalid *InvalidError
		if err := c.Validate(); !errors.As(err, &invalid) {
			t.Errorf("Validate of %s = %v, want an *InvalidError", c.Describe(), err)
		}
	}
}

// A rust-toolchain.toml in the working directory, or above it, names the compiler.
func TestTheCompilerStartsWhereTheRunWritesNothing(t *testing.T) {
	b := newBench(t)
	b.write("good.rs", "pub fn f() {}")
	env := b.env()
	env.Resolve = func(string) (string, error) { return "/usr/bin/rustc", nil }
	var dirs []string
	env.Run = func(_ context.Context, cmd sandbox.Cmd) (*sandbox.Result, error) {
		dirs = append(dirs, cmd.Dir)
		return &sandbox.Result{}, nil
	}
	v, err := Evaluate(t.Context(), EachCompiles(Rust, "good.rs"), env)
	if err != nil || !v.Passed || len(dirs) != 2 {
		t.Fatalf("%+v, %v after commands in %q", v, err, dirs)
	}
	for _, dir := range dirs {
		if dir != "/" {
			t.Errorf("the compiler was started in %q", dir)
		}
	}
}

func TestWhatIsWrittenForTheCompilerStaysInItsDirectory(t *testing.T) {
	temp := t.TempDir()
	dir, remove, err := probeDir(temp, map[string][]byte{"a.rs": []byte("a"), "b.rs": []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "b.rs")); err != nil || string(got) != "b" {
		t.Errorf("read %q, %v", got, err)
	}
	remove()
	if _, _, err := probeDir(temp, map[string][]byte{"../../out.rs": nil}); err == nil {
		t.Error("a file was written outside")
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
