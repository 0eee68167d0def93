package sandbox

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"
)

// besides measures two ways of doing one thing in turn, so that both see the same
// machine, and reports the first over the second. It compares the medians: one start
// that waited for its turn on a busy machine says nothing of either way.
func besides(b *testing.B, unit string, one, plain func() error) {
	b.Helper()
	for _, f := range []func() error{one, plain} { // what is made once is not measured
		if err := f(); err != nil {
			b.Skip(err)
		}
	}
	var took [2][]time.Duration
	b.ResetTimer()
	for b.Loop() {
		for i, f := range []func() error{one, plain} {
			began := time.Now()
			if err := f(); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Nanoseconds()) / 1000
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median[0], "µs")
	b.ReportMetric(median[1], "µs-plain")
	b.ReportMetric(median[0]/median[1], unit)
}

// plainly runs a command with package os/exec, its output caught as the sandbox
// catches it.
func plainly(argv ...string) func() error {
	return func() error {
		cmd := exec.Command(argv[0], argv[1:]...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		return cmd.Run()
	}
}

// BenchmarkStart is the start and end of true on each rung over the same with
// os/exec alone, and beside it what the programs bwrap and unshare cost for it.
func BenchmarkStart(b *testing.B) {
	ws, err := b.TempDir(), error(nil)
	profiles := map[string]Profile{
		"landlock": forced(Profile{}, RungLandlock), "bubblewrap": forced(Profile{}, RungBubblewrap),
		"namespaces": forced(Profile{}, RungNamespaces), "floor": {ForceFloor: true}, "full access": {Mode: FullAccess}, "best": {},
	}
	for _, name := range []string{"best", "landlock", "bubblewrap", "namespaces", "floor", "full access"} {
		b.Run(name, func(b *testing.B) {
			p := profiles[name]
			if p.Workspace = ws; runtime.GOOS != "linux" && p.only != "" {
				b.Skip("a rung of Linux")
			}
			// One temporary directory for all commands, as a run has it.
			var remove func() error
			if p.Temp, remove, err = NewTemp(); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = remove() }()
			besides(b, "x-plain", func() error {
				_, err := Run(context.Background(), Cmd{Argv: []string{"true"}}, p)
				return err
			}, plainly("true"))
		})
	}
	for name, argv := range map[string][]string{
		"bwrap alone":   {"bwrap", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "--die-with-parent", "true"},
		"unshare alone": {"unshare", "--user", "--map-root-user", "--mount", "--pid", "--net", "--fork", "true"},
	} {
		b.Run(name, func(b *testing.B) { besides(b, "x-plain", plainly(argv...), plainly("true")) })
	}
}

// BenchmarkPipe carries 100 MiB out of a contained command, over the time that
// os/exec alone takes for it.
func BenchmarkPipe(b *testing.B) {
	const size = 100 << 20
	ws := b.TempDir()
	for name, p := range map[string]Profile{"best": {Workspace: ws}, "floor": {Workspace: ws, ForceFloor: true}} {
		b.Run(name, func(b *testing.B) {
			var got counter
			contained := func() error {
				got = 0
				_, err := Run(context.Background(), Cmd{Argv: []string{"head", "-c", "104857600", "/dev/zero"}, Stdout: &got}, p)
				if err == nil && got != size {
					b.Fatalf("%d bytes came", got)
				}
				return err
			}
			plain := func() error {
				cmd := exec.Command("head", "-c", "104857600", "/dev/zero")
				got = 0
				cmd.Stdout = &got
				return cmd.Run()
			}
			besides(b, "x-plain-time", contained, plain)
		})
	}
}

type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}

var _ io.Writer = (*counter)(nil)
