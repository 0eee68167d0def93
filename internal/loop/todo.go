package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func (d *drive) todoTool() tool.Tool {
	return &runTool{
		spec: tool.Spec{
			Name: "todo_write",
			Description: fmt.Sprintf("Write down what you mean to do, so that the operator can follow. The whole list is replaced each time; an empty one clears it. "+
				"At most %d items of %d characters. It does nothing else, and permits nothing.", store.TodoMaxItems, store.TodoTextCap),
			Schema: json.RawMessage(`{"type":"object","properties":{"items":{"type":"array","items":{"type":"object","properties":{` +
				`"text":{"type":"string"},"state":{"type":"string","enum":["pending","active","done"]}},"required":["text","state"]}}},"required":["items"]}`),
			Strict: true,
		},
		perform: d.writeTodos,
	}
}

// writeTodos replaces the run's list, and tells of it as it was stored.
func (d *drive) writeTodos(ctx context.Context, st *step, c *call) error {
	var in struct {
		Items []store.TodoItem `json:"items"`
	}
	if err := json.Unmarshal(c.args, &in); err != nil {
		d.failArguments(st, c, err.Error())
		return nil
	}
	for i, it := range in.Items {
		if strings.TrimSpace(it.Text) == "" {
			d.failArguments(st, c, fmt.Sprintf("items[%d].text is blank: say what is to be done, or leave the item out", i))
			return nil
		}
	}
	dropped, err := d.store.WriteTodos(ctx, d.lease, in.Items)
	if err != nil {
		return err
	}
	stored, err := d.store.Todos(ctx, d.runID())
	if err != nil {
		return err
	}
	d.rec.context(st.n, "todo_write", fmt.Sprintf("%d items", len(stored)))
	f := trace.TodoWrote{Items: make([]trace.ListedTodo, len(stored))}
	for i, it := range stored {
		f.Items[i] = trace.ListedTodo{Text: it.Text, State: string(it.State)}
	}
	d.emit(st.n, f)
	c.end(fmt.Sprintf("wrote %d things to do", len(stored)), trace.Observation{
		Step: st.n, Kind: trace.ObsTool, Target: c.name, Origin: trace.OriginProse, Text: todoText(stored, dropped),
	})
	return nil
}

// todoText is the stored list as the model reads it.
func todoText(items []store.TodoItem, dropped int) string {
	var b strings.Builder
	b.WriteString("\n[todo_write] ")
	if len(items) == 0 {
		b.WriteString("The list is empty now.\n")
		return b.String()
	}
	b.WriteString("The list is now:\n")
	for _, it := range items {
		fmt.Fprintf(&b, "- %s: %s\n", it.State, strings.Join(strings.Fields(it.Text), " "))
	}
	if dropped > 0 {
		fmt.Fprintf(&b, "%d more did not fit and were dropped: a list has at most %d items.\n", dropped, store.TodoMaxItems)
	}
	return b.String()
}
