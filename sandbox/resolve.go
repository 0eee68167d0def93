package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
)

// Resolve finds the file that program means, as a child with this working
// directory and environment would be given it. A name with a separator is
// taken from dir; a bare name is looked for in the PATH of env. Relative
// entries of PATH are not used, so that a directory of the project cannot
// supply a program by its name. On Windows PATHEXT is followed. The result is
// an absolute path; links are not followed.
//
// A file that exists but cannot be executed is returned all the same: starting
// it gives the system's own reason. When nothing is found the error matches
// [ErrMissing]. It matches [ErrStart] when that cannot be said: the name is a
// directory's, a directory on its way may not be looked into, or there is no PATH.
func Resolve(program, dir string, env []string) (string, error) {
	return resolver{
		windows: runtime.GOOS == "windows",
		list:    filepath.SplitList,
		stat:    os.Stat,
	}.resolve(program, dir, env)
}

// ResolveTrusted finds a helper program of the host's own (git, bwrap) in the
// PATH of this process, and refuses one that a command could have put there: a
// file is passed over when it, or what it links to, lies in one of the writable
// directories. Resolve helpers once, before the first command runs. The result
// has no links in it. When nothing is found the error matches [ErrMissing].
func ResolveTrusted(program string, writable ...string) (string, error) {
	var real []string
	for _, dir := range append(writable, os.TempDir()) {
		if r, err := filepath.EvalSymlinks(dir); err == nil {
			real = append(real, r)
		}
	}
	passed := 0
	for _, entry := range filepath.SplitList(os.Getenv("PATH")) {
		found, err := Resolve(program, "", []string{"PATH=" + entry})
		if err != nil {
			continue
		}
		target, err := filepath.EvalSymlinks(found)
		if err != nil {
			continue
		}
		place, err := filepath.EvalSymlinks(filepath.Dir(found))
		if err != nil {
			continue
		}
		if slices.ContainsFunc(real, func(w string) bool {
			return place == w || beneath(place, w) || beneath(target, w)
		}) {
			passed++
			continue
		}
		return target, nil
	}
	why := "it is in no absolute directory of PATH"
	if passed > 0 {
		why = "it is only in directories that commands may write"
	}
	return "", &Error{Kind: ErrMissing, Op: "resolve helper", Program: program, Err: errors.New(why)}
}

type resolver struct {
	windows bool
	list    func(string) []string
	stat    func(string) (fs.FileInfo, error)
}

func (r resolver) resolve(program, dir string, env []string) (string, error) {
	missing := func(why string) error {
		return &Error{Kind: ErrMissing, Op: "resolve program", Program: program, Err: errors.New(why)}
	}
	unusable := func(why error) error {
		return &Error{Kind: ErrStart, Op: "resolve program", Program: program, Err: why}
	}
	if strings.TrimSpace(program) == "" || strings.IndexByte(program, 0) >= 0 {
		return "", &Error{Kind: ErrInvalid, Op: "resolve program", Program: program, Err: errors.New("the program name is empty or holds a NUL byte")}
	}
	if strings.ContainsRune(program, '/') || r.windows && strings.ContainsAny(program, `\:`) {
		path := program
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		found, err := r.existing(path, r.extensions(program, env))
		if found != "" {
			return found, nil
		}
		if err != nil {
			return "", unusable(err)
		}
		return "", missing("no such file: give a path that exists, or a bare name to search PATH")
	}
	path, ok := lookupEnv(env, "PATH", r.windows)
	if !ok {
		return "", unusable(errors.New("the environment has no PATH: give an absolute path"))
	}
	var second string // exists, but is not executable
	for _, entry := range r.list(path) {
		if !filepath.IsAbs(entry) {
			continue
		}
		// A directory of PATH that this user may not look into has nothing for it.
		found, _ := r.existing(filepath.Join(entry, program), r.extensions(program, env))
		if found == "" {
			continue
		}
		if r.windows {
			return found, nil
		}
		if fi, err := r.stat(found); err == nil && fi.Mode()&0o111 != 0 {
			return found, nil
		}
		if second == "" {
			second = found
		}
	}
	if second != "" {
		return second, nil
	}
	return "", missing("it is in no absolute directory of PATH")
}

// extensions are what to append to a name: nothing on unix, and on Windows
// nothing only when the name already has one of them.
func (r resolver) extensions(program string, env []string) []string {
	if !r.windows {
		return []string{""}
	}
	text, ok := lookupEnv(env, "PATHEXT", true)
	if !ok || text == "" {
		text = ".COM;.EXE;.BAT;.CMD"
	}
	var exts []string
	for e := range strings.SplitSeq(strings.ToLower(text), ";") {
		if e == "" {
			continue
		}
		if !strings.HasPrefix(e, ".") {
			e = "." + e
		}
		exts = append(exts, e)
	}
	if slices.Contains(exts, strings.ToLower(filepath.Ext(program))) {
		return append([]string{""}, exts...)
	}
	return exts
}

// existing is the file at path with one of the extensions. Where there is none the
// error says what is there in its place, or why that cannot be seen; nil: nothing is.
func (r resolver) existing(path string, exts []string) (string, error) {
	var why error
	for _, e := range exts {
		fi, err := r.stat(path + e)
		switch {
		case err == nil && !fi.IsDir():
			return path + e, nil
		case err == nil:
			err = &fs.PathError{Op: "exec", Path: path + e, Err: errors.New("it is a directory")}
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			continue
		}
		if why == nil {
			why = err
		}
	}
	return "", why
}

// lookupEnv returns the last value of name in env.
func lookupEnv(env []string, name string, foldCase bool) (string, bool) {
	for _, kv := range slices.Backward(env) {
		k, v, ok := strings.Cut(kv, "=")
		if ok && (k == name || foldCase && strings.EqualFold(k, name)) {
			return v, true
		}
	}
	return "", false
}
