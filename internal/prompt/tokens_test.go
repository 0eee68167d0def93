package prompt

import (
	"math"
	"strings"
	"testing"
)

func TestTokensAreAQuarterOfTheCharactersRoundedUp(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       int
	}{
		{"nothing", "", 0},
		{"one", "a", 1},
		{"a started quarter counts", "abcde", 2},
		{"characters, not bytes", "éééé", 1},
		{"code points, not clusters", "e\u0301e\u0301", 1},
		{"long", strings.Repeat("x", 4000), 1000},
		{"invalid bytes count one each", "\xff\xfe\xfd\xfc\xfb", 2},
	} {
		if got := EstimateTokens(tc.text); got != tc.want {
			t.Errorf("%s: EstimateTokens = %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestEffectiveBudget(t *testing.T) {
	for _, tc := range []struct {
		name      string
		budget    Budget
		remaining int64
		limited   bool
		want      int
	}{
		{"no token budget", Budget{}, 0, false, 24_000},
		{"plenty left", Budget{}, 100_000, true, 24_000},
		{"half of what is left", Budget{}, 40_000, true, 20_000},
		{"half again", Budget{}, 20_000, true, 10_000},
		{"odd halves are cut", Budget{}, 20_001, true, 10_000},
		{"the floor", Budget{}, 1_000, true, 2_000},
		{"nothing left", Budget{}, 0, true, 2_000},
		{"overdrawn", Budget{}, -5_000, true, 2_000},
		{"the floor lifts no smaller cap", Budget{MaxTokens: 500}, 0, true, 500},
		{"worked example", Budget{}, 30_000, true, 15_000},
		{"a share of its own", Budget{MaxTokens: 50_000, Share: 0.1}, 300_000, true, 30_000},
		{"more than fits an int", Budget{}, math.MaxInt64, true, 24_000},
		{"an impossible share is the default", Budget{Share: math.NaN()}, 40_000, true, 20_000},
	} {
		if got := tc.budget.Effective(tc.remaining, tc.limited); got != tc.want {
			t.Errorf("%s: Effective(%d, %t) = %d, want %d", tc.name, tc.remaining, tc.limited, got, tc.want)
		}
	}
}

func TestBudgetRefusesWhatCannotBeMeant(t *testing.T) {
	for _, b := range []Budget{{MaxTokens: -1}, {Share: -0.1}, {Share: 1.5}, {Share: math.NaN()}, {Share: math.Inf(1)}} {
		if b.Validate() == nil {
			t.Errorf("Validate(%+v) = nil, want an error", b)
		}
	}
	for _, b := range []Budget{{}, {MaxTokens: 1, Share: 1}, {Share: 0.001}} {
		if err := b.Validate(); err != nil {
			t.Errorf("Validate(%+v) = %v, want nil", b, err)
		}
	}
}

func TestEntryCap(t *testing.T) {
	for effective, want := range map[int]int{24_000: 12_000, 15_000: 7_500, 2_000: 2_000, 0: 2_000, -7: 2_000} {
		if got := EntryCap(effective); got != want {
			t.Errorf("EntryCap(%d) = %d, want %d", effective, got, want)
		}
	}
}
