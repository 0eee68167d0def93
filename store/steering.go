package store

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/initorigin/io-harness-go/trace"
)

// MessageOperator is what an operator says to a run that works. It lies in the
// run's own mailbox, so that it outlives the process that was told, and is no
// mail: ReadMessages passes it by.
const MessageOperator MessageKind = "operator"

// handedBack stands in the place of the step that read a message of an operator
// whom it was given back.
const handedBack = -1

// Said is evidence of what an operator said: recorded when it is said, so that
// the death of a process before the next boundary of a step costs nothing.
type Said struct {
	Number int // in the order of saying, from 0, over all drives of the run
	Text   string
}

func (Said) table() string { return "agent_messages" }

func (m Said) insert(t *txn, run trace.RunID) error {
	_, err := t.exec(insertMessage, run, run, string(MessageOperator), string(MessageOperator), 0, m.Number, cleanText(m.Text), m.digest(run), t.now)
	return err
}

// take settles the word, unless it was before, and reports whether it did. One that
// is not there yet is written first. The number alone does not name a word: two
// processes may have counted on from the same one, when the first had lost the run.
func (m Said) take(t *txn, run trace.RunID, step any) (bool, error) {
	if err := m.insert(t, run); err != nil {
		return false, err
	}
	n, err := t.exec(takeSaid, t.now, step, run, m.Number, m.digest(run))
	return n == 1, err
}

func (m Said) digest(run trace.RunID) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s", run, cleanText(m.Text)))
	return sum[:]
}

// Heard is what an operator said, as it enters the ledger.
type Heard struct {
	Said
	Observation trace.Observation
}

var (
	unreadSaid = statement{"unread said", `SELECT call_index, body FROM agent_messages
		WHERE to_run_id = ? AND read_at IS NULL AND kind = 'operator' AND body IS NOT NULL ORDER BY call_index, id`}
	lastSaid = statement{"last said", `SELECT coalesce(max(call_index), -1) FROM agent_messages WHERE to_run_id = ? AND kind = 'operator'`}
	takeSaid = statement{"take said", `UPDATE agent_messages SET read_at = ?1, read_step = ?2
		WHERE to_run_id = ?3 AND kind = 'operator' AND call_index = ?4 AND body_digest = ?5 AND read_at IS NULL`}
)

// Unheard lists what an operator said to a run and nobody has read, the oldest
// first, and the number that the next word gets.
func (s *Store) Unheard(ctx context.Context, run trace.RunID) (said []Said, next int, err error) {
	err = s.read(ctx, "unheard", func(q *query) error {
		if said, err = list(q, unreadSaid, []any{run}, scanSaid); err != nil {
			return err
		}
		return q.row(lastSaid, []any{run}, &next)
	})
	return said, next + 1, err
}

func scanSaid(r scanner) (m Said, err error) {
	err = r.Scan(&m.Number, &m.Text)
	return m, err
}

// Hear puts what an operator said into the ledger and marks it as read, in one
// transaction, and returns those words that were there to be heard: each is
// either heard once or handed back once.
func (s *Store) Hear(ctx context.Context, d *Drive, words ...Heard) (heard []Heard, err error) {
	err = d.writeAhead(ctx, "hear", func(t *txn) error {
		heard = nil
		var obs []trace.Observation
		for _, w := range words {
			taken, err := w.take(t, d.RunID, nil)
			if err != nil {
				return err
			}
			if taken {
				heard, obs = append(heard, w), append(obs, w.Observation)
			}
		}
		_, err := appendObservations(t, d.RunID, obs)
		return err
	})
	return heard, err
}

// HandBack settles words that an operator said to a run and that will be read by
// nobody any more, and returns those of them that nobody had read: each is either
// heard once or handed back once. It takes no lease, and words that are not named
// stay as they are: they may have been said to whoever drives the run by now.
func (s *Store) HandBack(ctx context.Context, run trace.RunID, words ...Said) (back []Said, err error) {
	if len(words) == 0 {
		return nil, nil
	}
	err = s.writeSync(ctx, "hand back", SyncNormal, func(t *txn) error {
		back = nil
		for _, m := range words {
			taken, err := m.take(t, run, handedBack)
			if err != nil {
				return err
			}
			if taken {
				back = append(back, m)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return back, nil
}
