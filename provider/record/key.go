package record

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/initorigin/io-harness-go/provider"
)

// key is the question as canonical JSON: members sorted, numbers as written.
//
// Left out is what does not change the question. The conversation is left out
// where User renders it, so that a request with and one without a transcript
// match. Marks for a vendor's cache are left out because they change the price
// of an answer and not the answer, and a resumed run sets them later than an
// uninterrupted one. What a vendor wanted carried back, and the ids of calls,
// are somebody else's numbers.
func key(req *provider.Request) (string, error) {
	q := req.Clone()
	q.CacheBoundary, q.CacheThrough = 0, 0
	if q.User != "" {
		q.Messages = nil
	}
	if len(q.System) == 0 {
		q.System = []string{}
	}
	if len(q.Tools) == 0 {
		q.Tools = []provider.ToolSpec{}
	}
	for i := range q.Messages {
		m := &q.Messages[i]
		m.Carry = nil
		for j := range m.Calls {
			m.Calls[j].ID = ""
		}
		if i > 0 {
			for j := range m.Results {
				m.Results[j].CallID = position(req.Messages[i-1].Calls, m.Results[j].CallID)
			}
		}
	}
	b, err := json.Marshal(q)
	if err != nil {
		return "", &provider.ConfigError{Message: "the request cannot be written as JSON: " + err.Error()}
	}
	return canonical(b)
}

// position names a call by where it stands.
func position(calls []provider.ToolCall, id string) string {
	for i, c := range calls {
		if c.ID == id {
			return fmt.Sprint(i)
		}
	}
	return "none"
}

func canonical(b []byte) (string, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("canonical request: %w", err)
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("canonical request: %w", err)
	}
	return out.String(), nil
}
