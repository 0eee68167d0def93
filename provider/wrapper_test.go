package provider_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/fallback"
	"github.com/initorigin/io-harness-go/provider/record"
)

// optional are the interfaces that a provider may implement beside Provider.
var optional = map[string]reflect.Type{
	"ModelHinter":       reflect.TypeFor[provider.ModelHinter](),
	"ModelNamer":        reflect.TypeFor[provider.ModelNamer](),
	"FamilyHinter":      reflect.TypeFor[provider.FamilyHinter](),
	"ImageAccepter":     reflect.TypeFor[provider.ImageAccepter](),
	"Cataloguer":        reflect.TypeFor[provider.Cataloguer](),
	"ReachableReporter": reflect.TypeFor[provider.ReachableReporter](),
	"CredentialHolder":  reflect.TypeFor[provider.CredentialHolder](),
}

// able is a provider that implements all of them, each with a telling answer.
type able struct{ bare }

func (able) Endpoints() []string                     { return []string{"https://able.test"} }
func (able) ModelHint() string                       { return "able-1" }
func (able) ModelNames(asked string) []string        { return []string{"able-1", "able-2", asked} }
func (able) PromptFamily() provider.Family           { return provider.FamilyAnthropic }
func (able) AcceptsImages() bool                     { return true }
func (able) Reachable(context.Context) (bool, error) { return false, nil }
func (able) Credentials() provider.Credentials {
	return provider.Credentials{Values: []provider.Secret{provider.NewSecret("able-key")}, Names: []string{"ABLE"}}
}
func (able) Models(context.Context) ([]provider.ModelInfo, error) {
	return []provider.ModelInfo{{ID: "able-1"}}, nil
}

// A wrapper that leaves an interface out answers in the place of what it wraps:
// a chain inside of it would lose models that a boundary compares.
func TestAWrapperPassesOnWhatItsProviderCanSay(t *testing.T) {
	chain, err := fallback.New(able{}, able{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	for name, p := range map[string]provider.Provider{"recorder": record.New(able{}), "chain": chain, "recorder of a chain": record.New(chain)} {
		for what, iface := range optional {
			if !reflect.TypeOf(p).Implements(iface) {
				t.Errorf("%s has no %s", name, what)
			}
		}
		names := provider.ModelNames(p, "")
		slices.Sort(names)
		if diff := cmp.Diff([]string{"", "able-1", "able-2"}, slices.Compact(names)); diff != "" {
			t.Errorf("%s: model names (-want +got):\n%s", name, diff)
		}
		if c := provider.CredentialsOf(p); len(c.Values) == 0 || c.Values[0].Reveal() != "able-key" || len(c.Names) == 0 {
			t.Errorf("%s names no credential", name)
		}
		models, err := provider.Models(ctx, p)
		up, rerr := provider.Reachable(ctx, p)
		switch {
		case err != nil || rerr != nil:
			t.Errorf("%s: %v, %v", name, err, rerr)
		case provider.ModelHint(p) != "able-1", provider.PromptFamily(p) != provider.FamilyAnthropic, !provider.AcceptsImages(p), up,
			len(models) != 1 || models[0].ID != "able-1", !slices.Contains(p.Endpoints(), "https://able.test"):
			t.Errorf("%s does not say what its provider does", name)
		}
	}
}

func TestEveryOptionalInterfaceIsInTheTable(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if ts, ok := n.(*ast.TypeSpec); ok && ts.Name.IsExported() && ts.Name.Name != "Provider" {
				if _, ok := ts.Type.(*ast.InterfaceType); ok {
					found[ts.Name.Name] = true
				}
			}
			return true
		})
	}
	for name := range found {
		if optional[name] == nil {
			t.Errorf("%s is missing: a wrapper that forgets it goes unnoticed", name)
		}
	}
	if len(found) != len(optional) {
		t.Errorf("found %d interfaces, the table has %d", len(found), len(optional))
	}
}
