// Package failpoint lets a test stop a program at a labelled place of a durable
// write. The points travel in a context, so that no program can meet one that
// it did not ask for, and nothing of this is part of the exported surface.
//
// It decides nothing about what a point does: a test may fail it, or kill its
// own process there.
package failpoint

import "context"

// Func is called before each statement of a store, with the statement's name,
// and around each commit, with "commit" and "committed", and then with the same
// words and the operation, as "commit: finish run". An error makes the statement
// fail. It may be called from several goroutines at once.
type Func func(point string) error

type key struct{}

// With returns a context from which store.Open takes fn.
func With(ctx context.Context, fn Func) context.Context { return context.WithValue(ctx, key{}, fn) }

// From returns the function that ctx carries, or nil.
func From(ctx context.Context) Func {
	fn, _ := ctx.Value(key{}).(Func)
	return fn
}
