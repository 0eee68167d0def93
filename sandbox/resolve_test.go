package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestResolve(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("unix paths")
	}
	dir := realTempDir(t)
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "bin/plain": 0o644, "second/plain": 0o755, "ws/tool": 0o755, "ws/run.sh": 0o755, "ws/text": 0o644} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	closedKind := ErrStart
	if os.Getuid() == 0 {
		closedKind = ErrMissing // root looks into everything
	}
	bin, second, ws := filepath.Join(dir, "bin"), filepath.Join(dir, "second"), filepath.Join(dir, "ws")
	for _, tc := range []struct {
		name, program string
		env           []string
		want          string
		kind          error
	}{
		{"bare name in PATH", "tool", []string{"PATH=" + bin}, bin + "/tool", nil},
		{"the last PATH counts", "tool", []string{"PATH=/nowhere", "PATH=" + bin}, bin + "/tool", nil},
		{"relative entries are not used", "tool", []string{"PATH=.:ws::" + bin}, bin + "/tool", nil},
		{"nor when they are all there is", "tool", []string{"PATH=.:"}, "", ErrMissing},
		{"a program of the workspace needs its path", "run.sh", []string{"PATH=" + bin}, "", ErrMissing},
		{"relative to the working directory", "./run.sh", nil, ws + "/run.sh", nil},
		{"up from the working directory", "../bin/tool", nil, bin + "/tool", nil},
		{"absolute", bin + "/tool", nil, bin + "/tool", nil},
		{"not executable is not missing", "./text", nil, ws + "/text", nil},
		{"an executable further on is preferred", "plain", []string{"PATH=" + bin + ":" + second}, second + "/plain", nil},
		{"not executable and nothing else", "plain", []string{"PATH=" + bin}, bin + "/plain", nil},
		{"missing", "none", []string{"PATH=" + bin}, "", ErrMissing},
		{"missing with a separator", "./none", nil, "", ErrMissing},
		{"no PATH", "tool", nil, "", ErrStart},
		{"a directory", "../bin", nil, "", ErrStart},
		{"a directory of that name in PATH is passed over", "bin", []string{"PATH=" + dir + ":" + bin}, "", ErrMissing},
		{"beneath a file", "./run.sh/x", nil, "", ErrMissing},
		{"a closed directory", filepath.Join(dir, "closed", "tool"), nil, "", closedKind},
		{"a closed directory in PATH", "hidden", []string{"PATH=" + filepath.Join(dir, "closed") + ":" + bin}, "", ErrMissing},
		{"beyond a closed directory in PATH", "tool", []string{"PATH=" + filepath.Join(dir, "closed") + ":" + bin}, bin + "/tool", nil},
		{"empty", " ", nil, "", ErrInvalid},
		{"NUL", "to\x00ol", []string{"PATH=" + bin}, "", ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Resolve(tc.program, ws, tc.env)
			if got != tc.want || !errors.Is(err, tc.kind) {
				t.Errorf("Resolve(%q) = %q, %v; want %q, %v", tc.program, got, err, tc.want, tc.kind)
			}
		})
	}
}

func TestResolveOnWindowsFollowsPathext(t *testing.T) {
	root := filepath.VolumeName(os.TempDir()) // nothing, except on Windows
	present := map[string]bool{"/bin/tool.exe": true, "/bin/npm.cmd": true, "/ws/run.bat": true, "/bin/both": true, "/bin/both.exe": true}
	r := resolver{
		windows: true,
		list:    func(s string) []string { return strings.Split(s, ";") },
		stat: func(p string) (fs.FileInfo, error) {
			if present[strings.TrimPrefix(filepath.ToSlash(p), root)] {
				return fileInfo{}, nil
			}
			return nil, fs.ErrNotExist
		},
	}
	for _, tc := range []struct{ program, want string }{
		{"tool", "/bin/tool.exe"},
		{"tool.exe", "/bin/tool.exe"},
		{"TOOL.EXE", ""}, // this fake tells case apart; Windows does not
		{"npm", "/bin/npm.cmd"},
		{"./run", "/ws/run.bat"},
		{"both", "/bin/both.exe"},
		{"none", ""},
	} {
		got, err := r.resolve(tc.program, root+"/ws", []string{"Path=" + root + "/bin", "PATHEXT=.EXE;.BAT;cmd"})
		if strings.TrimPrefix(filepath.ToSlash(got), root) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("resolve(%q) = %q, %v; want %q", tc.program, got, err, tc.want)
		}
	}
}

type fileInfo struct{}

func (fileInfo) Name() string       { return "" }
func (fileInfo) Size() int64        { return 0 }
func (fileInfo) Mode() fs.FileMode  { return 0 }
func (fileInfo) ModTime() time.Time { return time.Time{} }
func (fileInfo) IsDir() bool        { return false }
func (fileInfo) Sys() any           { return nil }

func TestHelpersComeFromPlacesThatCommandsCannotWrite(t *testing.T) {
	if os.PathSeparator != '/' {
		t.Skip("unix paths")
	}
	dir := realTempDir(t)
	ws, safe := filepath.Join(dir, "ws"), filepath.Join(dir, "safe")
	for _, d := range []string{ws + "/bin", safe, ws + "/real"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{ws + "/bin/git", ws + "/real/git2", safe + "/git"} {
		if err := os.WriteFile(f, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(ws+"/real/git2", safe+"/linked"); err != nil {
		t.Fatal(err)
	}
	// The temporary directory of this test must not count as one of a command.
	t.Setenv("TMPDIR", ws)
	t.Setenv("PATH", ws+"/bin:"+safe)
	if got, err := ResolveTrusted("git", ws); err != nil || got != safe+"/git" {
		t.Errorf("got %q, %v; want the one outside the workspace", got, err)
	}
	if got, err := ResolveTrusted("linked", ws); !errors.Is(err, ErrMissing) {
		t.Errorf("a link into the workspace: got %q, %v; want ErrMissing", got, err)
	}
	t.Setenv("PATH", ws+"/bin")
	if got, err := ResolveTrusted("git", ws); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "may write") {
		t.Errorf("got %q, %v; want ErrMissing that says why", got, err)
	}
}

func realTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(tempDir(t))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
