package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// shownArguments bounds how much of unusable arguments an error quotes: enough
// for a model to see its mistake, too little to fill a prompt.
const shownArguments = 200

// Arguments brings the arguments of a call to the form that provider.ToolCall
// promises: one JSON object, compact, numbers as written. No text at all is an
// empty object. For everything else that is no object it returns {} and says
// what was wrong.
func Arguments(raw string) (args json.RawMessage, problem string) {
	trimmed := strings.TrimSpace(raw)
	if trimmed == "" {
		return json.RawMessage("{}"), ""
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(trimmed)); err != nil {
		return json.RawMessage("{}"), describe(trimmed, err)
	}
	if b.Bytes()[0] != '{' {
		return json.RawMessage("{}"), "the arguments are valid JSON but not an object: " + Excerpt(trimmed)
	}
	if at := loneSurrogate(b.Bytes()); at >= 0 {
		return json.RawMessage("{}"), fmt.Sprintf("the arguments hold half a character, an escape without its pair, at byte %d: %s", at+1, Excerpt(trimmed))
	}
	return b.Bytes(), ""
}

// describe says what is wrong with s, and behind how many bytes of it. The place
// is looked for anew, because an error of json.Compact has none.
func describe(s string, err error) string {
	at := ""
	var syntax *json.SyntaxError
	if errors.As(json.Unmarshal([]byte(s), new(json.RawMessage)), &syntax) {
		at = fmt.Sprintf(" at byte %d", syntax.Offset)
	}
	return fmt.Sprintf("the arguments are not valid JSON%s (%v): %s", at, err, Excerpt(s))
}

// Excerpt quotes the start of a text that could not be used.
func Excerpt(s string) string {
	if len(s) > shownArguments {
		s = strings.ToValidUTF8(s[:shownArguments], "") + "..."
	}
	return strconv.Quote(s)
}

// loneSurrogate is where a \u escape names half of a character without the
// other half, -1 when none does. JSON's grammar lets it pass; no text can hold
// it, and servers refuse a conversation in which it is sent back.
func loneSurrogate(b []byte) int {
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		unit, ok := escape(b[i:])
		if !ok {
			i++ // another escape, two bytes long
			continue
		}
		if utf16.IsSurrogate(unit) {
			second, ok := escape(b[min(i+6, len(b)):])
			if !ok || utf16.DecodeRune(unit, second) == '\uFFFD' {
				return i
			}
			i += 6
		}
		i += 5
	}
	return -1
}

// escape reads a \u escape at the start of b.
func escape(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n), err == nil
}
