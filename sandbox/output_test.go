package sandbox

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Whatever is written in whatever pieces, the head is the beginning, the tail
// the end, and what is missing is counted in runes.
func TestCaptureKeepsHeadAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(8, 40).Draw(t, "limit")
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "é", "€", "😀", "\n"}), 0, 120).Draw(t, "text"), "")
		c := newCapture(limit)
		for rest := text; rest != ""; {
			k := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			if n, err := c.Write([]byte(rest[:k])); n != k || err != nil {
				t.Fatalf("Write = %d, %v; want %d", n, err, k)
			}
			rest = rest[k:]
		}
		got := c.output()
		if got.Bytes != int64(len(text)) {
			t.Fatalf("Bytes = %d, want %d", got.Bytes, len(text))
		}
		if !strings.HasPrefix(text, got.Head) || !strings.HasSuffix(text, got.Tail) || !utf8.ValidString(got.Head+got.Tail) {
			t.Fatalf("%q + %q are not the ends of %q", got.Head, got.Tail, text)
		}
		kept := utf8.RuneCountInString(got.Head) + utf8.RuneCountInString(got.Tail)
		if want := int64(utf8.RuneCountInString(text) - kept); got.Elided != want {
			t.Fatalf("Elided = %d, want %d (head %q, tail %q, text %q)", got.Elided, want, got.Head, got.Tail, text)
		}
		if len(got.Head)+len(got.Tail) > 2*max(limit/2, utf8.UTFMax) {
			t.Fatalf("kept %d bytes of a limit of %d", len(got.Head)+len(got.Tail), limit)
		}
	})
}

func TestBrokenTextIsReplaced(t *testing.T) {
	c := newCapture(64)
	_, _ = c.Write([]byte("a\xffb\xe2\x82"))
	if got := c.output().String(); got != "a\uFFFDb\uFFFD" {
		t.Errorf("got %q", got)
	}
}

func TestBound(t *testing.T) {
	for _, tc := range []struct {
		in    string
		limit int
		want  string
	}{
		{"short", 10, "short"},
		{"short", 5, "short"},
		{"short", 0, "short"},
		{"ééééé", 5, "ééééé"},
		{"abcdefghij", 4, "ab\n[… 6 characters left out …]\nij"},
		{"ééééééé", 3, "éé\n[… 4 characters left out …]\né"},
	} {
		if got := Bound(tc.in, tc.limit); got != tc.want {
			t.Errorf("Bound(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.want)
		}
	}
}

func TestResultTextJoinsTheStreams(t *testing.T) {
	for _, tc := range []struct{ out, err, want string }{
		{"", "", ""}, {" a\n", "", "a"}, {"", "\nb\n", "b"}, {"a\n", "b\n", "a\nb"},
	} {
		r := Result{Stdout: Output{Head: tc.out}, Stderr: Output{Head: tc.err}}
		if got := r.Text(0); got != tc.want {
			t.Errorf("Text of %q and %q = %q, want %q", tc.out, tc.err, got, tc.want)
		}
	}
}

func TestRuneStartsAreCountedAsTheyStand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "b")
		want := int64(0)
		for _, x := range b {
			if utf8.RuneStart(x) {
				want++
			}
		}
		if got := runeStarts(b); got != want {
			t.Fatalf("%d starts in %x, want %d", got, b, want)
		}
	})
}
