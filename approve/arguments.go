package approve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// members reads a JSON object of a model by its exact keys. The standard decoder
// would also take a key in another case and let the last of two equal keys win, so
// that what a person is shown could differ from what is done.
func members(raw json.RawMessage, where string) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, fmt.Errorf("%s must be an object", where)
	}
	out := map[string]json.RawMessage{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		key, _ := tok.(string)
		if _, twice := out[key]; twice {
			return nil, fmt.Errorf("%s has the key %q twice", where, key)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s.%s: %w", where, key, err)
		}
		out[key] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is followed by more text", where)
	}
	return out, nil
}

func items(raw json.RawMessage, where string) ([]json.RawMessage, error) {
	if absent(raw) {
		return nil, fmt.Errorf("%s is missing", where)
	}
	var out []json.RawMessage
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("%s must be a list", where)
	}
	return out, nil
}

// trimmed reads text without the white space around it; absent is empty.
func trimmed(raw json.RawMessage, where string) (string, error) {
	if absent(raw) {
		return "", nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("%s must be text", where)
	}
	return strings.TrimSpace(s), nil
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}
