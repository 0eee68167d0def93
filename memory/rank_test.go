package memory

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/internal/textwords"
)

func TestTheWordsOfAText(t *testing.T) {
	for text, want := range map[string]string{
		"Fix src/state.rs: a Parser!": "fix parser src state",
		"":                            "",
		"a bc def":                    "def",
		"Straße ÜBER-Naïve x1y2 日本語 日本": "naïve straße x1y2 über 日本語",
		"same Same SAME":  "same",
		"snake_case_word": "case snake word",
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(WordsOf(text))), " "); got != want {
			t.Errorf("WordsOf(%q) = %q, want %q", text, got, want)
		}
	}
}

// A note is cut into words as a text is, each once, however many there are.
func TestTheWordsOfANoteAreThoseOfItsTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c textwords.Cutter
		for range rapid.IntRange(1, 4).Draw(t, "notes") {
			parts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
				return rapid.SampledFrom([]string{"Word", "é", "ab", "x"}).Draw(t, "stem") + fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "number"))
			}), 0, 120).Draw(t, "words")
			key, value := rapid.StringN(0, 10, -1).Draw(t, "key"), strings.Join(parts, " ")
			want := WordsOf(key)
			want.Add(value)
			got := c.Words(key, value)
			if diff := slices.Compare(slices.Sorted(maps.Keys(want)), slices.Sorted(slices.Values(got))); diff != 0 {
				t.Fatalf("%q and %q have the words %q, want %q", key, value, got, want)
			}
		}
	})
}

func TestWhatRanksBest(t *testing.T) {
	signals := WordsOf("make the parser report the column")
	for _, tc := range []struct {
		name  string
		notes []Note
		want  []int // worst first
	}{
		{"the subject beats the evidence", []Note{
			{Key: "a", Value: "parser column"}, {Key: "b", Value: "parser", Draws: 9}, {Key: "c", Value: "column parser", Draws: 1},
		}, []int{1, 0, 2}},
		{"the evidence breaks a tie of the subject", []Note{{Key: "a", Value: "parser", Draws: 2}, {Key: "b", Value: "parser", Draws: 1}}, []int{1, 0}},
		{"the order of the store breaks the rest", []Note{{Key: "k1"}, {Key: "k2"}, {Key: "k3"}}, []int{0, 1, 2}},
		{"a key counts as its value does", []Note{{Key: "nothing"}, {Key: "parser-notes"}}, []int{0, 1}},
		{"it is a count and no ratio", []Note{{Key: "a", Value: "parser " + strings.Repeat("other words here ", 50) + "column"}, {Key: "b", Value: "parser"}}, []int{1, 0}},
		{"one note", []Note{{Key: "a"}}, []int{0}},
		{"none", nil, []int{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := new(Cache).Rank("w", signals, tc.notes); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestANoteThatSaysSomethingElseIsRankedByThat(t *testing.T) {
	var c Cache
	signals := WordsOf("parser")
	notes := []Note{{Key: "a", Value: "parser"}, {Key: "b", Value: "column"}}
	if got := c.Rank("w", signals, notes); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("at first %v", got)
	}
	notes[0].Value, notes[1].Value = "column", "parser"
	if got := c.Rank("w", signals, notes); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("once the values are exchanged %v", got)
	}
	notes[0].Key, notes[1].Key = "other", "parser"
	if got := c.Rank("w", WordsOf("other"), notes); !slices.Equal(got, []int{1, 0}) {
		t.Errorf("under other keys %v", got)
	}
}

func TestTheCacheChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept Cache
		for range rapid.IntRange(1, 6).Draw(t, "rankings") {
			keys := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 0, 8, rapid.ID).Draw(t, "keys")
			notes := make([]Note, len(keys))
			for i, k := range keys {
				notes[i] = Note{
					Key: fmt.Sprint("k", k), Value: rapid.SampledFrom([]string{"parser", "column", "parser column", ""}).Draw(t, "value"),
					Draws: rapid.IntRange(0, 2).Draw(t, "draws"),
				}
			}
			scope := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "scope")
			signals := WordsOf(rapid.SampledFrom([]string{"parser", "column", "both parser column"}).Draw(t, "signals"))
			want := new(Cache).Rank(scope, signals, notes)
			if got := kept.Rank(scope, signals, notes); !slices.Equal(got, want) {
				t.Fatalf("with a cache %v, without %v", got, want)
			}
			if n := len(kept.scopes[scope]); n != len(notes) {
				t.Fatalf("the cache holds %d notes of %d", n, len(notes))
			}
		}
	})
}
