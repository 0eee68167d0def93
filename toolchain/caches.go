package toolchain

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Caches is what the commands of a project write outside of it.
type Caches struct {
	// Dirs are absolute directories, sorted, none of them on PATH and none with
	// a directory of PATH in it: what a contained command leaves there must never
	// be found as a program by somebody who is not contained.
	Dirs []string
	// Env names directories to the tool, as NAME=value, where its own search could
	// end elsewhere inside a boundary: go looks into files and into several
	// variables. Other tools find theirs by the environment that they inherit.
	Env []string
}

// Make creates the directories that do not exist yet. A boundary cannot grant
// what is not there, and the first command of a fresh machine would then fail.
func (c Caches) Make() error {
	for _, d := range c.Dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// Caches are the cache directories of the ecosystem on this host, from the
// tools' own variables and else from their conventions. It creates nothing.
func (t Toolchain) Caches() Caches {
	h := host{os: runtime.GOOS, getenv: os.Getenv, subdirs: subdirs, readFile: os.ReadFile}
	return h.caches(t)
}

// LauncherHomes are the directories from which the programs of toolchains are
// started by version managers: what a boundary that denies reading by default
// must open. They are absolute, exist and are sorted. CARGO_HOME is not one of
// them, because it holds a registry token.
func LauncherHomes() []string {
	h := host{os: runtime.GOOS, getenv: os.Getenv}
	return slices.DeleteFunc(h.launcherHomes(), func(d string) bool {
		info, err := os.Stat(d)
		return err != nil || !info.IsDir()
	})
}

func subdirs(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out
}

// host is what the answer depends on.
type host struct {
	os       string
	getenv   func(string) string
	subdirs  func(dir string) []string
	readFile func(name string) ([]byte, error)
}

func (h host) home() string {
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if d := h.getenv(name); d != "" {
			return d
		}
	}
	return string(filepath.Separator)
}

// cacheHome is where tools that follow the XDG convention keep caches.
func (h host) cacheHome() string {
	if d := h.getenv("XDG_CACHE_HOME"); d != "" {
		return d
	}
	return filepath.Join(h.home(), ".cache")
}

// userCache is where tools that follow the system's convention keep caches.
func (h host) userCache() string {
	switch h.os {
	case "darwin", "ios":
		return filepath.Join(h.home(), "Library", "Caches")
	case "windows":
		if d := h.getenv("LocalAppData"); d != "" {
			return d
		}
		return filepath.Join(h.home(), "AppData", "Local")
	}
	return h.cacheHome()
}

// cacheDir is one directory and the variable that names it to its tool.
type cacheDir struct {
	name string // empty: there is no variable
	path string
}

// or is the value of a variable, or else the convention.
func (h host) or(name string, convention ...string) cacheDir {
	if d := h.getenv(name); d != "" {
		return cacheDir{name, d}
	}
	return cacheDir{name, filepath.Join(convention...)}
}

func (h host) caches(t Toolchain) Caches {
	var c Caches
	if t.CacheDirs != nil {
		c.Dirs = h.safe(t.CacheDirs)
		return c
	}
	var dirs []string
	for _, d := range h.cacheDirs(t) {
		if !filepath.IsAbs(d.path) {
			continue
		}
		if t.Ecosystem == "go" {
			c.Env = append(c.Env, d.name+"="+d.path)
		}
		if t.Ecosystem == "cargo" {
			// The whole home would make its bin and its registry token writable.
			for _, sub := range []string{"registry", "git"} {
				dirs = append(dirs, filepath.Join(d.path, sub))
			}
			continue
		}
		dirs = append(dirs, d.path)
	}
	c.Dirs = h.safe(dirs)
	return c
}

func (h host) cacheDirs(t Toolchain) []cacheDir {
	home, user := h.home(), h.userCache()
	switch t.Ecosystem {
	case "cargo":
		return []cacheDir{h.or("CARGO_HOME", home, ".cargo")}
	case "node":
		return h.nodeCaches(t.Manager)
	case "python":
		dirs := []cacheDir{h.or("PIP_CACHE_DIR", user, "pip")}
		switch t.Manager {
		case "poetry":
			dirs = append(dirs, h.or("POETRY_CACHE_DIR", user, "pypoetry"))
		case "uv":
			// uv follows the XDG convention on macOS too.
			uv := h.or("UV_CACHE_DIR", h.cacheHome(), "uv")
			if h.os == "windows" {
				uv = h.or("UV_CACHE_DIR", user, "uv", "cache")
			}
			dirs = append(dirs, uv)
		}
		return dirs
	case "deno":
		return []cacheDir{h.or("DENO_DIR", user, "deno")}
	case "go":
		return h.goCaches()
	case "maven":
		return []cacheDir{{"", filepath.Join(home, ".m2")}}
	case "gradle":
		return []cacheDir{h.or("GRADLE_USER_HOME", home, ".gradle")}
	case "dotnet":
		return []cacheDir{h.or("NUGET_PACKAGES", home, ".nuget", "packages")}
	case "ruby":
		return []cacheDir{h.or("GEM_HOME", home, ".gem"), h.or("BUNDLE_PATH", home, ".bundle")}
	case "php":
		return []cacheDir{h.or("COMPOSER_HOME", home, ".composer"), {"", filepath.Join(h.cacheHome(), "composer")}}
	case "elixir":
		return []cacheDir{h.or("MIX_HOME", home, ".mix"), h.or("HEX_HOME", home, ".hex")}
	case "swift":
		return []cacheDir{{"", filepath.Join(user, "org.swift.swiftpm")}}
	}
	return nil
}

func (h host) nodeCaches(manager string) []cacheDir {
	home := h.home()
	dirs := []cacheDir{h.or("npm_config_cache", home, ".npm")}
	switch manager {
	case "pnpm":
		dirs = append(dirs, h.or("PNPM_HOME", home, ".local", "share", "pnpm"))
	case "yarn":
		dirs = append(dirs, cacheDir{"", filepath.Join(home, ".yarn")})
	case "bun":
		dirs = append(dirs, cacheDir{"", filepath.Join(home, ".bun")})
	}
	return dirs
}

// goCaches follows the go command: the environment, then what go env -w wrote,
// then the convention.
func (h host) goCaches() []cacheDir {
	written := h.goEnvFile()
	value := func(name string) string {
		if v := h.getenv(name); v != "" {
			return v
		}
		return written[name]
	}
	modules := value("GOMODCACHE")
	if modules == "" {
		gopath := value("GOPATH")
		if gopath == "" {
			gopath = filepath.Join(h.home(), "go")
		}
		modules = filepath.Join(filepath.SplitList(gopath)[0], "pkg", "mod")
	}
	build := value("GOCACHE")
	if build == "" || build == "off" {
		build = filepath.Join(h.userCache(), "go-build")
	}
	return []cacheDir{{"GOMODCACHE", modules}, {"GOCACHE", build}}
}

func (h host) goEnvFile() map[string]string {
	name := h.getenv("GOENV")
	if name == "off" {
		return nil
	}
	if name == "" {
		config := h.getenv("XDG_CONFIG_HOME")
		switch {
		case h.os == "darwin" || h.os == "ios":
			config = filepath.Join(h.home(), "Library", "Application Support")
		case h.os == "windows":
			config = h.getenv("AppData")
		case config == "":
			config = filepath.Join(h.home(), ".config")
		}
		name = filepath.Join(config, "go", "env")
	}
	data, err := h.readFile(name)
	if err != nil {
		return nil
	}
	values := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	for lines.Scan() {
		if k, v, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(k, "#") {
			values[k] = v
		}
	}
	return values
}

// safe keeps the directories that no PATH leads into. One that a PATH does lead
// into is replaced by those of its subdirectories that it leaves alone.
func (h host) safe(dirs []string) []string {
	var onPath []string
	for _, d := range filepath.SplitList(h.getenv("PATH")) {
		if filepath.IsAbs(d) {
			onPath = append(onPath, filepath.Clean(d))
		}
	}
	leadsInto := func(dir string) bool {
		return slices.ContainsFunc(onPath, func(p string) bool {
			rel, err := filepath.Rel(dir, p)
			return err == nil && filepath.IsLocal(rel)
		})
	}
	var out []string
	for _, d := range dirs {
		d = filepath.Clean(d)
		if !leadsInto(d) {
			out = append(out, d)
			continue
		}
		for _, sub := range h.subdirs(d) {
			if !leadsInto(sub) {
				out = append(out, sub)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (h host) launcherHomes() []string {
	dirs := []string{h.or("RUSTUP_HOME", h.home(), ".rustup").path}
	for _, name := range []string{"NVM_HOME", "NVM_DIR", "VOLTA_HOME", "PYENV_ROOT", "GOROOT", "DOTNET_ROOT", "JAVA_HOME", "SDKMAN_DIR"} {
		dirs = append(dirs, h.getenv(name))
	}
	dirs = slices.DeleteFunc(dirs, func(d string) bool { return !filepath.IsAbs(d) })
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
