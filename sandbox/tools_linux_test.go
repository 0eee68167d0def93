package sandbox

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Ordinary tools do ordinary work inside the boundary. What is not on this
// machine is skipped by name.
func TestOrdinaryToolsWork(t *testing.T) {
	for _, tc := range []struct{ tool, script, want string }{
		{"git", `git init -q . && git config user.email a@b && git config user.name n && echo x > f && git add f && git commit -qm m && git status --porcelain && git log --oneline | wc -l`, "1"},
		{"python3", `python3 -c '
import tempfile, subprocess, concurrent.futures, sqlite3, os
with tempfile.NamedTemporaryFile("w", delete=False) as f: f.write("x")
assert os.path.dirname(f.name) == os.environ["TMPDIR"]
db = sqlite3.connect("db.sqlite"); db.execute("create table t(a)"); db.commit()
with concurrent.futures.ProcessPoolExecutor(2) as ex: print(sum(ex.map(abs, [-1, -2])), subprocess.check_output(["echo", "sub"], text=True).strip())'`, "3 sub"},
		{"node", `node -e 'const {execFileSync, Worker} = require("child_process"); const w = require("worker_threads"); require("fs").writeFileSync("n", "x"); console.log(execFileSync("echo", ["sub"]).toString().trim(), w.isMainThread)'`, "sub true"},
		{"gcc", `printf 'int main(void){return 0;}' > a.c && gcc a.c -o a && ./a && echo built`, "built"},
		{"make", `printf 'all:\n\t@echo made\n' > Makefile && make -s -j2`, "made"},
		{"tar", `mkdir d && echo x > d/f && chmod 600 d/f && tar cf t.tar d && rm -r d && tar xpf t.tar && cat d/f`, "x"},
		{"java", `java -version 2>&1 | wc -l | grep -q 3 && echo runs`, "runs"},
	} {
		for _, rung := range rungs(t, Profile{}) {
			t.Run(fmt.Sprintf("%s/%s", rung, tc.tool), func(t *testing.T) {
				if _, err := exec.LookPath(tc.tool); err != nil {
					t.Skipf("%s is not on this machine", tc.tool)
				}
				ws := realTempDir(t)
				control, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", tc.script}, Env: []string{"HOME=" + ws, "TMPDIR=" + ws}}, Profile{Workspace: filepath.Join(ws), Mode: FullAccess})
				if err != nil || !control.Success() {
					t.Skipf("does not work here without a boundary either: %s", control.Text(300))
				}
				ws = realTempDir(t)
				r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", tc.script}, Env: []string{"HOME=" + ws}}, forced(Profile{Workspace: ws}, rung))
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.TrimSpace(r.Stdout.String()); !r.Success() || got != tc.want {
					t.Errorf("exit %d, %q, want %q; %s", r.Exit, got, tc.want, r.Stderr)
				}
			})
		}
	}
}

// nestedFixture is a host program that is itself contained.
func nestedFixture(args []string) int {
	r, err := Run(ctxOfFixture(), Cmd{Argv: []string{"sh", "-c", `echo x > in; echo x > "$OUT/new"; echo x > ../out/new2; true`}, Env: []string{"OUT=" + args[1]}},
		Profile{Workspace: args[0], Limits: Limits{OpenFiles: 100}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(r.Exit, r.Applied.Confined(), r.Applied.Rung)
	return 0
}

func TestAHostInsideABoundaryStillConfinesItsCommands(t *testing.T) {
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			a := newArena(t)
			inner := filepath.Join(a.ws, "inner")
			put(t, inner, "keep", "")
			put(t, a.ws, "out/keep", "")
			r, err := Run(t.Context(), Cmd{Argv: []string{self(t), "nested", inner, filepath.Join(a.ws, "out")}}, forced(Profile{Workspace: a.ws}, rung))
			if err != nil {
				t.Fatal(err)
			}
			got := r.Stdout.String()
			if strings.HasPrefix(got, "0 false "+string(RungFloor)) && !probed().Landlock.Works {
				t.Skip("without Landlock nothing can be had inside a boundary, and the inner command says so")
			}
			if !strings.HasPrefix(got, "0 true ") {
				t.Errorf("got %q; %s", got, r.Stderr)
			}
			for _, f := range []string{"out/new", "out/new2"} {
				if _, err := filepath.EvalSymlinks(filepath.Join(a.ws, f)); err == nil {
					t.Errorf("the inner command wrote %s, which only the outer one may", f)
				}
			}
			if _, err := filepath.EvalSymlinks(filepath.Join(inner, "in")); err != nil {
				t.Errorf("the inner command could not write its own workspace: %v", err)
			}
		})
	}
}
