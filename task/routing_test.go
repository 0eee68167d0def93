package task

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
)

func TestRoutingChoosesByFailuresFirstAndThenByBytes(t *testing.T) {
	both := Routing{EscalateAfter: EscalateAfter{2, "big"}, DownshiftUnder: DownshiftUnder{100, "small"}}
	for _, tc := range []struct {
		name     string
		r        Routing
		failures int
		written  int64
		want     string
	}{
		{"no rule", Routing{}, 9, 0, ""},
		{"nothing written yet", both, 0, 0, "small"},
		{"one byte under", both, 1, 99, "small"},
		{"at the border", both, 1, 100, ""},
		{"failures reach the rule", both, 2, 1000, "big"},
		{"failures win over bytes", both, 3, 0, "big"},
		{"only bytes", Routing{DownshiftUnder: DownshiftUnder{100, "small"}}, 50, 5, "small"},
		{"only failures, and too few", Routing{EscalateAfter: EscalateAfter{2, "big"}}, 1, 0, ""},
		{"a limit of zero bytes moves nothing", Routing{DownshiftUnder: DownshiftUnder{0, "small"}}, 0, 0, ""},
		{"zero failures move nothing", Routing{EscalateAfter: EscalateAfter{0, "big"}}, 0, 0, ""},
	} {
		got, ok := tc.r.ModelFor(tc.failures, tc.written)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s: %q, %v; want %q", tc.name, got, ok, tc.want)
		}
	}
	if diff := cmp.Diff([]string{"big", "small"}, both.Models()); diff != "" {
		t.Error(diff)
	}
	if got := (Routing{}).Models(); len(got) != 0 {
		t.Errorf("no rule names %v", got)
	}
}

func TestRoutingAndWebThatCanNeverWorkAreNamed(t *testing.T) {
	for field, c := range map[string]Contract{
		"Routing.EscalateAfter":   {Routing: Routing{EscalateAfter: EscalateAfter{0, "big"}}},
		"Routing.EscalateAfter: ": {Routing: Routing{EscalateAfter: EscalateAfter{2, ""}}},
		"Routing.DownshiftUnder":  {Routing: Routing{DownshiftUnder: DownshiftUnder{-1, "small"}}},
		"Routing.DownshiftUnder:": {Routing: Routing{DownshiftUnder: DownshiftUnder{9, ""}}},
		"Web.MaxUses":             {Web: provider.WebAccess{Search: true, MaxUses: -1}},
		"Web.AllowedDomains[1]":   {Web: provider.WebAccess{Search: true, AllowedDomains: []string{"a.com", ""}}},
		"Web.BlockedDomains[0]":   {Web: provider.WebAccess{BlockedDomains: []string{""}}},
		"Web: every allowed":      {Web: provider.WebAccess{Fetch: true, AllowedDomains: []string{"a.com"}, BlockedDomains: []string{"a.com"}}},
	} {
		err := c.ValidateDefaults()
		var invalid *InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
	}
	ok := Contract{
		Routing: Routing{EscalateAfter{1, "big"}, DownshiftUnder{1, "small"}, true},
		Web:     provider.WebAccess{Search: true, Fetch: true, MaxUses: 3, AllowedDomains: []string{"a.com", "b.com"}, BlockedDomains: []string{"b.com"}},
	}
	if err := ok.ValidateDefaults(); err != nil {
		t.Error(err)
	}
}

func TestRoutingAndWebAreStoredAndCloned(t *testing.T) {
	c := Contract{
		Routing: Routing{EscalateAfter{2, "big"}, DownshiftUnder{1 << 40, "small"}, true},
		Web:     provider.WebAccess{Search: true, MaxUses: 3, AllowedDomains: []string{"a.com"}, BlockedDomains: []string{"b.com"}},
	}
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Contract{}.Restore(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.Routing, back.Routing) + cmp.Diff(c.Web, back.Web); diff != "" {
		t.Errorf("came back changed:\n%s", diff)
	}
	kept := c.Clone()
	c.Web.AllowedDomains[0], c.Web.BlockedDomains[0] = "evil", "evil"
	if kept.Web.AllowedDomains[0] != "a.com" || kept.Web.BlockedDomains[0] != "b.com" {
		t.Errorf("a copy changed with what it was made of: %+v", kept.Web)
	}
	empty, err := Contract{}.Marshal()
	if err != nil || strings.Contains(string(empty), "routing") || strings.Contains(string(empty), "web") {
		t.Errorf("a contract without both is stored as %s, %v", empty, err)
	}
}

func TestAMaskIsStoredAndCloned(t *testing.T) {
	c := Contract{ToolMask: []string{"exec"}}
	kept := c.Clone()
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Contract{}.Restore(raw)
	if c.ToolMask[0] = "evil"; err != nil || kept.ToolMask[0] != "exec" || back.ToolMask[0] != "exec" {
		t.Errorf("%v, %v, %v", kept.ToolMask, back.ToolMask, err)
	}
}
