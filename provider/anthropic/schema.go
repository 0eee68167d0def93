package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// unsupported are the bounds that this vendor's schemas cannot state. They are
// said in words instead; that they hold is checked by whoever asked.
var unsupported = []string{"minimum", "maximum", "minLength", "maxLength", "maxItems", "minItems"}

// projectSchema makes the copy of an answer's schema that this vendor takes. ok
// is false when there is none that means the same: an object that its author
// left open cannot be sent, because the vendor would close it.
func projectSchema(schema json.RawMessage) ([]byte, bool) {
	dec := json.NewDecoder(bytes.NewReader(schema))
	dec.UseNumber()
	var root map[string]any
	if dec.Decode(&root) != nil || !project(root) {
		return nil, false
	}
	b, err := wire.Encode(root)
	return b, err == nil
}

func project(s map[string]any) bool {
	_, hasProperties := s["properties"]
	if isObject(s["type"]) || hasProperties {
		if closed, is := s["additionalProperties"].(bool); !is || closed {
			return false
		}
	}
	var words []string
	for _, key := range unsupported {
		v, ok := s[key]
		if !ok {
			continue
		}
		if n, _ := v.(json.Number); key == "minItems" && (n == "0" || n == "1") {
			continue
		}
		words = append(words, fmt.Sprintf("%s %v", key, v))
		delete(s, key)
	}
	if len(words) > 0 {
		told, _ := s["description"].(string)
		s["description"] = strings.TrimSpace(told + " (" + strings.Join(words, ", ") + ")")
	}
	for _, key := range []string{"properties", "$defs"} {
		named, _ := s[key].(map[string]any)
		for _, sub := range named {
			if m, ok := sub.(map[string]any); ok && !project(m) {
				return false
			}
		}
	}
	if m, ok := s["items"].(map[string]any); ok && !project(m) {
		return false
	}
	choices, _ := s["anyOf"].([]any)
	return !slices.ContainsFunc(choices, func(sub any) bool {
		m, ok := sub.(map[string]any)
		return ok && !project(m)
	})
}

func isObject(t any) bool {
	if list, ok := t.([]any); ok {
		return slices.Contains(list, any("object"))
	}
	return t == "object"
}
