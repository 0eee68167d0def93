//go:build unix

package loop

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/trace"
)

// What a run writes keeps its mode, and a link stays one, under any umask; and what
// it takes back has the text and the mode that it had.
func TestModesAndLinksSurviveARunAndItsUndo(t *testing.T) {
	for _, umask := range []int{0o077, 0} {
		for name, undo := range map[string]Undo{"the run": {All: true}, "its steps": {From: 1}} {
			t.Run(fmt.Sprintf("umask %03o, %s", umask, name), func(t *testing.T) {
				f := newFixture(t,
					edit("run", "exit 1", "exit 0"), readCall("key"), write("key", "new key\n"),
					scripted.Call("patch_file", map[string]string{"path": "tool.sh", "patch": "@@ -1,2 +1,2 @@\n #!/bin/sh\n-exit 0\n+exit 3\n"}),
					scripted.Say("done"))
				before := map[string]string{"tool.sh": "#!/bin/sh\nexit 1\n", "key": "old key\n"}
				modes := map[string]os.FileMode{"tool.sh": 0o755, "key": 0o600}
				for file, text := range before {
					f.write(file, text)
					if err := os.Chmod(filepath.Join(f.dir, file), modes[file]); err != nil {
						t.Fatal(err)
					}
				}
				if err := os.Symlink("tool.sh", filepath.Join(f.dir, "run")); err != nil {
					t.Fatal(err)
				}
				old := syscall.Umask(umask)
				defer syscall.Umask(old)
				check := func(when string, texts map[string]string) {
					t.Helper()
					for file, text := range texts {
						info, err := os.Lstat(filepath.Join(f.dir, file))
						if err != nil || info.Mode() != modes[file] || f.read(file) != text {
							t.Errorf("%s: %s is %v with %q, %v; want %v with %q", when, file, info.Mode(), f.read(file), err, modes[file], text)
						}
					}
					if to, err := os.Readlink(filepath.Join(f.dir, "run")); err != nil || to != "tool.sh" {
						t.Errorf("%s: run leads to %q, %v", when, to, err)
					}
				}
				res := f.must(trace.Finished)
				check("behind the run", map[string]string{"tool.sh": "#!/bin/sh\nexit 3\n", "key": "new key\n"})
				if r := f.rewind(res.RunID, undo); !r.Clean() {
					t.Errorf("undone: %+v", r)
				}
				check("behind the undo", before)
			})
		}
	}
}
