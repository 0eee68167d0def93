package textwords

import (
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// plainly is what Each does, said in the simplest way.
func plainly(text string) (words []string) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		if len([]rune(w)) >= Min {
			words = append(words, strings.ToLower(w))
		}
	}
	return words
}

func TestTheWordsOfAnyTextAreItsRunsOfLettersAndDigits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
			"a", "B", "7", "word", "Word", " ", ".", "_", "\n", "\x00", "é", "É", "İ", "ß", "日", "½", "²", "—", "\u212a", "\xff", "\xe2\x80",
		}), 0, 40).Draw(t, "parts"), "")
		var got []string
		Each(text, func(w string) { got = append(got, w) })
		if want := plainly(text); !slices.Equal(got, want) {
			t.Fatalf("%q has the words %q, want %q", text, got, want)
		}
	})
}

// One that took a long text apart before knows nothing of it.
func TestACutterStartsAnew(t *testing.T) {
	var c Cutter
	var long []string
	for i := range 3 * few {
		long = append(long, "word"+strings.Repeat("x", i))
	}
	for range 2 {
		if got := c.Words(strings.Join(append(long, long...), " ")); !slices.Equal(got, long) {
			t.Errorf("%d words, want %d: %q", len(got), len(long), got)
		}
		if got := c.Words("word", "another Word"); !slices.Equal(got, []string{"word", "another"}) {
			t.Errorf("%q", got)
		}
	}
}
