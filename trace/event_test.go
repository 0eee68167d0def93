package trace

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryFactIsListedAndEveryListedFactExists(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "event.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != "Kind" || fn.Recv == nil {
			continue
		}
		name := fn.Recv.List[0].Type.(*ast.Ident).Name
		if name != "Event" && name != "UnknownFact" {
			declared[name] = true
		}
	}
	if len(declared) < 15 {
		t.Fatalf("only %d facts found in the source: the test looks at the wrong place", len(declared))
	}
	listed := map[string]bool{}
	for _, f := range facts {
		listed[typeName(f)] = true
	}
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("facts declared and facts listed differ (-declared +listed):\n%s", diff)
	}
	kinds := EventKinds()
	if len(slices.Compact(slices.Clone(kinds))) != len(kinds) {
		t.Errorf("two facts share a kind: %v", kinds)
	}
}

func typeName(f Fact) string {
	s := strings.Split(strings.TrimPrefix(typeString(f), "*"), ".")
	return s[len(s)-1]
}

func TestEventsRoundTripFlat(t *testing.T) {
	for _, f := range append(slices.Clone(facts),
		ToolCalled{Name: "read_file", Target: "a\"b"},
		RefusedAct{Act: "read", Target: "secrets/key", Rule: "secrets/*", Layer: "app"},
		Ended{Outcome: Success, Steps: 3, Tokens: 1 << 40}) {
		ev := Event{RunID: 7, Step: 2, Depth: 1, Fact: f}
		b, err := json.Marshal(ev)
		if err != nil {
			t.Fatalf("%s: %v", ev.Kind(), err)
		}
		var flat map[string]any
		if err := json.Unmarshal(b, &flat); err != nil {
			t.Fatalf("%s: %v in %s", ev.Kind(), err, b)
		}
		for key, want := range map[string]any{"run_id": 7.0, "step": 2.0, "depth": 1.0, "event": ev.Kind()} {
			if flat[key] != want {
				t.Errorf("%s: %q is %v, want %v in %s", ev.Kind(), key, flat[key], want, b)
			}
		}
		var back Event
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatalf("%s: %v", ev.Kind(), err)
		}
		if diff := cmp.Diff(ev, back); diff != "" {
			t.Errorf("%s came back changed:\n%s", ev.Kind(), diff)
		}
	}
}

func TestAnEventOfANewerVersionIsKept(t *testing.T) {
	const raw = `{"run_id":1,"step":2,"depth":0,"event":"from_the_future","x":[1]}`
	var ev Event
	if err := json.Unmarshal([]byte(raw), &ev); err != nil {
		t.Fatal(err)
	}
	if ev.Kind() != "from_the_future" || ev.RunID != 1 {
		t.Errorf("got %+v", ev)
	}
	b, err := json.Marshal(ev)
	if err != nil || string(b) != raw {
		t.Errorf("Marshal = %s, %v; want it as it was read", b, err)
	}
}
