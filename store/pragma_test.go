package store

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"
)

// What the options say holds on the connections, the writer's and the readers'.
func TestTheOptionsHoldOnEveryConnection(t *testing.T) {
	ctx := context.Background()
	for _, tc := range []struct {
		name    string
		opts    []Option
		writer  map[string]string
		readers map[string]string
	}{
		{"as it is", nil, map[string]string{
			"busy_timeout": strconv.FormatInt(BusyTimeout.Milliseconds(), 10), "foreign_keys": "1", "trusted_schema": "0", "synchronous": "2",
			"secure_delete": "1", "fullfsync": "0", "checkpoint_fullfsync": "0", "journal_mode": "wal",
			"journal_size_limit": strconv.Itoa(walSizeLimit), "query_only": "0",
		}, map[string]string{"busy_timeout": strconv.FormatInt(BusyTimeout.Milliseconds(), 10), "foreign_keys": "1", "trusted_schema": "0", "query_only": "1"}},
		{"every flush to the medium", []Option{WithFullFSync()}, map[string]string{"fullfsync": "1", "checkpoint_fullfsync": "1"}, nil},
		{"fewer flushes", []Option{WithSynchronous(SyncNormal)}, map[string]string{"synchronous": "1"}, nil},
		{"words left in free pages", []Option{WithSecureDelete(false)}, map[string]string{"secure_delete": "0"}, nil},
		{"another patience", []Option{WithBusyTimeout(1234 * time.Millisecond)}, map[string]string{"busy_timeout": "1234"}, map[string]string{"busy_timeout": "1234"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFile(t, tc.opts...)
			if err := s.w.take(ctx); err != nil {
				t.Fatal(err)
			}
			defer s.w.give()
			conn, err := s.w.connect(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for pragma, want := range tc.writer {
				var got any
				if err := conn.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&got); err != nil || fmt.Sprint(got) != want {
					t.Errorf("the writer has %s = %v, %v; want %s", pragma, got, err, want)
				}
			}
			for pragma, want := range tc.readers {
				var got any
				if err := s.r.db.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(&got); err != nil || fmt.Sprint(got) != want {
					t.Errorf("a reader has %s = %v, %v; want %s", pragma, got, err, want)
				}
			}
		})
	}
}
