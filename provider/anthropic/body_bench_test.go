package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
)

// BenchmarkBody builds the body of a long run's request (200 messages with signed
// thinking), and beside it in the same run writes the same request as plain JSON,
// which is the least that a body costs.
func BenchmarkBody(b *testing.B) {
	c, err := New(Config{Key: provider.NewSecret("key"), Model: "claude-sonnet-4"})
	if err != nil {
		b.Fatal(err)
	}
	req := &provider.Request{System: []string{strings.Repeat("Rules of the house. ", 300)}, Effort: provider.EffortHigh, Messages: []provider.Message{provider.User("the task")}}
	for i := range 100 {
		id := fmt.Sprint(i)
		said := provider.Assistant("next", provider.ToolCall{ID: id, Name: "tool_1", Arguments: []byte(fmt.Sprintf(`{"path":"src/file_%d.go"}`, i))})
		said.Carry = []byte(`{"wire":"anthropic","provider":"anthropic","model":"claude-sonnet-4","blocks":[{"type":"thinking","thinking":"` + strings.Repeat("hm ", 100) + `","signature":"` + strings.Repeat("s", 300) + `"}]}`)
		req.Messages = append(req.Messages, said, provider.Results(provider.ToolResult{CallID: id, Content: strings.Repeat("a line of <code> & more\n", 60)}))
	}
	p := c.plan(req, "claude-sonnet-4")
	body, err := c.body(req, p)
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
		if _, err := c.body(req, p); err != nil {
			b.Fatal(err)
		}
		built += time.Since(began)
	}
	b.ReportMetric(built.Seconds()/plain.Seconds(), "x-plain-json")
	b.ReportMetric(float64(built.Microseconds())/float64(b.N), "body-µs")
}
