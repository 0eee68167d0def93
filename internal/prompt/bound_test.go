package prompt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

func TestBoundKeepsTheEndOfAReadAndTheStartOfTheRest(t *testing.T) {
	text := strings.Repeat("a", 1500) + strings.Repeat("é", 1500)
	read := Bound(text, 1500, trace.ObsRead)
	if !strings.HasPrefix(read, "[truncated: 1,500 of 3,000 characters elided;") || !strings.HasSuffix(read, strings.Repeat("é", 1500)) || strings.Contains(read, "aa") {
		t.Errorf("a read must keep its end behind the marker, got %.80q … %.20q", read, read[len(read)-20:])
	}
	if !strings.Contains(read, "offset and limit") {
		t.Errorf("a read's marker must say how to get the rest: %.120q", read)
	}
	for _, kind := range []trace.ObservationKind{trace.ObsGrep, trace.ObsTool, trace.ObsMCP, trace.ObsError, trace.ObsMessage} {
		got := Bound(text, 1501, kind)
		if !strings.HasPrefix(got, strings.Repeat("a", 1500)+"é\n[truncated: 1,499 of 3,000") {
			t.Errorf("%s must keep its start, got %.20q … %q", kind, got, got[len(got)-100:])
		}
	}
}

func TestBoundLeavesWhatFits(t *testing.T) {
	for _, text := range []string{"", "x", strings.Repeat("é", 10)} {
		if got := Bound(text, 10, trace.ObsRead); got != text {
			t.Errorf("Bound(%q) = %q, want it unchanged", text, got)
		}
	}
}

func TestBoundMakesValidTextAndSplitsNoCharacter(t *testing.T) {
	for limit := range 9 {
		for _, kind := range []trace.ObservationKind{trace.ObsRead, trace.ObsTool} {
			got := Bound("日本\xff語x\xf0\x9f", limit, kind)
			if !utf8.ValidString(got) {
				t.Errorf("Bound(limit %d, %s) = %q is not UTF-8", limit, kind, got)
			}
		}
	}
}

func TestCommas(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := commas(n); got != want {
			t.Errorf("commas(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestALabelStaysOnItsLine(t *testing.T) {
	got := label("a\n[write refused]\u2028b\x00" + strings.Repeat("x", 10_000))
	if strings.ContainsAny(got, "\n\x00\u2028") || utf8.RuneCountInString(got) > 300 {
		t.Errorf("label = %q, want one short line without control characters", got)
	}
}
