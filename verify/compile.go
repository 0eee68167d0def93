package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Lang names a language whose files can be compiled one by one.
type Lang string

// Rust is compiled with rustc, edition 2021.
const Rust Lang = "rust"

// The steps of a compile probe, as Verdict.Step names the one that failed.
const (
	stepCompile = "subject-compile" // the file does not compile, or is not there
	stepEmptied = "subject-emptied" // it compiles, and its own items are gone
)

const (
	maxSource = 16 << 20 // bytes of one source file
	probeItem = "__harness_probe"
)

// CompileCriterion compiles files one by one. [EachCompiles] makes one.
type CompileCriterion struct {
	lang     Lang
	files    []string
	compiler CommandCriterion
}

// EachCompiles passes when every file compiles alone, as a root of its own, and
// has kept its own items. Files are taken in order, and the first that fails ends
// the evaluation; one that is missing fails.
//
// A file cannot decide its own verdict: nothing is compiled into it, so it cannot
// shadow what the check uses, and an attribute that removes all items before they
// are type-checked is found, because an item that the check appended must still
// be there afterwards.
//
// The compiler is started by [Env].Run after the policy allowed its name and the
// whole command. Its files are in a directory below Env.Temp, and it is started in
// the root of the file system, so that no rust-toolchain.toml of the run's names
// another compiler. Rust is the one language that is supported.
func EachCompiles(lang Lang, files ...string) CompileCriterion {
	return CompileCriterion{lang, slices.Clone(files), Command("rustc")}
}

// Describe lists the files.
func (c CompileCriterion) Describe() string {
	return fmt.Sprintf("Each of these %s files must compile alone, with its own items in place: %s", c.lang, strings.Join(c.files, ", "))
}

// Phase is PhaseCompiles.
func (c CompileCriterion) Phase() Phase { return PhaseCompiles }

// Validate demands a supported language and files below the root.
func (c CompileCriterion) Validate() error {
	if c.lang != Rust {
		return &InvalidError{"lang", fmt.Sprintf("%q is not supported: only %q is", c.lang, Rust)}
	}
	if len(c.files) == 0 {
		return &InvalidError{"files", "is empty: name the files that must compile"}
	}
	for _, f := range c.files {
		if err := validFile("files", f); err != nil {
			return err
		}
	}
	return nil
}

func (c CompileCriterion) parts() []Criterion { return nil }

func (c CompileCriterion) prepare(ctx context.Context, env Env) (Criterion, error) {
	ready, err := c.compiler.prepare(ctx, env)
	if err != nil {
		return nil, asPhase(PhaseCompiles, err)
	}
	c.compiler = ready.(CommandCriterion)
	return c, nil
}

func asPhase(p Phase, err error) error {
	var g *GateError
	if errors.As(err, &g) {
		return &GateError{p, g.Doing, g.Err}
	}
	return err
}

func (c CompileCriterion) evaluate(ctx context.Context, env Env) (Verdict, error) {
	if env.Run == nil {
		return Verdict{}, missing(PhaseCompiles, "Run")
	}
	if env.Temp == "" {
		return Verdict{}, missing(PhaseCompiles, "Temp, and the compiler must write somewhere outside the workspace")
	}
	program, tampered, err := c.compiler.program(env)
	if err != nil {
		return Verdict{}, asPhase(PhaseCompiles, err)
	}
	if tampered != "" {
		return Verdict{Detail: tampered, Reasons: []string{tampered}, TellModel: true}, nil
	}
	root, err := os.OpenRoot(env.Root)
	if err != nil {
		return Verdict{}, fail(PhaseCompiles, "open the workspace", err)
	}
	defer root.Close()
	for _, file := range c.files {
		if v, err := c.probe(ctx, env, root, program, file); err != nil || !v.Passed {
			return v, err
		}
	}
	return Verdict{Passed: true}, nil
}

// probe compiles one file with an item appended, and then a second crate that
// needs that item and nothing else of the file.
func (c CompileCriterion) probe(ctx context.Context, env Env, root *os.Root, program, file string) (Verdict, error) {
	source, err := readSource(root, filepath.FromSlash(file))
	if absent(err) {
		return Verdict{Step: stepCompile, Detail: file + ": missing", TellModel: true}, nil
	}
	if err != nil {
		return Verdict{}, fail(PhaseCompiles, "read "+file, err)
	}
	dir, remove, err := probeDir(env.Temp, map[string][]byte{
		"subject.rs": append(source, "\n#[doc(hidden)]\npub fn "+probeItem+"() {}\n"...),
		"probe.rs":   []byte("#![no_std]\nextern crate subject;\npub use subject::" + probeItem + ";\n"),
	})
	if err != nil {
		return Verdict{}, fail(PhaseCompiles, "write the source for the compiler", err)
	}
	defer remove()
	for _, s := range probeSteps(dir) {
		// rustup takes the compiler that a rust-toolchain.toml in the working directory
		// or above it names, and the run may write both the workspace and Temp.
		res, err := start(ctx, env, PhaseCompiles, s.argv, program, filepath.VolumeName(dir)+string(filepath.Separator))
		if err != nil {
			return Verdict{}, err
		}
		v := Command(s.argv...).judge(res)
		v.Phase = PhaseCompiles
		if !v.Passed {
			v.Step = s.step
			v.Detail = file + ": " + s.step + ": " + v.Detail
			return v, nil
		}
	}
	return Verdict{Passed: true}, nil
}

// probeStep is one command of a probe.
type probeStep struct {
	step string
	argv []string
}

func probeSteps(dir string) []probeStep {
	at := func(name string) string { return filepath.Join(dir, name) }
	return []probeStep{
		{stepCompile, []string{"rustc", "--edition", "2021", "--crate-type", "lib", "--crate-name", "subject", at("subject.rs"), "-o", at("libsubject.rlib")}},
		{stepEmptied, []string{"rustc", "--edition", "2021", "--crate-type", "lib", "--emit", "metadata", "--extern", "subject=" + at("libsubject.rlib"), "--out-dir", dir, at("probe.rs")}},
	}
}

// probeDir makes a directory in temp with these files, and what removes it. What
// the run left running may write temp: no link that it puts in the place of the
// directory or of a file may lead a write out of there.
func probeDir(temp string, files map[string][]byte) (dir string, remove func(), err error) {
	root, err := os.OpenRoot(temp)
	if err != nil {
		return "", nil, err
	}
	name := "compile-" + rand.Text()
	undo := func() {
		root.RemoveAll(name)
		root.Close()
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	if err := root.Mkdir(name, 0o700); err != nil {
		return "", nil, err
	}
	for file, data := range files {
		f, err := root.OpenFile(filepath.Join(name, file), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return "", nil, err
		}
		_, err = f.Write(data)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", nil, err
		}
	}
	return filepath.Join(temp, name), undo, nil
}

func readSource(root *os.Root, name string) ([]byte, error) {
	f, info, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxSource {
		return nil, fmt.Errorf("it has %d bytes, and at most %d are compiled", info.Size(), maxSource)
	}
	return io.ReadAll(io.LimitReader(f, maxSource))
}
