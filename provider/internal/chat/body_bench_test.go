package chat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
)

// benchRequest is a run in its hundredth step: 200 messages, twenty tools.
func benchRequest() *provider.Request {
	req := &provider.Request{System: []string{strings.Repeat("Rules of the house. ", 300)}, Messages: []provider.Message{provider.User("the task")}}
	for i := range 20 {
		req.Tools = append(req.Tools, provider.ToolSpec{
			Name: fmt.Sprintf("tool_%d", i), Description: strings.Repeat("What it does. ", 10),
			Schema: []byte(`{"type":"object","properties":{"path":{"type":"string","description":"a file"},"limit":{"type":"integer"}},"required":["path"]}`),
		})
	}
	for i := range 100 {
		id := fmt.Sprint(i)
		req.Messages = append(req.Messages,
			provider.Assistant("next", provider.ToolCall{ID: id, Name: "tool_1", Arguments: []byte(fmt.Sprintf(`{"path":"src/file_%d.go","limit":%d}`, i, i))}),
			provider.Results(provider.ToolResult{CallID: id, Content: strings.Repeat("a line of <code> & more\n", 60)}))
	}
	return req
}

// BenchmarkBody builds the body of a long run's request, and beside it in the same
// run writes the same request as plain JSON, which is the least that a body costs.
func BenchmarkBody(b *testing.B) {
	req, d := benchRequest(), Dialect{Model: "m", OpenRouter: true}
	body, err := d.Body(req)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var plain, built time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := json.Marshal(req); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(began)
		began = time.Now()
		if _, err := d.Body(req); err != nil {
			b.Fatal(err)
		}
		built += time.Since(began)
	}
	b.ReportMetric(built.Seconds()/plain.Seconds(), "x-plain-json")
	b.ReportMetric(float64(built.Microseconds())/float64(b.N), "body-µs")
}
