package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// ToolSchema brings the schema of a tool's arguments to the form that all
// vendors take, without changing what it admits: an object at the top with a
// properties member. What is no JSON object at all is offered as a tool
// without arguments.
func ToolSchema(raw json.RawMessage) json.RawMessage {
	const none = `{"type":"object","properties":{}}`
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() < 2 || b.Bytes()[0] != '{' {
		return json.RawMessage(none)
	}
	top := gjson.ParseBytes(b.Bytes())
	var add []string
	if !top.Get("type").Exists() && !has(top, "$ref", "anyOf", "oneOf", "allOf") {
		add = append(add, `"type":"object"`)
	}
	if !top.Get("properties").Exists() && !has(top, "$ref", "anyOf", "oneOf", "allOf") {
		add = append(add, `"properties":{}`)
	}
	if len(add) == 0 {
		return b.Bytes()
	}
	rest := b.String()[1:]
	if rest != "}" {
		rest = "," + rest
	}
	return json.RawMessage("{" + strings.Join(add, ",") + rest)
}

func has(o gjson.Result, keys ...string) bool {
	found := false
	o.ForEach(func(k, _ gjson.Result) bool {
		found = slices.Contains(keys, k.String())
		return !found
	})
	return found
}

// SchemaName makes a name that vendors take for an answer's schema.
func SchemaName(name string) string {
	if strings.TrimSpace(name) == "" {
		return "output"
	}
	return ToolName(name)
}

// strictKeys are the keywords that a strict answer schema may use.
var strictKeys = []string{
	"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
	"description", "title", "pattern", "format", "multipleOf", "minimum", "maximum", "exclusiveMinimum",
	"exclusiveMaximum", "minItems", "maxItems",
}

// Strict reports whether a schema meets the strict profile of Chat Completions:
// an object at the root, every object closed with all its properties required,
// and no keyword outside of the profile. Asked to be strict about any other
// schema, the vendor refuses the request.
func Strict(schema json.RawMessage) bool {
	if !json.Valid(schema) {
		return false
	}
	root := gjson.ParseBytes(schema)
	return root.Get("type").String() == "object" && strictSchema(root)
}

func strictSchema(s gjson.Result) bool {
	if !s.IsObject() {
		return false
	}
	ok := true
	s.ForEach(func(k, v gjson.Result) bool {
		switch key := k.String(); key {
		case "properties", "$defs":
			v.ForEach(func(_, sub gjson.Result) bool {
				ok = ok && strictSchema(sub)
				return ok
			})
		case "items":
			ok = strictSchema(v)
		case "anyOf":
			v.ForEach(func(_, sub gjson.Result) bool {
				ok = ok && strictSchema(sub)
				return ok
			})
		default:
			ok = slices.Contains(strictKeys, key)
		}
		return ok
	})
	return ok && (!isObjectSchema(s) || closedObject(s))
}

func isObjectSchema(s gjson.Result) bool {
	t := s.Get("type")
	if t.IsArray() {
		for _, v := range t.Array() {
			if v.String() == "object" {
				return true
			}
		}
		return false
	}
	return t.String() == "object" || s.Get("properties").Exists()
}

func closedObject(s gjson.Result) bool {
	if s.Get("additionalProperties").Raw != "false" {
		return false
	}
	var required []string
	for _, r := range s.Get("required").Array() {
		required = append(required, r.String())
	}
	ok := true
	s.Get("properties").ForEach(func(k, _ gjson.Result) bool {
		ok = slices.Contains(required, k.String())
		return ok
	})
	return ok
}
