package toolchain

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// Toolchain is a project as it was recognised, with its commands. A command that
// the project has no conventional form of is nil. It is plain data and goes
// through JSON unchanged.
type Toolchain struct {
	Ecosystem string   `json:"ecosystem"`
	Marker    string   `json:"marker"`  // the file that it was recognised by
	Manager   string   `json:"manager"` // the program that installs and runs
	Install   []string `json:"install,omitempty"`
	Build     []string `json:"build,omitempty"`
	Test      []string `json:"test,omitempty"`
	Lint      []string `json:"lint,omitempty"`
	Format    []string `json:"format,omitempty"`
	Run       []string `json:"run,omitempty"`
	// Check is the quick check of the whole project that follows an edit. Few
	// ecosystems have one that is not their build.
	Check []string `json:"check,omitempty"`
	// CacheDirs replaces the directories of Caches, when an override says so.
	CacheDirs []string `json:"cache_dirs,omitempty"`
}

// Detect looks at the names in the directory root, not below it and not into the
// files, and returns the first row of the table with a marker there. Without one
// nothing is guessed.
func Detect(root string) (Toolchain, bool) { return DetectFS(os.DirFS(root)) }

// DetectFS is Detect for the root of a file system.
func DetectFS(fsys fs.FS) (Toolchain, bool) {
	for i := range table {
		r := &table[i]
		for _, marker := range r.markers {
			if !has(fsys, marker) {
				continue
			}
			m := r.manager(fsys, marker)
			if r.shown != "" {
				marker = r.shown
			}
			return build(r, m, marker), true
		}
	}
	return Toolchain{}, false
}

// has reports whether a regular file, or a link to one, has that name.
func has(fsys fs.FS, name string) bool {
	if !strings.Contains(name, "*") {
		return isFile(fsys, name)
	}
	names, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(e fs.DirEntry) bool {
		ok, _ := path.Match(name, e.Name())
		return ok && isFile(fsys, e.Name())
	})
}

func isFile(fsys fs.FS, name string) bool {
	info, err := fs.Stat(fsys, name)
	return err == nil && info.Mode().IsRegular()
}

func (r *row) manager(fsys fs.FS, marker string) manager {
	for _, m := range r.managers {
		if m.marker != "" && m.marker != marker {
			continue
		}
		if len(m.locks) == 0 || slices.ContainsFunc(m.locks, func(l string) bool { return isFile(fsys, l) }) {
			return m
		}
	}
	return r.managers[len(r.managers)-1]
}

func build(r *row, m manager, marker string) Toolchain {
	c := r.commands
	if m.own != nil {
		c = *m.own
	}
	argv := func(text string) []string { return c.argv(text, m.name, os.DevNull) }
	return Toolchain{
		Ecosystem: r.ecosystem, Marker: marker, Manager: m.name,
		Install: argv(c.install), Build: argv(c.build), Test: argv(c.test), Lint: argv(c.lint),
		Format: argv(c.format), Run: argv(c.run), Check: argv(c.check),
	}
}

// IsZero reports whether nothing was detected.
func (t Toolchain) IsZero() bool { return t.Ecosystem == "" }

// Describe is one line for a prompt: what the project is and which commands it
// has. It is "" when nothing was detected.
func (t Toolchain) Describe() string {
	if t.IsZero() {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "This is a %s project (%s", t.Ecosystem, t.Marker)
	if t.Manager != "" {
		fmt.Fprintf(&b, ", managed with %s", t.Manager)
	}
	b.WriteString(").")
	var known []string
	for _, c := range t.commands() {
		if len(*c.argv) > 0 {
			known = append(known, c.label+": "+strings.Join(*c.argv, " "))
		}
	}
	if len(known) > 0 {
		b.WriteString(" Its usual commands are " + strings.Join(known, "; ") +
			". They are the convention, not what this project may really use: check before you rely on one.")
	}
	return b.String()
}

type labelled struct {
	label string
	argv  *[]string
}

// commands are the commands that a model is told, in order.
func (t *Toolchain) commands() []labelled {
	return []labelled{
		{"install", &t.Install}, {"build", &t.Build}, {"test", &t.Test},
		{"lint", &t.Lint}, {"format", &t.Format}, {"run", &t.Run},
	}
}

// Override changes rows for one ecosystem. A nil field changes nothing, and an
// empty command that is not nil says that the project has none.
type Override struct {
	Manager   *string  `json:"manager,omitempty"`
	Install   []string `json:"install"`
	Build     []string `json:"build"`
	Test      []string `json:"test"`
	Lint      []string `json:"lint"`
	Format    []string `json:"format"`
	Run       []string `json:"run"`
	Check     []string `json:"check"`
	CacheDirs []string `json:"cache_dirs"` // absolute
}

// With returns t with what o says in place of its own. An array replaces the
// whole command.
func (t Toolchain) With(o Override) Toolchain {
	if o.Manager != nil {
		t.Manager = *o.Manager
	}
	set := func(to *[]string, from []string) {
		switch {
		case from == nil:
		case len(from) == 0:
			*to = nil
		default:
			*to = slices.Clone(from)
		}
	}
	set(&t.Install, o.Install)
	set(&t.Build, o.Build)
	set(&t.Test, o.Test)
	set(&t.Lint, o.Lint)
	set(&t.Format, o.Format)
	set(&t.Run, o.Run)
	set(&t.Check, o.Check)
	if o.CacheDirs != nil {
		t.CacheDirs = slices.Clone(o.CacheDirs)
	}
	return t
}

// Overrides are changes by ecosystem. Only those of the detected one apply.
type Overrides map[string]Override

// Apply returns t with the override of its ecosystem, if there is one.
func (o Overrides) Apply(t Toolchain) Toolchain { return t.With(o[t.Ecosystem]) }

// Ecosystems lists the names that an override may be given for, in the order of
// detection.
func Ecosystems() []string {
	names := make([]string, 0, len(table))
	for i := range table {
		names = append(names, table[i].ecosystem)
	}
	return names
}
