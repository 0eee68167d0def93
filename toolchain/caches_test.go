package toolchain

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// onHost answers for a host with this environment. Subdirectories are those
// named in have.
func onHost(system string, env map[string]string, have ...string) host {
	return host{
		os:     system,
		getenv: func(n string) string { return env[n] },
		subdirs: func(dir string) []string {
			var out []string
			for _, h := range have {
				if filepath.Dir(h) == dir {
					out = append(out, h)
				}
			}
			return out
		},
		readFile: func(name string) ([]byte, error) {
			if s, ok := env["file:"+name]; ok {
				return []byte(s), nil
			}
			return nil, errors.New("no such file")
		},
	}
}

func skipOnWindows(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the paths in this table are those of unix")
	}
}

func TestCacheDirs(t *testing.T) {
	skipOnWindows(t)
	home := map[string]string{"HOME": "/h"}
	with := func(pairs ...string) map[string]string {
		m := map[string]string{"HOME": "/h"}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	for _, tc := range []struct {
		name, ecosystem, manager, system string
		env                              map[string]string
		dirs, vars                       string
	}{
		{"cargo", "cargo", "cargo", "linux", home, "/h/.cargo/git /h/.cargo/registry", ""},
		{"cargo moved", "cargo", "cargo", "linux", with("CARGO_HOME", "/c"), "/c/git /c/registry", ""},
		{"empty is unset", "cargo", "cargo", "linux", with("CARGO_HOME", ""), "/h/.cargo/git /h/.cargo/registry", ""},
		{"npm", "node", "npm", "linux", home, "/h/.npm", ""},
		{"npm moved", "node", "npm", "linux", with("npm_config_cache", "/n"), "/n", ""},
		{"pnpm", "node", "pnpm", "linux", home, "/h/.local/share/pnpm /h/.npm", ""},
		{"yarn", "node", "yarn", "linux", home, "/h/.npm /h/.yarn", ""},
		{"bun", "node", "bun", "linux", home, "/h/.bun /h/.npm", ""},
		{"pip", "python", "pip", "linux", home, "/h/.cache/pip", ""},
		{"pip on macOS", "python", "pip", "darwin", home, "/h/Library/Caches/pip", ""},
		{"poetry", "python", "poetry", "linux", with("XDG_CACHE_HOME", "/x"), "/x/pip /x/pypoetry", ""},
		{"uv", "python", "uv", "linux", home, "/h/.cache/pip /h/.cache/uv", ""},
		{"uv on macOS", "python", "uv", "darwin", home, "/h/.cache/uv /h/Library/Caches/pip", ""},
		{"deno", "deno", "deno", "linux", with("DENO_DIR", "/d"), "/d", ""},
		{"go", "go", "go", "linux", home, "/h/.cache/go-build /h/go/pkg/mod", "GOMODCACHE=/h/go/pkg/mod GOCACHE=/h/.cache/go-build"},
		{"go on macOS", "go", "go", "darwin", home, "/h/Library/Caches/go-build /h/go/pkg/mod", "GOMODCACHE=/h/go/pkg/mod GOCACHE=/h/Library/Caches/go-build"},
		{"go with a list of paths", "go", "go", "linux", with("GOPATH", "/g1:/g2"), "/g1/pkg/mod /h/.cache/go-build", "GOMODCACHE=/g1/pkg/mod GOCACHE=/h/.cache/go-build"},
		{"go moved", "go", "go", "linux", with("GOMODCACHE", "/m", "GOCACHE", "/b", "GOPATH", "/g"), "/b /m", "GOMODCACHE=/m GOCACHE=/b"},
		{"go env -w", "go", "go", "linux", with("file:/h/.config/go/env", "GOCACHE=/written\n# GOMODCACHE=/no\nGOPATH=/gp\n"), "/gp/pkg/mod /written", "GOMODCACHE=/gp/pkg/mod GOCACHE=/written"},
		{"environment before go env -w", "go", "go", "linux", with("GOCACHE", "/b", "file:/h/.config/go/env", "GOCACHE=/written\n"), "/b /h/go/pkg/mod", "GOMODCACHE=/h/go/pkg/mod GOCACHE=/b"},
		{"go told to keep no cache", "go", "go", "linux", with("GOCACHE", "off"), "/h/.cache/go-build /h/go/pkg/mod", "GOMODCACHE=/h/go/pkg/mod GOCACHE=/h/.cache/go-build"},
		{"go env off", "go", "go", "linux", with("GOENV", "off", "file:off", "GOCACHE=/written\n"), "/h/.cache/go-build /h/go/pkg/mod", "GOMODCACHE=/h/go/pkg/mod GOCACHE=/h/.cache/go-build"},
		{"maven", "maven", "mvn", "linux", home, "/h/.m2", ""},
		{"gradle", "gradle", "gradle", "linux", with("GRADLE_USER_HOME", "/gr"), "/gr", ""},
		{"dotnet", "dotnet", "dotnet", "linux", home, "/h/.nuget/packages", ""},
		{"ruby", "ruby", "bundler", "linux", home, "/h/.bundle /h/.gem", ""},
		{"php", "php", "composer", "linux", home, "/h/.cache/composer /h/.composer", ""},
		{"elixir", "elixir", "mix", "linux", home, "/h/.hex /h/.mix", ""},
		{"swift", "swift", "swift", "darwin", home, "/h/Library/Caches/org.swift.swiftpm", ""},
		{"cmake", "cmake", "cmake", "linux", home, "", ""},
		{"make", "make", "make", "linux", home, "", ""},
		{"no home", "maven", "mvn", "linux", nil, "/.m2", ""},
		{"home of Windows", "maven", "mvn", "linux", map[string]string{"USERPROFILE": "/u"}, "/u/.m2", ""},
		{"relative is no cache", "deno", "deno", "linux", with("DENO_DIR", "here"), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := onHost(tc.system, tc.env).caches(Toolchain{Ecosystem: tc.ecosystem, Manager: tc.manager})
			if got := strings.Join(c.Dirs, " "); got != tc.dirs {
				t.Errorf("dirs %q, want %q", got, tc.dirs)
			}
			if got := strings.Join(c.Env, " "); got != tc.vars {
				t.Errorf("env %q, want %q", got, tc.vars)
			}
		})
	}
}

func TestNoCacheLeadsToAProgramOfThePath(t *testing.T) {
	skipOnWindows(t)
	env := map[string]string{"HOME": "/h", "PATH": "/usr/bin:/h/.bun/bin:/h/.local/share/pnpm:relative:/h/.mix/escripts"}
	have := []string{"/h/.bun/bin", "/h/.bun/install", "/h/.local/share/pnpm/store", "/h/.mix/escripts", "/h/.mix/archives"}
	for _, tc := range []struct{ ecosystem, manager, want string }{
		{"node", "bun", "/h/.bun/install /h/.npm"},
		{"node", "pnpm", "/h/.local/share/pnpm/store /h/.npm"},
		{"elixir", "mix", "/h/.hex /h/.mix/archives"},
	} {
		c := onHost("linux", env, have...).caches(Toolchain{Ecosystem: tc.ecosystem, Manager: tc.manager})
		if got := strings.Join(c.Dirs, " "); got != tc.want {
			t.Errorf("%s: dirs %q, want %q", tc.manager, got, tc.want)
		}
	}
	env["PATH"] = "/h/.cargo/bin"
	c := onHost("linux", env).caches(Toolchain{Ecosystem: "cargo"})
	for _, d := range c.Dirs {
		if strings.HasPrefix("/h/.cargo/bin", d) || strings.HasPrefix("/h/.cargo/credentials.toml", d) {
			t.Errorf("%s opens cargo's programs or token", d)
		}
	}
	own := onHost("linux", env).caches(Toolchain{Ecosystem: "go", CacheDirs: []string{"/own/b", "/own/a", "/own/a", "/h/.cargo"}})
	if got := strings.Join(own.Dirs, " "); got != "/own/a /own/b" {
		t.Errorf("overridden dirs %q, want /own/a /own/b and nothing with a directory of PATH", got)
	}
}

func TestMakeCreatesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	c := Caches{Dirs: []string{filepath.Join(dir, "a", "b"), dir}}
	for range 2 {
		if err := c.Make(); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(c.Dirs[0]); err != nil || !info.IsDir() {
		t.Errorf("the directory was not made: %v", err)
	}
	putErr := os.WriteFile(filepath.Join(dir, "file"), nil, 0o644)
	if err := (Caches{Dirs: []string{filepath.Join(dir, "file", "x")}}).Make(); putErr != nil || err == nil {
		t.Errorf("Make below a file = %v, %v", putErr, err)
	}
}

func TestLauncherHomes(t *testing.T) {
	skipOnWindows(t)
	h := onHost("linux", map[string]string{"HOME": "/h", "NVM_DIR": "/n", "JAVA_HOME": "/j", "GOROOT": "relative", "CARGO_HOME": "/c", "VOLTA_HOME": "/n"})
	if got, want := h.launcherHomes(), []string{"/h/.rustup", "/j", "/n"}; !slices.Equal(got, want) {
		t.Errorf("launcher homes %q, want %q", got, want)
	}
	for _, d := range LauncherHomes() {
		if info, err := os.Stat(d); err != nil || !info.IsDir() {
			t.Errorf("%s is not a directory here: %v", d, err)
		}
	}
}
