package store

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

// Limits of a run's list of things to do.
const (
	TodoMaxItems = 64
	TodoTextCap  = 200 // characters of one item
)

// TodoState says where an item stands. The value is the stored text.
type TodoState string

// The states.
const (
	TodoPending TodoState = "pending"
	TodoActive  TodoState = "active"
	TodoDone    TodoState = "done"
)

// ParseTodoState reads a state; any other word is an error.
func ParseTodoState(word string) (TodoState, error) {
	switch st := TodoState(word); st {
	case TodoPending, TodoActive, TodoDone:
		return st, nil
	}
	return "", fmt.Errorf("the state %q is none of pending, active and done", word)
}

// TodoItem is one thing that an agent means to do.
type TodoItem struct {
	Text  string
	State TodoState
}

var (
	clearTodos = statement{"clear todos", `DELETE FROM todos WHERE run_id = ?`}
	insertTodo = statement{"insert todo", `INSERT INTO todos (run_id, position, text, state, written_at) VALUES (?, ?, ?, ?, ?)`}
	readTodos  = statement{"read todos", `SELECT coalesce(text, ''), state FROM todos WHERE run_id = ? ORDER BY position`}
)

// WriteTodos replaces a run's whole list and returns how many items did not fit
// into TodoMaxItems. Longer texts are cut at TodoTextCap characters.
func (s *Store) WriteTodos(ctx context.Context, d *Drive, items []TodoItem) (dropped int, err error) {
	if len(items) > TodoMaxItems {
		dropped, items = len(items)-TodoMaxItems, items[:TodoMaxItems]
	}
	for i, it := range items {
		if _, err := ParseTodoState(string(it.State)); err != nil {
			return 0, invalid("write todos", "item %d: %v", i, err)
		}
	}
	err = d.writeAhead(ctx, "write todos", func(t *txn) error {
		if _, err := t.exec(clearTodos, d.RunID); err != nil {
			return err
		}
		for i, it := range items {
			if _, err := t.exec(insertTodo, d.RunID, i, firstRunes(cleanText(it.Text), TodoTextCap), string(it.State), t.now); err != nil {
				return err
			}
		}
		return nil
	})
	return dropped, err
}

// Todos reads a run's list. An item in a state of newer software is left out.
func (s *Store) Todos(ctx context.Context, run trace.RunID) (items []TodoItem, err error) {
	err = s.read(ctx, "read todos", func(q *query) error {
		return q.each(readTodos, []any{run}, func(r scanner) error {
			var it TodoItem
			if err := r.Scan(&it.Text, &it.State); err != nil {
				return err
			}
			if _, err := ParseTodoState(string(it.State)); err == nil {
				items = append(items, it)
			}
			return nil
		})
	})
	return items, err
}

// firstRunes cuts a text after n characters, never inside of one.
func firstRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
