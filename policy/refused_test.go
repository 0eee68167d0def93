package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestRefusals(t *testing.T) {
	p := ops().DenyExec("git push*").AskExec("make")
	for _, tc := range []struct {
		name string
		n    Need
		want string
	}{
		{"by a rule", Need{Act: Read, Target: "secrets/k"}, `read of "secrets/k" refused: rule "secrets/*" of layer "ops" denies it`},
		{"of a command line", Need{Act: Exec, Argv: []string{"git", "push"}}, `exec of "git push" refused: rule "git push*" of layer "ops" denies it`},
		{"by a default", Need{Act: Net, Target: "a.com:443"}, `net of "a.com:443" refused: no rule allows it and the default for net denies`},
		{"by a default that asks", Need{Act: Write, Target: "doc"}, `write of "doc" refused: no rule allows it and the default for write asks, and nobody can be asked here: allow it by a rule`},
		{"by a rule that asks", Need{Act: Exec, Target: "make"}, `exec of "make" refused: rule "make" of layer "ops" asks about it, and nobody can be asked here: allow it by a rule`},
		{"by no policy", Need{Act: Read, Target: "../x"}, `read of "../x" refused: <resolves outside workspace root>, which no policy can allow`},
		{"of a target that would draw on the terminal", Need{Act: Read, Target: "secrets/\x1b[2J\nok"}, `read of "secrets/\x1b[2J\nok" refused: rule "secrets/*" of layer "ops" denies it`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := fmt.Errorf("starting: %w", p.Check(tc.n).Refusal(tc.n))
			if !errors.Is(err, ErrRefused) {
				t.Error("is not ErrRefused")
			}
			var refused *RefusedError
			if !errors.As(err, &refused) {
				t.Fatal("is no RefusedError")
			}
			if refused.Error() != tc.want {
				t.Errorf("reads\n%s\nwant\n%s", refused.Error(), tc.want)
			}
		})
	}
}

func TestADenialNamesNoRuleAndSaysWhy(t *testing.T) {
	for _, tc := range []struct{ reason, want string }{
		{"", `net of "a.com:443" refused: the approver denied it`},
		{"not at night\x1b[2J", `net of "a.com:443" refused: the approver denied it: not at night\x1b[2J`},
	} {
		err := &RefusedError{Act: Net, Target: "a.com:443", Denied: true, Reason: tc.reason}
		if err.Error() != tc.want || !errors.Is(err, ErrRefused) {
			t.Errorf("reads\n%s\nwant\n%s", err, tc.want)
		}
	}
}

func TestEscape(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain text", "src/a b.go", "src/a b.go"},
		{"letters of the world", "größe/数据/ключ", "größe/数据/ключ"},
		{"a line break", "a\nb", `a\nb`},
		{"a carriage return", "a\rb", `a\rb`},
		{"a terminal sequence", "\x1b[31mred", `\x1b[31mred`},
		{"a bidirectional override", "txt\u202egpj.exe", `txt\u202egpj.exe`},
		{"a bidirectional isolate", "a\u2066b", `a\u2066b`},
		{"a zero-width joiner", "se\u200dcret", `se\u200dcret`},
		{"a zero-width space", "a\u200bb", `a\u200bb`},
		{"a byte-order mark", "\ufeffa", `\ufeffa`},
		{"a soft hyphen", "a\u00adb", `a\u00adb`},
		{"a no-break space", "a\u00a0b", `a\u00a0b`},
		{"a line separator", "a\u2028b", `a\u2028b`},
		{"a hangul filler", "a\u3164b", `a\u3164b`},
		{"a tag character", "a\U000E0041b", `a\U000e0041b`},
		{"a variation selector", "a\ufe0fb", `a\ufe0fb`},
		{"an invalid byte", "a\xffb", `a\xffb`},
		{"a C1 control", "a\u009bb", `a\u009bb`},
		{"the empty text", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Escape(tc.in)
			if got != tc.want {
				t.Errorf("Escape(%q) = %q, want %q", tc.in, got, tc.want)
			}
			if strings.ContainsFunc(got, func(r rune) bool { return r < ' ' }) {
				t.Errorf("Escape(%q) = %q holds a control character", tc.in, got)
			}
		})
	}
}
