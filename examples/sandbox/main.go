// Command sandbox runs a program that a model wrote, without an agent around it:
// in a directory of its own, with no network, under ceilings. It shows what the
// host really applied, and then looks for itself whether the program got out.
//
// It exits with 0 only if the attempts to escape failed, or if this host could
// not hold the boundary and the result said so.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/toolchain"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	work, err := os.MkdirTemp("", "model-program-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for name, text := range map[string]string{"go.mod": "module program\n\ngo 1.21\n", "main.go": program} {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := build(ctx, work); err != nil {
		return err
	}
	bait, err := newBait()
	if err != nil {
		return err
	}
	defer bait.close()
	r, err := try(ctx, out, work, bait)
	if err != nil {
		return err
	}
	if err := bait.judge(out, r.Applied); err != nil {
		return err
	}
	return spin(ctx, out, work)
}

// build compiles the program, which is a command like any other: the compiler may
// write its caches, and the workspace, and nothing else.
func build(ctx context.Context, work string) error {
	p := sandbox.Profile{Workspace: work}
	if chain, ok := toolchain.Detect(work); ok {
		caches := chain.Caches()
		p, _ = p.Grant(caches.Dirs, caches.Env)
	}
	r, err := sandbox.Run(ctx, sandbox.Cmd{Argv: []string{"go", "build", "-o", "program.exe", "."}}, p)
	if err != nil {
		return err
	}
	if !r.Success() {
		return fmt.Errorf("the program does not compile: %s", r.Text(0))
	}
	return nil
}

// try runs the program under the ceilings of a gate and shows what it said and
// what it was held to.
func try(ctx context.Context, out io.Writer, work string, b *bait) (*sandbox.Result, error) {
	p := sandbox.Profile{Workspace: work, Limits: sandbox.DefaultLimits()}
	r, err := sandbox.Run(ctx, sandbox.Cmd{Argv: []string{"./program.exe", b.file, b.listener.Addr().String()}}, p)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "applied: %s\n", r.Applied)
	for _, why := range r.Applied.Why {
		fmt.Fprintf(out, "  passed over %s\n", why)
	}
	for line := range strings.Lines(r.Stdout.String()) {
		fmt.Fprint(out, "| ", line)
	}
	if !r.Success() {
		return nil, fmt.Errorf("the program failed: exit %d %s: %s", r.Exit, r.Signal, r.Text(0))
	}
	return r, nil
}

// spin shows a ceiling at work: the program would never end.
func spin(ctx context.Context, out io.Writer, work string) error {
	p := sandbox.Profile{Workspace: work, Limits: sandbox.Limits{Wall: 500 * time.Millisecond}}
	r, err := sandbox.Run(ctx, sandbox.Cmd{Argv: []string{"./program.exe", "spin"}}, p)
	if err != nil {
		return err
	}
	if r.Cap != sandbox.CapWall {
		return fmt.Errorf("the endless program ended with exit %d and was not stopped", r.Exit)
	}
	fmt.Fprintf(out, "an endless program was stopped by the %s ceiling\n", r.Cap)
	return nil
}

// bait is what the program should not get at: a file outside of its directory,
// and a server of this process.
type bait struct {
	dir, file string
	listener  net.Listener
	visits    atomic.Int32
	done      chan struct{}
}

func newBait() (*bait, error) {
	dir, err := os.MkdirTemp("", "outside-*")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	b := &bait{dir: dir, file: filepath.Join(dir, "written"), listener: l, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.visits.Add(1)
			_ = c.Close()
		}
	}()
	return b, nil
}

func (b *bait) close() {
	_ = b.listener.Close()
	<-b.done
	_ = os.RemoveAll(b.dir)
}

// judge compares what happened with what the host said that it holds. It takes
// nobody's word for it, the program's least of all.
func (b *bait) judge(out io.Writer, a sandbox.Applied) error {
	_, err := os.Stat(b.file)
	wrote, dialled := err == nil, b.visits.Load() > 0
	for _, t := range []struct {
		what          string
		escaped, held bool
	}{
		{"a file outside of its directory", wrote, a.Confined()},
		{"a server of this machine", dialled, a.Egress == sandbox.EgressNone},
	} {
		switch {
		case t.escaped && t.held:
			return fmt.Errorf("the program got at %s although %s says that it holds that", t.what, a.Rung)
		case t.escaped:
			fmt.Fprintf(out, "the program got at %s: this host cannot hold that, and said so\n", t.what)
		default:
			fmt.Fprintf(out, "the program did not get at %s\n", t.what)
		}
	}
	return nil
}
