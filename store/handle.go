package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/trace"
)

// HandleState says where a command that outlives its call stands. The value is
// the stored text; a text that this version does not know reads as orphaned, so
// that nobody signals its processes.
type HandleState string

// The states.
const (
	HandleRunning  HandleState = "running"
	HandleExited   HandleState = "exited"
	HandleKilled   HandleState = "killed"
	HandleOrphaned HandleState = "orphaned" // its harness died: its process ids may belong to others by now
)

// orphaned is the reason of every handle that a dead drive left running.
const orphaned = "an earlier process of this run started it, and its process ids may belong to others by now"

// ProcessHandle is a command that outlives the call that started it.
type ProcessHandle struct {
	Handle    int // counts from 1 in each run
	Step      int
	Line      string
	PIDs      []int // the leader first
	State     HandleState
	Code      *int // nil while it runs, and when it was killed
	Reason    string
	StartedAt time.Time
	EndedAt   time.Time // zero while it runs
}

// HandleOutput is a piece of what a handle printed, as it was read.
type HandleOutput struct {
	Handle int
	Step   int
	Chunk  string
}

const handleColumns = `handle, step, coalesce(line, ''), pids, state, code, coalesce(reason, ''), started_at, ended_at`

var (
	takeHandle   = statement{"take handle", `UPDATE runs SET next_handle = next_handle + 1 WHERE id = ? RETURNING next_handle - 1`}
	insertHandle = statement{"insert handle", `INSERT INTO process_handles (run_id, handle, step, line, state, started_at) VALUES (?, ?, ?, ?, 'running', ?)`}
	setPIDs      = statement{"set pids", `UPDATE process_handles SET pids = ? WHERE run_id = ? AND handle = ? AND state = 'running'`}
	endHandle    = statement{"end handle", `UPDATE process_handles SET state = ?, code = ?, reason = ?, ended_at = ?
		WHERE run_id = ? AND handle = ? AND state = 'running'`}
	readHandles  = statement{"read handles", `SELECT ` + handleColumns + ` FROM process_handles WHERE run_id = ? ORDER BY handle`}
	insertOutput = statement{"insert handle output", `INSERT INTO handle_output (run_id, handle, seq, step, chunk, read_at)
		SELECT ?1, ?2, (SELECT coalesce(max(seq) + 1, 0) FROM handle_output WHERE run_id = ?1 AND handle = ?2), ?3, ?4, ?5`}
	readOutputs = statement{"read handle output", `SELECT coalesce(chunk, '') FROM handle_output WHERE run_id = ? AND handle = ? ORDER BY seq`}
)

// StartHandle records a command before it is started and returns its number,
// which no other command of the run has or will have.
func (s *Store) StartHandle(ctx context.Context, d *Drive, step int, line string) (int, error) {
	var n int64
	err := d.writeAhead(ctx, "start handle", func(t *txn) (err error) {
		if n, err = t.insert(takeHandle, d.RunID); err != nil {
			return err
		}
		_, err = t.exec(insertHandle, d.RunID, n, step, cleanText(line), t.now)
		return err
	})
	return int(n), err
}

// SetHandlePIDs replaces the processes of a running handle, the leader first.
func (s *Store) SetHandlePIDs(ctx context.Context, d *Drive, handle int, pids []int) error {
	words := make([]string, len(pids))
	for i, p := range pids {
		words[i] = strconv.Itoa(p)
	}
	return s.write(ctx, "set pids", func(t *txn) error {
		_, err := t.exec(setPIDs, strings.Join(words, ","), d.RunID, handle)
		return err
	})
}

// EndHandle records the end of a handle and reports whether this was the first
// word about it: the first end stands.
func (s *Store) EndHandle(ctx context.Context, d *Drive, handle int, state HandleState, code *int, reason string) (bool, error) {
	if state != HandleExited && state != HandleKilled {
		return false, invalid("end handle", "the state %q is neither exited nor killed", state)
	}
	var status any
	if code != nil {
		status = *code
	}
	var n int64
	err := s.writeSurely(ctx, "end handle", func(t *txn) (err error) {
		n, err = t.exec(endHandle, string(state), status, null(reason), t.now, d.RunID, handle)
		return err
	})
	return n == 1, err
}

func (HandleOutput) table() string { return "handle_output" }

func (o HandleOutput) insert(t *txn, run trace.RunID) error {
	if o.Chunk == "" {
		return nil // a poll that read nothing leaves no row
	}
	_, err := t.exec(insertOutput, run, o.Handle, o.Step, cleanText(o.Chunk), t.now)
	return err
}

// ProcessHandles lists the handles of one run, by number.
func (s *Store) ProcessHandles(ctx context.Context, run trace.RunID) (hs []ProcessHandle, err error) {
	err = s.read(ctx, "read handles", func(q *query) (err error) {
		hs, err = list(q, readHandles, []any{run}, scanHandle)
		return err
	})
	return hs, err
}

// OutputOf is everything that a handle printed, as far as it was read.
func (s *Store) OutputOf(ctx context.Context, run trace.RunID, handle int) (string, error) {
	var b strings.Builder
	err := s.read(ctx, "read handle output", func(q *query) error {
		return q.each(readOutputs, []any{run, handle}, func(r scanner) error {
			var chunk string
			if err := r.Scan(&chunk); err != nil {
				return err
			}
			b.WriteString(chunk)
			return nil
		})
	})
	return b.String(), err
}

func scanHandle(r scanner) (h ProcessHandle, err error) {
	var pids string
	var started int64
	var ended *int64
	if err := r.Scan(&h.Handle, &h.Step, &h.Line, &pids, &h.State, &h.Code, &h.Reason, &started, &ended); err != nil {
		return h, err
	}
	switch h.State {
	case HandleRunning, HandleExited, HandleKilled, HandleOrphaned:
	default:
		h.State = HandleOrphaned
	}
	for _, w := range strings.FieldsFunc(pids, func(r rune) bool { return r == ',' }) {
		p, err := strconv.Atoi(w)
		if err != nil {
			return h, &Error{Kind: KindCorrupt, Op: "read handles", Err: fmt.Errorf("the processes of handle %d: %w", h.Handle, err)}
		}
		h.PIDs = append(h.PIDs, p)
	}
	h.StartedAt, h.EndedAt = timeOf(started), timeOrZero(ended)
	return h, nil
}
