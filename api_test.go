package harness_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/api.txt from the source")

const apiFile = "docs/api.txt"

// TestTheExportedSurfaceIsTheOneThatWasLookedAt compares every exported name
// and signature with docs/api.txt, so that a change of it is made on purpose.
func TestTheExportedSurfaceIsTheOneThatWasLookedAt(t *testing.T) {
	got := exportedSurface(t)
	if *update {
		if err := os.WriteFile(apiFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(apiFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the exported surface changed (-%s +source); if that is meant, run go test -run ExportedSurface -update . and say in CHANGELOG.md what to write instead:\n%s", apiFile, diff)
	}
}

// exportedSurface writes the exported declarations of every public package, as
// they are on Linux, one package after the other.
func exportedSurface(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	ctx := build.Default
	ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = "linux", "amd64", false
	for _, dir := range publicDirs(t) {
		p, err := ctx.ImportDir(dir, 0)
		if err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, f := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(dir, f), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		d, err := doc.NewFromFiles(fset, files, module+"/"+filepath.ToSlash(dir), doc.PreserveAST)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("package " + p.Name + " // " + filepath.ToSlash(dir) + "\n")
		for _, line := range declarations(t, fset, d) {
			out.WriteString("\t" + strings.ReplaceAll(line, "\n", "\n\t") + "\n")
		}
		out.WriteString("\n")
	}
	return out.String()
}

// publicDirs are the packages that a program can import.
func publicDirs(t *testing.T) []string {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		base := d.Name()
		if path != "." && (strings.HasPrefix(base, ".") || base == "internal" || base == "testdata" || base == "examples" || base == "bench" || base == "docs") {
			return fs.SkipDir
		}
		if names, _ := filepath.Glob(filepath.Join(path, "*.go")); slices.ContainsFunc(names, func(n string) bool { return !strings.HasSuffix(n, "_test.go") }) {
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func declarations(t *testing.T, fset *token.FileSet, d *doc.Package) []string {
	t.Helper()
	var lines []string
	add := func(n ast.Node) {
		var b bytes.Buffer
		if err := (&printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8}).Fprint(&b, fset, n); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, b.String())
	}
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			for _, s := range v.Decl.Specs {
				vs := s.(*ast.ValueSpec)
				for _, n := range vs.Names {
					if n.IsExported() {
						lines = append(lines, v.Decl.Tok.String()+" "+n.Name)
					}
				}
			}
		}
	}
	funcs := func(fs []*doc.Func) {
		for _, f := range fs {
			if !ast.IsExported(f.Name) {
				continue
			}
			f.Decl.Body = nil
			add(f.Decl)
		}
	}
	values(d.Consts)
	values(d.Vars)
	funcs(d.Funcs)
	for _, ty := range d.Types {
		if !ast.IsExported(ty.Name) {
			continue
		}
		for _, s := range ty.Decl.Specs {
			ts := s.(*ast.TypeSpec)
			hideUnexported(ts.Type)
			add(&ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{&ast.TypeSpec{Name: ts.Name, TypeParams: ts.TypeParams, Assign: ts.Assign, Type: ts.Type}}})
		}
		values(ty.Consts)
		values(ty.Vars)
		funcs(ty.Funcs)
		funcs(ty.Methods)
	}
	return lines
}

// hideUnexported drops the fields and methods that nobody outside can name.
func hideUnexported(e ast.Expr) {
	keep := func(l *ast.FieldList) {
		if l == nil {
			return
		}
		l.List = slices.DeleteFunc(l.List, func(f *ast.Field) bool {
			f.Comment, f.Doc = nil, nil
			named := len(f.Names) > 0
			f.Names = slices.DeleteFunc(f.Names, func(n *ast.Ident) bool { return !n.IsExported() })
			return len(f.Names) == 0 && (named || !embeddedExported(f))
		})
	}
	switch ty := e.(type) {
	case *ast.StructType:
		keep(ty.Fields)
	case *ast.InterfaceType:
		keep(ty.Methods)
	}
}

func embeddedExported(f *ast.Field) bool {
	t := f.Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	switch x := t.(type) {
	case *ast.Ident:
		return x.IsExported()
	case *ast.SelectorExpr:
		return x.Sel.IsExported()
	}
	return false
}
