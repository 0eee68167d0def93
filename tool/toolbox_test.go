package tool

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// bare is a tool that is nothing but its specification.
type bare struct{ spec Spec }

func (b bare) Spec() Spec                                 { return b.spec }
func (b bare) Call(context.Context, Call) (Result, error) { return Result{}, nil }

// broken panics when it is asked what it is.
type broken struct{ bare }

func (broken) Spec() Spec { panic("no spec") }

func named(names ...string) (box Toolbox) {
	for _, n := range names {
		box = append(box, bare{Spec{Name: n}})
	}
	return box
}

func TestReservedNamesAreRefusedAndNearOnesTaken(t *testing.T) {
	for _, name := range Reserved() {
		if err := named("mine", name).Validate(); err == nil || !strings.Contains(err.Error(), `"`+name+`"`) || strings.Contains(err.Error(), "mine") {
			t.Errorf("a tool called %s: %v, want it refused by its name", name, err)
		}
	}
	if err := named("git_blame", "lsp_foo", "read_file2", "Read_File", "greps", "execute", "browser", "mcp_x", "xmcp__y").Validate(); err != nil {
		t.Errorf("names that only resemble reserved ones: %v", err)
	}
}

func TestSetsThatCannotBeOffered(t *testing.T) {
	for _, tc := range []struct {
		name string
		box  Toolbox
		says []string
	}{
		{"no name", named(""), []string{"tool 0 has no name"}},
		{"a blank name", named("ok", " "), []string{`tool " "`}},
		{"a dot", named("a.b"), []string{`tool "a.b"`}},
		{"a name that is too long", named(strings.Repeat("n", MaxNameLength+1)), []string{"1 to 64"}},
		{"a name in another script", named("суд"), []string{"1 to 64"}},
		{"a name of an MCP server's tool", named("mcp__files__read"), []string{"mcp__"}},
		{"twice", named("a", "b", "a"), []string{`tool "a" is there twice`}},
		{"nil", Toolbox{nil}, []string{"tool 0 is nil"}},
		{"a tool that cannot say what it is", append(named("a"), broken{}), []string{"tool 1", "no spec"}},
		{"a schema that is no object's", Toolbox{bare{Spec{Name: "a", Schema: json.RawMessage(`{"type":"array"}`)}}}, []string{`tool "a"`}},
		{"a schema that is no JSON", Toolbox{bare{Spec{Name: "a", Schema: json.RawMessage(`{"type"`)}}}, []string{`tool "a"`}},
		{"an origin that does not exist", Toolbox{bare{Spec{Name: "a", Origin: "heaven"}}}, []string{`"heaven"`}},
		{"a tool that would speak as the operator", Toolbox{bare{Spec{Name: "a", Origin: trace.OriginOperator}}}, []string{`"operator"`}},
		{"a tool that would speak as the harness", Toolbox{bare{Spec{Name: "a", Origin: trace.OriginProse}}}, []string{`"prose"`}},
		{"a tool that would speak as the agent", Toolbox{bare{Spec{Name: "a", Origin: trace.OriginAgent}}}, []string{`"agent"`}},
		{"an effect that does not exist", Toolbox{bare{Spec{Name: "a", Effect: "harmless"}}}, []string{`"harmless"`}},
		{"a recovery that does not exist", Toolbox{bare{Spec{Name: "a", Recovery: "maybe"}}}, []string{`"maybe"`}},
		{"a time that is negative", Toolbox{bare{Spec{Name: "a", Timeout: -time.Second}}}, []string{"negative"}},
		{"everything at once", named("grep", "", "x", "x"), []string{`"grep"`, "no name", "twice"}},
	} {
		err := tc.box.Validate()
		if err == nil {
			t.Errorf("%s is taken", tc.name)
			continue
		}
		for _, want := range tc.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", tc.name, err, want)
			}
		}
	}
	longest := named(strings.Repeat("n", MaxNameLength), "A-Z_09")
	if err := longest.Validate(); err != nil || Toolbox(nil).Validate() != nil {
		t.Errorf("a set that can be offered: %v", err)
	}
}

// What a resume may do follows from the effect in one direction only: nothing that
// may have changed something is made again unless its tool says so.
func TestRecoveryFollowsFromTheEffect(t *testing.T) {
	for _, tc := range []struct {
		effect         Effect
		recovery       Recovery
		reads, inDoubt bool
	}{
		{"", "", false, true},
		{Mutating, "", false, true},
		{ReadOnly, "", true, false},
		{"", Replayable, false, false},
		{Mutating, Replayable, false, false},
		{ReadOnly, Replayable, true, false},
		{"", Indeterminate, false, true},
		{Mutating, Indeterminate, false, true},
		{ReadOnly, Indeterminate, true, true},
	} {
		s := Spec{Effect: tc.effect, Recovery: tc.recovery}
		if s.IsReadOnly() != tc.reads || s.IsIndeterminate() != tc.inDoubt {
			t.Errorf("effect %q, recovery %q: only reads %t, in doubt after a crash %t", tc.effect, tc.recovery, s.IsReadOnly(), s.IsIndeterminate())
		}
	}
}

func TestAToolboxIsNotChangedByOneThatIsMadeOfIt(t *testing.T) {
	base := append(make(Toolbox, 0, 8), named("a")...)
	one, two := base.With(named("b")...), base.With(named("c")...)
	if got := strings.Join(one.Names(), " ") + "; " + strings.Join(two.Names(), " ") + "; " + strings.Join(base.Names(), " "); got != "a b; a c; a" {
		t.Errorf("the sets are %s", got)
	}
}

// A run whose calls change nothing is told so, and then stopped: a tool that only reads
// is no progress.
func TestOnlyACallThatMayChangeSomethingMovesTheWorkOn(t *testing.T) {
	for name, tc := range map[string]struct {
		opts  []Option
		moves bool
	}{"reads": {[]Option{ReadOnly}, false}, "says nothing": {nil, true}, "changes": {[]Option{Mutating}, true}, "may be made again": {[]Option{Replayable}, true}} {
		made := New("probe", "", func(context.Context, struct{}) (string, error) { return "ok", nil }, tc.opts...)
		got, err := made.Call(t.Context(), Call{Name: "probe", Args: json.RawMessage("{}")})
		if err != nil || got.Text != "ok" || got.Changed != tc.moves {
			t.Errorf("a tool that %s: %+v, %v", name, got, err)
		}
		failing := New("probe", "", func(context.Context, struct{}) (string, error) { return "", context.Canceled }, tc.opts...)
		if got, err := failing.Call(t.Context(), Call{Name: "probe", Args: json.RawMessage("{}")}); err == nil || got.Changed {
			t.Errorf("a tool that %s and fails: %+v, %v", name, got, err)
		}
	}
}
