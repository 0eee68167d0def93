package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

func todo(text, state string) map[string]any { return map[string]any{"text": text, "state": state} }

func todos(items ...any) scripted.Turn {
	return scripted.Call("todo_write", map[string]any{"items": append([]any{}, items...)})
}

func (f *fixture) todos(id trace.RunID) []store.TodoItem {
	f.t.Helper()
	items, err := f.store.Todos(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return items
}

func TestAListIsReplacedWholeAndTold(t *testing.T) {
	f := newFixture(t)
	m := f.script(todos(todo("read", "done"), todo("write", "active")), todos(todo("test", "pending")), scripted.Say("done"))
	res := f.must(trace.Finished)
	if diff := cmp.Diff([]store.TodoItem{{Text: "test", State: store.TodoPending}}, f.todos(res.RunID)); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
	told, _ := scripted.LastResult(m.Requests()[1], "todo_write")
	contains(t, "what the model is told", told, "- done: read", "- active: write")
	want := []trace.TodoWrote{
		{Items: []trace.ListedTodo{{Text: "read", State: "done"}, {Text: "write", State: "active"}}},
		{Items: []trace.ListedTodo{{Text: "test", State: "pending"}}},
	}
	if diff := cmp.Diff(want, facts[trace.TodoWrote](f.seen)); diff != "" {
		t.Errorf("todo_wrote (-want +got):\n%s", diff)
	}
	if n := strings.Count(f.canonical(res.RunID), "todo_write"); n < 2 {
		t.Errorf("%d mentions in the trace", n)
	}
	if len(f.refusals(res.RunID))+len(f.decisions(res.RunID)) != 0 {
		t.Error("a list asks the policy")
	}
}

func TestWhatDoesNotFitIsDroppedAndSaidSo(t *testing.T) {
	f := newFixture(t)
	var items []any
	for i := range 70 {
		items = append(items, todo(fmt.Sprintf("item %d %s", i, strings.Repeat("ä", 300)), "pending"))
	}
	m := f.script(todos(items...), scripted.Say("done"))
	res := f.must(trace.Finished)
	stored := f.todos(res.RunID)
	if len(stored) != 64 {
		t.Fatalf("%d items are stored", len(stored))
	}
	if n := len([]rune(stored[0].Text)); n != 200 {
		t.Errorf("%d characters are stored", n)
	}
	told, _ := scripted.LastResult(m.Requests()[1], "todo_write")
	contains(t, "what the model is told", told, "6 more did not fit")
	ev := facts[trace.TodoWrote](f.seen)[0]
	if len(ev.Items) != 64 || ev.Items[0].Text != stored[0].Text {
		t.Errorf("the event carries %d items, the first %q", len(ev.Items), ev.Items[0].Text)
	}
	if strings.Contains(told, strings.Repeat("ä", 200)) {
		t.Error("the model is told the list before it was cut")
	}
}

func TestAListThatCannotBeReadLeavesTheOldOne(t *testing.T) {
	for _, tc := range []struct {
		name string
		args any
		want string
	}{
		{"no items", map[string]any{}, "items"},
		{"items that are no list", map[string]any{"items": "x"}, "items"},
		{"an unknown state", map[string]any{"items": []any{todo("a", "done"), todo("b", "doing")}}, "items[1].state"},
		{"no state", map[string]any{"items": []any{map[string]any{"text": "a"}}}, "state"},
		{"a blank text", map[string]any{"items": []any{todo(" ", "done")}}, "items[0].text"},
		{"a number as a text", map[string]any{"items": []any{map[string]any{"text": 3, "state": "done"}}}, "text"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			m := f.script(todos(todo("kept", "active")), scripted.Call("todo_write", tc.args), scripted.Say("done"))
			res := f.must(trace.Finished)
			told, _ := scripted.LastResult(m.Requests()[2], "todo_write")
			contains(t, "what the model is told", told, tc.want, "Nothing was done")
			if diff := cmp.Diff([]store.TodoItem{{Text: "kept", State: store.TodoActive}}, f.todos(res.RunID)); diff != "" {
				t.Errorf("the list (-want +got):\n%s", diff)
			}
			if n := len(facts[trace.TodoWrote](f.seen)); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
}

func TestAnEmptyListClears(t *testing.T) {
	f := newFixture(t)
	m := f.script(todos(todo("a", "done")), todos(), scripted.Say("done"))
	res := f.must(trace.Finished)
	if got := f.todos(res.RunID); len(got) != 0 {
		t.Errorf("the list is %+v", got)
	}
	told, _ := scripted.LastResult(m.Requests()[2], "todo_write")
	contains(t, "what the model is told", told, "empty")
}

func TestWritingTheSameListIsNoProgress(t *testing.T) {
	same := todos(todo("a", "active"))
	f := newFixture(t, same, same, same, same, same, same, same)
	f.must(trace.Stalled)
}

func TestAToolOfTheRunCannotBeCalledFromElsewhere(t *testing.T) {
	d := &drive{}
	for _, tl := range append(d.runTools(), d.planTool()) {
		if _, err := tl.Call(context.Background(), tool.Call{}); err == nil {
			t.Errorf("%s acts without its run", tl.Spec().Name)
		}
	}
}
