package tool

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// heldFor are reserved names of tools that no package brings yet. One that is
// built leaves this list.
var heldFor = []string{
	"read_skill", "view_image", "run_program", "spawn_agent", "send_message", "read_messages",
	"lsp_definition", "lsp_references", "lsp_symbols", "lsp_hover", "lsp_rename",
	"browser_navigate", "browser_read", "browser_screenshot", "browser_click", "browser_type", "browser_scroll",
	"xlsx_read", "xlsx_sheets", "xlsx_write", "xlsx_set_cell", "docx_read", "docx_write", "pptx_read",
	"pdf_read", "pdf_write", "pdf_watermark", "pdf_fill_form", "barcode_decode",
}

func TestReservedNamesAreThoseOfTheToolsInTheSource(t *testing.T) {
	built := map[string]string{}
	err := filepath.WalkDir("..", func(dir string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		if name := e.Name(); name != ".." && strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "examples", "bench", "testkit", "docs"}, name) {
			return filepath.SkipDir
		}
		for name, at := range namesOfTools(t, dir) {
			built[name] = at
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(built) < 25 {
		t.Errorf("%d tools were found in the source, which are too few: the search has gone blind", len(built))
	}
	for name, at := range built {
		if !IsReserved(name) {
			t.Errorf("%s: a tool is called %q, which is not reserved", at, name)
		}
		if slices.Contains(heldFor, name) {
			t.Errorf("%s: %q is built, so it is not held for later any more", at, name)
		}
	}
	for _, name := range Reserved() {
		if built[name] == "" && !slices.Contains(heldFor, name) {
			t.Errorf("%q is reserved, and no tool is called so", name)
		}
	}
}

// namesOfTools finds what the tools of a package are called: the Name of every
// tool.Spec in it. A name that comes from elsewhere is followed one step, to a
// constant, to the calls of the function that takes it, or to the field it is in.
func namesOfTools(t *testing.T, dir string) map[string]string {
	set := token.NewFileSet()
	var files []*ast.File
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, p, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	found := map[string]string{}
	literal := func(e ast.Expr) bool {
		lit, ok := e.(*ast.BasicLit)
		if ok && lit.Kind == token.STRING {
			if name, err := strconv.Unquote(lit.Value); err == nil {
				found[name] = set.Position(lit.Pos()).String()
				return true
			}
		}
		return false
	}
	each := func(visit func(n ast.Node) bool) {
		for _, f := range files {
			ast.Inspect(f, visit)
		}
	}
	field := func(lit *ast.CompositeLit, key string) ast.Expr {
		for _, el := range lit.Elts {
			if kv, ok := el.(*ast.KeyValueExpr); ok {
				if id, ok := kv.Key.(*ast.Ident); ok && id.Name == key {
					return kv.Value
				}
			}
		}
		return nil
	}
	var within *ast.FuncDecl
	follow := func(name ast.Expr) bool {
		ok := literal(name)
		switch v := name.(type) {
		case *ast.Ident:
			each(func(n ast.Node) bool { // a constant
				if spec, is := n.(*ast.ValueSpec); is && len(spec.Values) == len(spec.Names) {
					for i, id := range spec.Names {
						ok = id.Name == v.Name && literal(spec.Values[i]) || ok
					}
				}
				return true
			})
			at := -1
			if within != nil { // a parameter
				i := 0
				for _, p := range within.Type.Params.List {
					for _, id := range p.Names {
						if id.Name == v.Name {
							at = i
						}
						i++
					}
				}
			}
			each(func(n ast.Node) bool {
				if call, is := n.(*ast.CallExpr); is && at >= 0 && len(call.Args) > at {
					if id, is := call.Fun.(*ast.Ident); is && id.Name == within.Name.Name {
						ok = literal(call.Args[at]) || ok
					}
				}
				return true
			})
		case *ast.SelectorExpr: // a field of a table
			each(func(n ast.Node) bool {
				if lit, is := n.(*ast.CompositeLit); is {
					if value := field(lit, v.Sel.Name); value != nil {
						ok = literal(value) || ok
					}
				}
				return true
			})
		}
		return ok
	}
	each(func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok {
			within = fn
		}
		lit, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if sel, ok := lit.Type.(*ast.SelectorExpr); !ok || sel.Sel.Name != "Spec" {
			return true
		} else if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "tool" {
			return true
		}
		if name := field(lit, "Name"); name == nil || !follow(name) {
			t.Errorf("%s: the name of this tool cannot be found in the source", set.Position(lit.Pos()))
		}
		return true
	})
	return found
}
