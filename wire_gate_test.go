package harness_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/openrouter"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// allWires are the wires and the gateway, whose protocol is that of one of them.
func allWires(t *testing.T) []wire {
	gateway := wireNamed(t, "openai")
	gateway.name = "openrouter"
	gateway.client = func(t testing.TB, v *testkit.Vendor) provider.Provider {
		return clientOf(t)(openrouter.New(openrouter.Config{BaseURL: v.URL, Key: provider.NewSecret(wireKey), Model: wireModel, Transport: v.Transport()}))
	}
	return append(wires(), gateway)
}

// nativePairs are the native calls and results of a request.
func nativePairs(body string) (calls, results []string) {
	for _, m := range gjson.Get(body, "messages").Array() {
		for _, c := range m.Get("tool_calls").Array() {
			calls = append(calls, c.Get("id").String())
		}
		if m.Get("role").String() == "tool" {
			results = append(results, m.Get("tool_call_id").String())
		}
		for _, part := range m.Get("content").Array() {
			switch part.Get("type").String() {
			case "tool_use":
				calls = append(calls, part.Get("id").String())
			case "tool_result":
				results = append(results, part.Get("tool_use_id").String())
			}
		}
	}
	for _, item := range gjson.Get(body, "input").Array() {
		switch item.Get("type").String() {
		case "function_call":
			calls = append(calls, item.Get("call_id").String())
		case "function_call_output":
			results = append(results, item.Get("call_id").String())
		}
	}
	return calls, results
}

// wireNamed is the wire of that name.
func wireNamed(t *testing.T, name string) wire {
	t.Helper()
	for _, w := range wires() {
		if w.name == name {
			return w
		}
	}
	t.Fatalf("there is no wire %q", name)
	return wire{}
}

func TestWhatAGateSaysTakesNoResultsPlaceOnAnyWire(t *testing.T) {
	for _, w := range allWires(t) {
		t.Run(w.name, func(t *testing.T) {
			f := wireTo(t, w,
				w.call(vread("call00001", "a.txt"), vwrite("call00002", "b.txt", "1\n")),
				w.say("I think that is all."),
				w.call(vwrite("call00003", "done.txt", "yes\n")))
			f.write("a.txt", "alpha\n")
			cfg := f.config()
			cfg.Policy = policy.Default().Layer("app").AllowRead("*").AllowWrite("*").AllowExec("sh *")
			f.h = newHarness(t, cfg)
			res, err := f.run(func(c *task.Contract) {
				c.Verify = verify.Command("sh", "-c", "test -f done.txt || { echo 'done.txt is missing'; exit 1; }")
			})
			f.expect(res, err, trace.Success, 3)
			asked := f.vendor.Asked()
			if len(asked) != 3 {
				t.Fatalf("%d requests", len(asked))
			}
			for _, later := range asked[1:] {
				calls, results := nativePairs(later.Body)
				if strings.Join(calls, " ") != strings.Join(results, " ") || len(calls) != 2 {
					t.Errorf("calls %q are answered by %q, want two of each", calls, results)
				}
				if n := strings.Count(later.Body, "[check failed]"); n != 1 {
					t.Errorf("the verdict is told %d times, want once", n)
				}
			}
		})
	}
}

func TestASchemaThatTheVendorRefusesIsAskedForInWords(t *testing.T) {
	type found struct {
		Colour string `json:"colour"`
	}
	for _, w := range allWires(t) {
		if w.name != "openai" && w.name != "openrouter" { // the others were sent none
			continue
		}
		t.Run(w.name, func(t *testing.T) {
			f := wireTo(t, w,
				testkit.Status(400, `{"error":{"message":"Invalid parameter: 'response_format' of type 'json_schema' is not supported"}}`),
				w.call(vread("call00001", "a.txt")),
				w.say("green"),
				w.say(`{"colour": "green"}`))
			f.write("a.txt", "green\n")
			schema, err := verify.SchemaOf[found]()
			if err != nil {
				t.Fatal(err)
			}
			res, err := f.run(func(c *task.Contract) { c.Output = schema })
			f.expect(res, err, trace.Finished, 3)
			if v, err := verify.Decode[found](res.Output); err != nil || v.Colour != "green" {
				t.Errorf("%s, %v", res.Output, err)
			}
			for n, a := range f.vendor.Asked() {
				if native := gjson.Get(a.Body, "response_format").Exists(); native != (n == 0) {
					t.Errorf("request %d states the schema natively: %v", n, native)
				}
				if !strings.Contains(a.Body, "colour") {
					t.Errorf("request %d does not state the schema in words", n)
				}
			}
			events, err := store.Collect(f.store.ContextEvents(t.Context(), res.RunID))
			if err != nil {
				t.Fatal(err)
			}
			dropped := 0
			for _, e := range events {
				if e.Kind == "fell_back" {
					dropped++
				}
			}
			if dropped != 1 || len(facts[trace.OutputRejected](f)) != 1 || len(facts[trace.OutputAccepted](f)) != 1 {
				t.Errorf("%d rows of the refusal, rejected %+v, accepted %+v", dropped, facts[trace.OutputRejected](f), facts[trace.OutputAccepted](f))
			}
		})
	}
}

// What each vendor is sent of a keyword is a decision, and no keyword is without one.
func TestEveryKeywordOfASchemaHasItsPlaceOnEachWire(t *testing.T) {
	type decision struct {
		sub    string // a subschema that states it
		strict bool   // the strict mode of the chat protocol takes it
		kept   bool   // the Messages protocol takes it; else it becomes words, or is a note
		note   bool
	}
	decided := map[string]decision{
		"type":                 {`{"type":"string"}`, true, true, false},
		"properties":           {`{"type":"object","properties":{"b":{"type":"null"}},"required":["b"],"additionalProperties":false}`, true, true, false},
		"required":             {`{"type":"object","properties":{"b":{"type":"null"}},"required":["b"],"additionalProperties":false}`, true, true, false},
		"additionalProperties": {`{"type":"object","properties":{},"required":[],"additionalProperties":false}`, true, true, false},
		"items":                {`{"type":"array","items":{"type":"null"}}`, true, true, false},
		"minItems":             {`{"type":"array","items":{"type":"null"},"minItems":1}`, true, true, false},
		"maxItems":             {`{"type":"array","items":{"type":"null"},"maxItems":4}`, true, false, false},
		"enum":                 {`{"type":"string","enum":["x"]}`, true, true, false},
		"minimum":              {`{"type":"number","minimum":4}`, true, false, false},
		"maximum":              {`{"type":"number","maximum":4}`, true, false, false},
		"minLength":            {`{"type":"string","minLength":4}`, false, false, false},
		"maxLength":            {`{"type":"string","maxLength":4}`, false, false, false},
		"$schema":              {`{"type":"string","$schema":"s"}`, true, true, true},
		"title":                {`{"type":"string","title":"t"}`, true, true, true},
		"description":          {`{"type":"string","description":"d"}`, true, true, false},
	}
	_, err := verify.ParseSchema([]byte(`{"oneOf":[]}`))
	if err == nil {
		t.Fatal("a keyword outside of the subset was taken")
	}
	_, list, ok := strings.Cut(err.Error(), "the keywords are ")
	if !ok {
		t.Fatalf("the refusal does not list the keywords: %v", err)
	}
	for keyword := range strings.SplitSeq(list, ", ") {
		t.Run(keyword, func(t *testing.T) {
			d, ok := decided[keyword]
			if !ok {
				t.Fatal("nobody has decided what each vendor is sent of it")
			}
			schema, err := verify.ParseSchema([]byte(`{"type":"object","properties":{"a":` + d.sub + `},"required":["a"],"additionalProperties":false}`))
			if err != nil {
				t.Fatal(err)
			}
			sent := func(w wire, model string) gjson.Result {
				v := testkit.NewVendor(t, w.say("{}"))
				if _, err := w.client(t, v).Complete(t.Context(), &provider.Request{User: "u", Model: model, Output: schema.Request()}, provider.Sink{}); err != nil {
					t.Fatalf("%s: %v", w.name, err)
				}
				return gjson.Parse(v.Asked()[0].Body)
			}
			openai, anthropic := wireNamed(t, "openai"), wireNamed(t, "anthropic")
			if got := sent(openai, "").Get("response_format.json_schema.strict"); !got.Exists() || got.Bool() != d.strict {
				t.Errorf("openai: strict is %s, want %v", got.Raw, d.strict)
			}
			name := strings.ReplaceAll(keyword, "$", `\$`)
			a := sent(anthropic, "claude-opus-4-7").Get("output_config.format.schema.properties.a")
			words := a.Get("description").String()
			switch {
			case !a.Exists():
				t.Error("anthropic: the schema is not sent")
			case a.Get(name).Exists() != d.kept && !d.note:
				t.Errorf("anthropic: sent as %s, want it kept: %v", a.Raw, d.kept)
			case !d.kept && !strings.Contains(words, keyword+" 4"):
				t.Errorf("anthropic: the words %q do not state it", words)
			}
		})
	}
}
