package verify

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Strict is the schema as a vendor's strict mode takes it, and whether there is
// such a form: the root is an object, every object states additionalProperties
// false, every member is required or may be null, every value has a type, and no
// keyword is outside what strict modes know (minLength and maxLength are). In the
// strict form a member that is not required and may be null is required; what
// conforms to it conforms to the schema too. Annotations but the description are
// left out.
func (s *Schema) Strict() (json.RawMessage, bool) {
	if !slices.Equal(s.root.types, []string{"object"}) || !s.root.strict() {
		return nil, false
	}
	var b strings.Builder
	s.root.writeStrict(&b, s.doc)
	return compact(b.String()), true
}

func (n *shape) strict() bool {
	for _, word := range n.order {
		if k, _ := lookup(word); !k.strict && !k.note {
			return false
		}
	}
	if len(n.types) == 0 {
		return false
	}
	if slices.Contains(n.types, "object") {
		if !n.closed || n.properties == nil {
			return false
		}
		for _, name := range n.names {
			if !slices.Contains(n.required, name) && !n.properties[name].nullable() {
				return false
			}
		}
	}
	for _, sub := range n.properties {
		if !sub.strict() {
			return false
		}
	}
	if slices.Contains(n.types, "array") && n.items == nil {
		return false
	}
	return n.items == nil || n.items.strict()
}

// writeStrict copies the document of n from src, keyword by keyword.
func (n *shape) writeStrict(b *strings.Builder, src string) {
	sep := "{"
	put := func(word string) {
		b.WriteString(sep + strconv.Quote(word) + ":")
		sep = ","
	}
	for _, m := range n.source.members {
		if k, _ := lookup(m.name); !k.strict || m.name == "required" {
			continue
		}
		put(m.name)
		switch m.name {
		case "properties":
			inner := "{"
			for _, p := range m.value.members {
				b.WriteString(inner)
				inner = ","
				name, _ := json.Marshal(p.name) // a string always marshals
				b.Write(name)
				b.WriteByte(':')
				n.properties[p.name].writeStrict(b, src)
			}
			if inner == "{" {
				b.WriteString(inner)
			}
			b.WriteString("}")
		case "items":
			n.items.writeStrict(b, src)
		default:
			b.WriteString(src[m.value.start:m.value.end])
		}
	}
	if n.properties != nil {
		put("required")
		names, _ := json.Marshal(append([]string{}, n.names...)) // strings always marshal
		b.Write(names)
	}
	if sep == "{" {
		b.WriteString(sep)
	}
	b.WriteString("}")
}
