package wire

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestHalfCharactersAreFoundByTheirEscapesAlone(t *testing.T) {
	piece := rapid.SampledFrom([]string{`\ud83d`, `\uD83D`, `\ude42`, `\uDE42`, `\\`, `\n`, `a`, `\u0041`, `u`, `\"`, `d83d`, `é`})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")
		raw := `{"a":"` + text + `"}`
		var decoded map[string]string
		if err := json.Unmarshal([]byte(raw), &decoded); err != nil {
			t.Fatal(err)
		}
		lone := strings.ContainsRune(decoded["a"], '\uFFFD') // the decoder's mark for half a character
		args, problem := Arguments(raw)
		if lone != (problem != "") {
			t.Fatalf("%s: problem %q, want one: %v", raw, problem, lone)
		}
		if problem == "" && string(args) != raw {
			t.Fatalf("%s became %s", raw, args)
		}
	})
}

func TestLongArgumentsAreQuotedInPart(t *testing.T) {
	_, problem := Arguments(strings.Repeat("é[", 10<<20))
	if len(problem) > 400 || !strings.Contains(problem, "not valid JSON") {
		t.Errorf("problem of %d bytes: %.200s", len(problem), problem)
	}
}

func TestTheProblemNamesTheByteThatIsWrong(t *testing.T) {
	for raw, at := range map[string]string{
		`{"path":"a"`:      "at byte 11 ",
		` {"a":1,}`:        "at byte 8 ",
		`{"a": tru}`:       "at byte 10 ",
		`{"a":1} and more`: "at byte 9 ",
		`{"a":"\ud83d"}`:   "at byte 7:",
	} {
		if _, problem := Arguments(raw); !strings.Contains(problem, at) {
			t.Errorf("%s: %q does not say %q", raw, problem, at)
		}
	}
}
