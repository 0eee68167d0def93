package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MarshalJSON writes the stored form:
//
//	{"layers":[{"name":…,"rules":[{"act":…,"effect":…,"pattern":…}]}],
//	 "defaults":{"read":…,"write":…,"exec":…,"net":…}}
//
// A layer that [Policy.Contain] took from a child may have "narrows":true besides. A
// policy that does not validate is an error: its faults would be lost.
func (p Policy) MarshalJSON() ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		Layers   []Layer  `json:"layers"`
		Defaults Defaults `json:"defaults"`
	}{p.Layers(), p.Defaults()})
}

// UnmarshalJSON reads the stored form, to a policy that decides as the stored one did.
// It is strict: a key that is unknown, missing, repeated or written in another case,
// and an unknown act or effect, are errors that name it. Only "net" may be missing
// from the defaults, and then denies, because policies were once stored without it.
func (p *Policy) UnmarshalJSON(data []byte) error {
	top, err := object(data, "policy", "layers", "defaults")
	if err != nil {
		return err
	}
	var out Policy
	if err := readDefaults(top["defaults"], &out.defaults); err != nil {
		return err
	}
	layers, err := array(top["layers"], "policy layers")
	if err != nil {
		return err
	}
	for i, raw := range layers {
		where := fmt.Sprintf("policy layer %d", i)
		fields, err := object(raw, where, "name", "rules", "narrows?")
		if err != nil {
			return err
		}
		name, err := text(fields["name"], where+" name")
		if err != nil {
			return err
		}
		list, err := array(fields["rules"], where+" rules")
		if err != nil {
			return err
		}
		rules := make([]Rule, len(list))
		for j, raw := range list {
			if rules[j], err = readRule(raw, fmt.Sprintf("%s rule %d", where, j)); err != nil {
				return err
			}
		}
		out = out.push(name).add(rules)
		if narrows, ok := fields["narrows"]; ok {
			if err := json.Unmarshal(narrows, &out.layers[i].narrows); err != nil {
				return fmt.Errorf("%s narrows: want a boolean, found %s", where, found(narrows))
			}
		}
	}
	*p = out
	return nil
}

// UnmarshalJSON reads one rule as strictly as a policy does.
func (r *Rule) UnmarshalJSON(data []byte) error {
	out, err := readRule(data, "rule")
	if err != nil {
		return err
	}
	*r = out
	return nil
}

func readRule(raw json.RawMessage, where string) (Rule, error) {
	fields, err := object(raw, where, "act", "effect", "pattern")
	if err != nil {
		return Rule{}, err
	}
	var words [3]string
	for i, key := range [...]string{"act", "effect", "pattern"} {
		if words[i], err = text(fields[key], where+" "+key); err != nil {
			return Rule{}, err
		}
	}
	r := Rule{Act: Act(words[0]), Effect: Effect(words[1]), Pattern: words[2]}
	if !r.Act.Valid() {
		return Rule{}, fmt.Errorf("%s: act %q is none of read, write, exec and net", where, words[0])
	}
	if !r.Effect.Valid() {
		return Rule{}, fmt.Errorf("%s: effect %q is none of allow, ask and deny", where, words[1])
	}
	return r, nil
}

func readDefaults(raw json.RawMessage, d *Defaults) error {
	const where = "policy defaults"
	fields, err := object(raw, where, "read", "write", "exec", "net?")
	if err != nil {
		return err
	}
	d.Net = Deny
	for key, dst := range map[string]*Effect{"read": &d.Read, "write": &d.Write, "exec": &d.Exec, "net": &d.Net} {
		value, ok := fields[key]
		if !ok {
			continue
		}
		word, err := text(value, where+" "+key)
		if err != nil {
			return err
		}
		if *dst = Effect(word); !dst.Valid() {
			return fmt.Errorf("%s: %s %q is none of allow, ask and deny", where, key, word)
		}
	}
	return nil
}

// object reads a JSON object that has exactly the given keys; one that ends in "?"
// may be missing. The standard decoder would take keys in any case and keep the last
// of two, so that two readers could see two policies in one text.
func object(raw json.RawMessage, where string, keys ...string) (map[string]json.RawMessage, error) {
	optional := map[string]bool{}
	for _, k := range keys {
		if k[len(k)-1] == '?' {
			optional[k[:len(k)-1]] = true
		} else {
			optional[k] = false
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, fmt.Errorf("%s: want a JSON object, found %s", where, found(raw))
	}
	out := map[string]json.RawMessage{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		key, _ := tok.(string)
		if _, known := optional[key]; !known {
			return nil, fmt.Errorf("%s: unknown key %q", where, key)
		}
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s: key %q is there twice", where, key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s %s: %w", where, key, err)
		}
		out[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: more text after the object", where)
	}
	for _, k := range keys {
		if _, ok := out[k]; !ok && k[len(k)-1] != '?' {
			return nil, fmt.Errorf("%s: key %q is missing", where, k)
		}
	}
	return out, nil
}

func array(raw json.RawMessage, where string) ([]json.RawMessage, error) {
	var out []json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil || out == nil {
		return nil, fmt.Errorf("%s: want a JSON array, found %s", where, found(raw))
	}
	return out, nil
}

func text(raw json.RawMessage, where string) (string, error) {
	var out *string
	if err := json.Unmarshal(raw, &out); err != nil || out == nil {
		return "", fmt.Errorf("%s: want a string, found %s", where, found(raw))
	}
	return *out, nil
}

// found names what stands in a place without repeating it.
func found(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "something else"
}
