package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	return b.Bytes(), ""
}

func describe(s string, err error) string {
	at := ""
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
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
