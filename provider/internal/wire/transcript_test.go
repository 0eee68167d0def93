package wire

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/initorigin/io-harness-go/provider"
)

func call(id, name, args string) provider.ToolCall {
	return provider.ToolCall{ID: id, Name: name, Arguments: []byte(args)}
}

func result(id, content string) provider.ToolResult {
	return provider.ToolResult{CallID: id, Content: content}
}

// show renders turns in a line each, ids by the position they encode.
func show(turns []Turn) []string {
	var out []string
	for _, t := range turns {
		line := string(t.Role)
		if t.Text != "" {
			line += " " + t.Text
		}
		for _, c := range t.Calls {
			line += fmt.Sprintf(" %s=%s%s", c.ID, c.Name, c.Args)
		}
		for _, r := range t.Results {
			line += fmt.Sprintf(" %s:%s", r.ID, r.Content)
		}
		out = append(out, strings.TrimSpace(line))
	}
	return out
}

func TestTranscriptIsRepaired(t *testing.T) {
	u, a, r := provider.User, provider.Assistant, provider.Results
	for _, tc := range []struct {
		name string
		in   []provider.Message
		want []string
	}{
		{"whole", []provider.Message{u("do"), a("ok", call("x", "t", `{"b": 1}`)), r(result("x", "done")), a("bye")},
			[]string{"user do", `assistant ok t00010000=t{"b":1}`, "tool t00010000:done", "assistant bye"}},
		{"a missing result is told", []provider.Message{u("do"), a("", call("x", "t", `{}`), call("y", "t", `{}`)), r(result("y", "2"))},
			[]string{"user do", "assistant t00010000=t{} t00010001=t{}", "tool t00010000:" + missingResult + " t00010001:2"}},
		{"no results at all", []provider.Message{u("do"), a("", call("x", "t", `{}`)), u("go on")},
			[]string{"user do", "assistant t00010000=t{}", "tool t00010000:" + missingResult, "user go on"}},
		{"calls in the last message", []provider.Message{u("do"), a("", call("x", "t", `{}`))},
			[]string{"user do", "assistant t00010000=t{}", "tool t00010000:" + missingResult}},
		{"results in another order", []provider.Message{u("do"), a("", call("x", "t", `{}`), call("y", "t", `{}`)), r(result("y", "2"), result("x", "1"))},
			[]string{"user do", "assistant t00010000=t{} t00010001=t{}", "tool t00010000:1 t00010001:2"}},
		{"two results of one call", []provider.Message{u("do"), a("", call("x", "t", `{}`)), r(result("x", "1"), result("x", "2"))},
			[]string{"user do", "assistant t00010000=t{}", "tool t00010000:1\n2"}},
		{"results in two messages", []provider.Message{u("do"), a("", call("x", "t", `{}`), call("y", "t", `{}`)), r(result("x", "1")), r(result("y", "2"))},
			[]string{"user do", "assistant t00010000=t{} t00010001=t{}", "tool t00010000:1 t00010001:2"}},
		{"one id for two calls", []provider.Message{u("do"), a("", call("x", "t", `{}`), call("x", "t", `{}`)), r(result("x", "1"), result("x", "2"))},
			[]string{"user do", "assistant t00010000=t{} t00010001=t{}", "tool t00010000:1 t00010001:2"}},
		{"one id in each step", []provider.Message{u("do"), a("", call("c1", "t", `{}`)), r(result("c1", "1")), a("", call("c1", "t", `{}`)), r(result("c1", "2"))},
			[]string{"user do", "assistant t00010000=t{}", "tool t00010000:1", "assistant t00030000=t{}", "tool t00030000:2"}},
		{"a foreign result", []provider.Message{u("do"), a("", call("x", "t", `{}`)), r(result("x", "1"), result("z", "?"))},
			[]string{"user do", "assistant t00010000=t{}", "tool t00010000:1"}},
		{"results of nothing", []provider.Message{u("do"), r(result("x", "1")), a("ok")}, []string{"user do", "assistant ok"}},
		{"results behind a message between", []provider.Message{u("do"), a("", call("x", "t", `{}`)), u("hm"), r(result("x", "1"))},
			[]string{"user do", "assistant t00010000=t{}", "tool t00010000:" + missingResult, "user hm"}},
		{"an assistant first", []provider.Message{a("hello"), u("do")}, []string{"user " + openingUser, "assistant hello", "user do"}},
		{"an assistant that said nothing", []provider.Message{u("do"), a(""), u("again")}, []string{"user do", "user again"}},
		{"a user that said nothing", []provider.Message{u("do"), a("ok"), u(" \n")}, []string{"user do", "assistant ok"}},
		{"nothing but blank", []provider.Message{u(" ")}, []string{"user"}},
		{"names and arguments that no vendor takes", []provider.Message{u("do"), a("", call("x", "functions.read file☃", `[1]`), call("y", "", `{"a":`), call("z", strings.Repeat("n", 200), ``))},
			[]string{"user do", "assistant t00010000=functions_read_file_{} t00010001=_{} t00010002=" + strings.Repeat("n", 64) + "{}",
				"tool t00010000:" + missingResult + " t00010001:" + missingResult + " t00010002:" + missingResult}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			turns, err := Transcript(tc.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, show(turns)); d != "" {
				t.Errorf("turns (-want +got):\n%s", d)
			}
			if err := check(turns); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTooLongAConversationFailsLoudly(t *testing.T) {
	if _, err := Transcript(make([]provider.Message, maxPositions+1), nil); err == nil {
		t.Error("ids would collide and nothing was said")
	}
}

func TestWorkingTurnsAreThoseSinceTheUserSpoke(t *testing.T) {
	turns, err := Transcript([]provider.Message{
		provider.User("first"), provider.Assistant("", call("x", "t", `{}`)), provider.Results(result("x", "1")), provider.Assistant("done"),
		provider.User("second"), provider.Assistant("", call("y", "t", `{}`)), provider.Results(result("y", "2")),
		provider.User("steered"), provider.Assistant("", call("z", "t", `{}`)), provider.Results(result("z", "3")),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, turn := range turns {
		if want := i >= 4; turn.Working != want {
			t.Errorf("turn %d (%s %s) working = %v, want %v", i, turn.Role, turn.Text, turn.Working, want)
		}
	}
}

var (
	legalID   = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
	legalName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
)

// check holds what both vendors demand of a conversation.
func check(turns []Turn) error {
	seen := map[string]bool{}
	if len(turns) > 0 && turns[0].Role != provider.RoleUser {
		return fmt.Errorf("it begins with %s", turns[0].Role)
	}
	for i, t := range turns {
		switch t.Role {
		case provider.RoleAssistant:
			if t.Text == "" && len(t.Calls) == 0 {
				return fmt.Errorf("turn %d says nothing", i)
			}
			for _, c := range t.Calls {
				var object map[string]json.RawMessage
				if seen[c.ID] || !legalID.MatchString(c.ID) || !legalName.MatchString(c.Name) || json.Unmarshal(c.Args, &object) != nil || object == nil {
					return fmt.Errorf("turn %d: call %+v", i, c)
				}
				seen[c.ID] = true
			}
			if len(t.Calls) > 0 && (i+1 == len(turns) || turns[i+1].Role != provider.RoleTool) {
				return fmt.Errorf("turn %d: calls without results behind them", i)
			}
		case provider.RoleTool:
			if i == 0 || len(turns[i-1].Calls) != len(t.Results) {
				return fmt.Errorf("turn %d: %d results", i, len(t.Results))
			}
			for j, r := range t.Results {
				if r.ID != turns[i-1].Calls[j].ID {
					return fmt.Errorf("turn %d: result %d answers %s", i, j, r.ID)
				}
			}
		}
	}
	return nil
}

func TestEveryConversationBecomesAcceptable(t *testing.T) {
	id := rapid.SampledFrom([]string{"", "a", "b", "c1"})
	text := rapid.SampledFrom([]string{"", " ", "x", "☃"})
	args := rapid.SampledFrom([]string{"", "{}", `{"a":1}`, "null", `{"a"`, "[1]"})
	calls := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) provider.ToolCall {
		return provider.ToolCall{ID: id.Draw(t, "id"), Name: text.Draw(t, "name"), Arguments: []byte(args.Draw(t, "args"))}
	}), 0, 3)
	results := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) provider.ToolResult {
		return provider.ToolResult{CallID: id.Draw(t, "id"), Content: text.Draw(t, "content")}
	}), 0, 4)
	message := rapid.Custom(func(t *rapid.T) provider.Message {
		switch rapid.IntRange(0, 2).Draw(t, "role") {
		case 0:
			return provider.User(text.Draw(t, "text"))
		case 1:
			return provider.Assistant(text.Draw(t, "text"), calls.Draw(t, "calls")...)
		}
		return provider.Results(results.Draw(t, "results")...)
	})
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(message, 0, 8).Draw(t, "messages")
		turns, err := Transcript(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(turns); err != nil {
			t.Fatalf("%v in\n%s", err, strings.Join(show(turns), "\n"))
		}
	})
}

func TestToolSchemaBecomesAcceptable(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"whole", `{"type":"object","properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		{"nothing", ``, `{"type":"object","properties":{}}`},
		{"null", `null`, `{"type":"object","properties":{}}`},
		{"empty", `{}`, `{"type":"object","properties":{}}`},
		{"no properties", `{"type":"object","additionalProperties":false}`, `{"properties":{},"type":"object","additionalProperties":false}`},
		{"a parameter called properties", `{"type":"object","properties":{"properties":{"type":"string"}}}`, `{"type":"object","properties":{"properties":{"type":"string"}}}`},
		{"a reference", `{"$ref":"#/$defs/X","$defs":{"X":{"type":"object"}}}`, `{"$ref":"#/$defs/X","$defs":{"X":{"type":"object"}}}`},
		{"a choice", `{"anyOf":[{"type":"object"}]}`, `{"anyOf":[{"type":"object"}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := string(ToolSchema([]byte(tc.in))); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestStrictSchemas(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		want     bool
	}{
		{"closed and all required", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["string","null"]}},"required":["a","b"],"additionalProperties":false}`, true},
		{"one not required", `{"type":"object","properties":{"a":{},"b":{}},"required":["a"],"additionalProperties":false}`, false},
		{"open", `{"type":"object","properties":{"a":{}},"required":["a"]}`, false},
		{"an open object inside", `{"type":"object","properties":{"a":{"type":"object","properties":{}}},"required":["a"],"additionalProperties":false}`, false},
		{"an open object in a list", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"object"}}},"required":["a"],"additionalProperties":false}`, false},
		{"a property called oneOf", `{"type":"object","properties":{"oneOf":{"type":"string"}},"required":["oneOf"],"additionalProperties":false}`, true},
		{"a keyword outside of the profile", `{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"],"additionalProperties":false}`, false},
		{"a list at the root", `{"type":"array","items":{}}`, false},
		{"no schema", `x`, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Strict([]byte(tc.in)); got != tc.want {
				t.Errorf("strict = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestStatusKinds(t *testing.T) {
	overflow := "This model's maximum context length is 8192 tokens"
	for _, tc := range []struct {
		status  int
		message string
		want    provider.Kind
	}{
		{429, "", provider.RateLimited}, {401, "", provider.Auth}, {403, "", provider.Auth}, {400, "unknown parameter", provider.InvalidRequest},
		{404, "", provider.InvalidRequest}, {409, "", provider.InvalidRequest}, {422, "", provider.InvalidRequest}, {302, "", provider.InvalidRequest}, {307, "", provider.InvalidRequest},
		{500, "", provider.Server}, {502, "", provider.Server}, {503, "", provider.Server}, {504, "", provider.Server}, {529, "", provider.Server},
		{408, "", provider.Timeout}, {402, "", provider.Quota}, {429, `{"error":{"code":"insufficient_quota"}}`, provider.Quota},
		{400, "Your credit balance is too low to access the API", provider.Quota}, {429, "You exceeded your current quota, please retry in 13s", provider.RateLimited},
		{400, overflow, provider.ContextOverflow}, {413, overflow, provider.ContextOverflow},
		{429, overflow, provider.RateLimited}, {500, overflow, provider.Server}, {404, overflow, provider.InvalidRequest},
		{400, `{"error":{"message":"...","code":"context_length_exceeded"}}`, provider.ContextOverflow},
		{400, "Please REDUCE the length of the messages", provider.ContextOverflow},
		{400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`, provider.ContextOverflow},
		{400, "input length and max_tokens exceed context limit: 1 + 2 > 3", provider.ContextOverflow},
		{400, `{"error":{"code":400,"message":"request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}`, provider.ContextOverflow},
		{400, `{"error":{"code":400,"message":"too large","type":"exceed_context_size_error"}}`, provider.ContextOverflow},
		{400, "Your input exceeds the context window of this model", provider.ContextOverflow}, {413, "too many tokens", provider.ContextOverflow},
		{400, `[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]`, provider.ContextOverflow},
	} {
		if got := StatusKind(tc.status, tc.message); got != tc.want {
			t.Errorf("%d %q = %s, want %s", tc.status, tc.message, got, tc.want)
		}
	}
}
