package scripted_test

import (
	"context"
	"fmt"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
)

// A script answers one request after the other, and keeps what it was asked.
func ExampleNew() {
	m := scripted.New(
		scripted.Call("lookup_order", map[string]any{"id": 7}),
		scripted.Say("order 7 has shipped"),
	)
	ctx := context.Background()
	req := &provider.Request{Messages: []provider.Message{provider.User("where is my order?")}}

	first, _ := m.Complete(ctx, req, provider.Sink{})
	fmt.Println(first.Calls[0].Name, string(first.Calls[0].Arguments))

	req.Messages = append(req.Messages, first.Message(),
		provider.Results(provider.ToolResult{CallID: first.Calls[0].ID, Content: "shipped"}))
	second, _ := m.Complete(ctx, req, provider.Sink{})
	fmt.Println(second.Text)
	fmt.Println(len(m.Requests()), "requests,", m.Remaining(), "turns left")
	// Output:
	// lookup_order {"id":7}
	// order 7 has shipped
	// 2 requests, 0 turns left
}

// A function sees every request and can react to the results in it.
func ExampleFunc() {
	m := scripted.Func(func(_ context.Context, req *provider.Request) (*provider.Response, error) {
		if got, ok := scripted.LastResult(req, "weather"); ok {
			return &provider.Response{Text: "it is " + got}, nil
		}
		return &provider.Response{Calls: []provider.ToolCall{scripted.Tool("weather", nil)}}, nil
	})
	ctx := context.Background()
	req := &provider.Request{Messages: []provider.Message{provider.User("umbrella?")}}
	resp, _ := m.Complete(ctx, req, provider.Sink{})
	req.Messages = append(req.Messages, resp.Message(),
		provider.Results(provider.ToolResult{CallID: resp.Calls[0].ID, Content: "raining"}))
	resp, _ = m.Complete(ctx, req, provider.Sink{})
	fmt.Println(resp.Text)
	// Output: it is raining
}

// A turn can fail in each of the ways that a vendor can.
func ExampleFailKind() {
	m := scripted.New(scripted.FailKind(provider.Server, "down"), scripted.Say("back again"))
	_, err := m.Complete(context.Background(), &provider.Request{User: "hello"}, provider.Sink{})
	fmt.Println(err)
	wait, again := provider.RetryPolicy{}.Wait(1, err)
	fmt.Println(wait, again)
	// Output:
	// scripted: Server: down
	// 500ms true
}
