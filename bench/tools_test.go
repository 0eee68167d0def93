package bench

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/workspace"
)

// BenchmarkPolicyDecision is what one decision costs under a policy of n rules
// that all must be looked at: none of them matches.
func BenchmarkPolicyDecision(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		pol := policy.Permissive()
		for i := range n / 2 {
			pol = pol.Layer(fmt.Sprint("layer", i/10)).DenyRead(fmt.Sprintf("secrets%d/*", i)).DenyExec(fmt.Sprintf("tool%d push*", i))
		}
		for _, need := range []policy.Need{
			{Act: policy.Read, Target: "src/module/handler.go", Resolved: "/home/me/project/src/module/handler.go"},
			{Act: policy.Exec, Target: "go", Argv: []string{"go", "test", "./..."}},
		} {
			b.Run(fmt.Sprintf("%s/%d", need.Act, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if pol.Check(need).Effect != policy.Allow {
						b.Fatal("denied")
					}
				}
			})
		}
	}
}

// BenchmarkSearch is grep and find over 50,000 files under a policy with a few
// denies. The metric is how many times as long it takes as the programs that
// people use for it, measured in the same run: below 1 is faster.
func BenchmarkSearch(b *testing.B) {
	const dirs, files = 500, 100
	root := b.TempDir()
	for d := range dirs {
		dir := filepath.Join(root, fmt.Sprintf("m%02d", d%25), fmt.Sprintf("p%03d", d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			b.Fatal(err)
		}
		for f := range files {
			text := strings.Repeat("func handle(w http.ResponseWriter, r *http.Request) error { return nil }\n", 12)
			if d%100 == 0 && f == 7 {
				text += "// the needle is here\n"
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%03d.go", f)), []byte(text), 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	ws, err := workspace.Open(root, policy.Default())
	if err != nil {
		b.Fatal(err)
	}
	defer ws.Close()
	for _, s := range []struct {
		name string
		ours func() (int, error)
		// others are command lines that do the same.
		others [][]string
	}{
		{"grep", func() (int, error) {
			m, err := ws.Grep(b.Context(), "the needle", "", 50)
			return m.Total, err
		}, [][]string{{"rg", "--no-messages", "--no-ignore", "--hidden", "the needle", "."}, {"grep", "-rn", "the needle", "."}}},
		{"grep of an expression", func() (int, error) {
			m, err := ws.Grep(b.Context(), `need[lL]e is \w+`, "", 50)
			return m.Total, err
		}, [][]string{{"rg", "--no-messages", "--no-ignore", "--hidden", `need[lL]e is \w+`, "."}, {"grep", "-rnE", `need[lL]e is \w+`, "."}}},
		{"find", func() (int, error) {
			f, err := ws.Find(b.Context(), "file007.go", 500)
			return f.Total, err
		}, [][]string{{"find", ".", "-name", "file007.go"}, {"rg", "--files", "--no-ignore", "--hidden", "-g", "file007.go", "."}}},
	} {
		b.Run(s.name, func(b *testing.B) {
			var own time.Duration
			rounds := 0
			for b.Loop() {
				began := time.Now()
				n, err := s.ours()
				own += time.Since(began)
				if rounds++; err != nil || n == 0 {
					b.Fatal(n, err)
				}
			}
			b.StopTimer()
			own /= time.Duration(rounds)
			for _, argv := range s.others {
				file, err := exec.LookPath(argv[0])
				if err != nil {
					b.Logf("%s is not installed", argv[0])
					continue
				}
				const times = 3
				began := time.Now()
				for range times {
					cmd := exec.Command(file, argv[1:]...)
					cmd.Dir, cmd.Stdout = root, io.Discard
					if err := cmd.Run(); err != nil {
						b.Fatal(argv, err)
					}
				}
				b.ReportMetric(float64(own)/float64(time.Since(began)/times), "x-"+argv[0])
			}
		})
	}
}

// BenchmarkEdit is one edit in the middle of a file of 1 MiB, flushed to the disk,
// and as a ratio to writing and flushing the same bytes plainly.
func BenchmarkEdit(b *testing.B) {
	root := b.TempDir()
	ws, err := workspace.Open(root, policy.Permissive())
	if err != nil {
		b.Fatal(err)
	}
	defer ws.Close()
	half := strings.Repeat("a line of a file that is large for a source\n", 1<<19/44)
	text := half + "state = A\n" + half
	if _, err := ws.WriteFile(b.Context(), "big.txt", text); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var own time.Duration
	rounds := 0
	from, to := "state = A", "state = B"
	for b.Loop() {
		began := time.Now()
		if _, err := ws.EditFile(b.Context(), "big.txt", from, to); err != nil {
			b.Fatal(err)
		}
		own += time.Since(began)
		from, to = to, from
		rounds++
	}
	b.StopTimer()
	began := time.Now()
	for range rounds {
		f, err := os.Create(filepath.Join(root, "plain.txt"))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
	b.ReportMetric(float64(own)/float64(time.Since(began)), "x-plain-write")
}
