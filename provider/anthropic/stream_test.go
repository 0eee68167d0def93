package anthropic

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
)

func TestModelVersions(t *testing.T) {
	for _, tc := range []struct {
		id           string
		major, minor int
		ok           bool
	}{
		{"claude-opus-4-7", 4, 7, true}, {"claude-opus-5", 5, 0, true}, {"claude-sonnet-4-20250514", 4, 0, true}, {"claude-3-5-sonnet-20241022", 3, 5, true},
		{"claude-3-opus-20240229", 3, 0, true}, {"anthropic/claude-haiku-4.5", 4, 5, true}, {"claude-opus-4-1@20250805", 4, 1, true}, {"Claude-Sonnet-4-6", 4, 6, true},
		{"claude-sonnet", 0, 0, false}, {"gpt-5", 0, 0, false}, {"", 0, 0, false}, {"claude-sonnet-20250514", 0, 0, false},
	} {
		major, minor, ok := modelVersion(tc.id)
		if major != tc.major || minor != tc.minor || ok != tc.ok {
			t.Errorf("%q = %d.%d, %v; want %d.%d, %v", tc.id, major, minor, ok, tc.major, tc.minor, tc.ok)
		}
	}
}

func TestProjectedSchemas(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"bounds become words", `{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string","description":"name","minLength":1,"maxLength":9},"b":{"type":"array","minItems":1,"maxItems":3,"items":{"type":"number","maximum":2}},"c":{"type":"array","minItems":2}}}`,
			`{"additionalProperties":false,"properties":{"a":{"description":"name (minLength 1, maxLength 9)","type":"string"},"b":{"description":"(maxItems 3)","items":{"description":"(maximum 2)","type":"number"},"minItems":1,"type":"array"},"c":{"description":"(minItems 2)","type":"array"}},"type":"object"}`},
		{"an open object", `{"type":"object","properties":{}}`, ""},
		{"an open object inside", `{"type":"object","additionalProperties":false,"properties":{"a":{"type":["object","null"]}}}`, ""},
		{"an open object in a choice", `{"type":"object","additionalProperties":false,"properties":{"a":{"anyOf":[{"type":"object"}]}}}`, ""},
		{"an open object in a definition", `{"type":"object","additionalProperties":false,"$defs":{"X":{"type":"object"}}}`, ""},
		{"no schema", `[`, ""},
	} {
		got, ok := projectSchema([]byte(tc.in))
		if ok != (tc.want != "") || string(got) != tc.want {
			t.Errorf("%s = %s, %v; want %s", tc.name, got, ok, tc.want)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add("data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"name\":\"x\",\"input\":{\"a\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n")
	f.Add("data: {\"type\":\"content_block_delta\",\"index\":-3,\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"pause_turn\"},\"usage\":{\"input_tokens\":1e99}}\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		var text strings.Builder
		early := 0
		a := newAccumulator(Config{Name: name}, plan{model: "m", mode: ThinkingBudget}, provider.Sink{
			Token: func(s string) { text.WriteString(s) },
			Call:  func(int, provider.ToolCall) { early++ },
		}, time.Now())
		r := sse.NewReader(strings.NewReader(in), sse.Limits{})
		for {
			e, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return
			}
			stop, err := a.event(e)
			if err != nil {
				return
			}
			if stop {
				break
			}
		}
		resp, err := a.finish()
		if (resp == nil) == (err == nil) {
			t.Fatalf("response %v and error %v", resp, err)
		}
		if err != nil {
			return
		}
		if text.String() != resp.Text || early > len(resp.Calls) || !json.Valid(resp.Carry) {
			t.Fatalf("streamed %q, settled %+v", text.String(), resp)
		}
	})
}
