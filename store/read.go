package store

import (
	"context"
	"iter"

	"github.com/initorigin/io-harness-go/trace"
)

// pageSize is how many rows an iterator holds at once. Nothing stays open
// between pages, so a slow reader pins no snapshot.
const pageSize = 256

type readOptions struct {
	after int64
	limit int
	set   bool
}

// A ReadOption narrows what an iterator yields.
type ReadOption func(*readOptions)

// After yields only rows behind the given key: the step of a step or a turn,
// the place of an observation, the id of anything else.
func After(key int64) ReadOption {
	return func(o *readOptions) { o.after, o.set = key, true }
}

// Limit yields at most n rows; zero or less means all.
func Limit(n int) ReadOption { return func(o *readOptions) { o.limit = max(0, n) } }

// Collect reads an iterator to its end, or to its first error.
func Collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	var out []T
	for v, err := range seq {
		if err != nil {
			return out, err
		}
		out = append(out, v)
	}
	return out, nil
}

// paged yields the rows of a statement that takes args, the last key and a
// limit, page by page. The first key is greater than before.
func paged[T any](ctx context.Context, s *Store, st statement, before int64, opts []ReadOption, args []any,
	scan func(scanner) (T, error), key func(T) int64, more func(*query, []T) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		o := readOptions{after: before}
		for _, opt := range opts {
			opt(&o)
		}
		left := o.limit
		for {
			n := pageSize
			if o.limit > 0 {
				n = min(n, left)
			}
			var rows []T
			err := s.snapshot(ctx, st.name, func(q *query) (err error) {
				rows, err = list(q, st, append(append([]any{}, args...), o.after, n), scan)
				if err == nil && more != nil && len(rows) > 0 {
					err = more(q, rows)
				}
				return err
			})
			if err != nil {
				var zero T
				yield(zero, err)
				return
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
			left -= len(rows)
			if len(rows) < n || o.limit > 0 && left <= 0 {
				return
			}
			o.after = key(rows[len(rows)-1])
		}
	}
}

// evidenceOf is paged for a table whose rows belong to a run and are keyed by id.
func evidenceOf[T any](ctx context.Context, s *Store, st statement, run trace.RunID, opts []ReadOption,
	scan func(scanner) (T, error), key func(T) int64) iter.Seq2[T, error] {
	return paged(ctx, s, st, 0, opts, []any{run}, scan, key, nil)
}
