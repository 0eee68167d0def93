package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/initorigin/io-harness-go/trace"
)

// MessageID orders the mail of a store by delivery.
type MessageID int64

// MaxMessage is the longest body of a message, in characters.
const MaxMessage = 16_000

// MessageKind tells what an agent wrote from the note about its end.
type MessageKind string

// The kinds.
const (
	MessageSaid     MessageKind = "message"
	MessageFinished MessageKind = "finished"
)

// finishedCall is the call index of the note about an agent's end, which no
// call asked for.
const finishedCall = -1

// AgentMessage is one message between two agents of a tree. It permits nothing.
type AgentMessage struct {
	ID        MessageID
	From, To  trace.RunID
	FromName  string
	Kind      MessageKind
	Step      int // of the sender
	CallIndex int // of the call within its completion
	Body      string
	SentAt    time.Time
	ReadAt    time.Time // zero while unread
	ReadStep  int       // the recipient's step that read it; zero while unread
}

const messageColumns = `id, from_run_id, to_run_id, from_name, kind, step, call_index, coalesce(body, ''), sent_at, read_at, coalesce(read_step, 0)`

var (
	insertMessage = statement{"insert message", `INSERT INTO agent_messages
		(from_run_id, to_run_id, from_name, kind, step, call_index, body, body_digest, sent_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (from_run_id, step, call_index, body_digest) DO NOTHING`}
	postedFinished = statement{"posted finished", `SELECT 1 FROM agent_messages WHERE from_run_id = ? AND kind = 'finished' LIMIT 1`}
	unreadMessages = statement{"unread messages", `SELECT ` + messageColumns + ` FROM agent_messages
		WHERE to_run_id = ?1 AND read_at IS NULL AND kind <> 'operator' AND (?2 = 0 OR from_run_id = ?2) ORDER BY id`}
	markRead    = statement{"mark read", `UPDATE agent_messages SET read_at = ?, read_step = ? WHERE id = ? AND read_at IS NULL`}
	allMessages = statement{"all messages", `SELECT ` + messageColumns + ` FROM agent_messages WHERE to_run_id = ? AND kind <> 'operator' ORDER BY id`}
)

// SendMessage puts a message into another agent's mailbox, with the event about
// it. The same call of the same step sending the same words again, as a replay
// does, is the same message; it reports whether the message is new. The
// recipient must belong to the sender's tree.
func (s *Store) SendMessage(ctx context.Context, d *Drive, m AgentMessage) (bool, error) {
	if n := utf8.RuneCountInString(m.Body); n > MaxMessage {
		return false, invalid("send message", "the message has %d characters and may have %d", n, MaxMessage)
	}
	var isNew bool
	err := d.writeAhead(ctx, "send message", func(t *txn) error {
		root, err := rootRun(&t.query, m.To)
		if err != nil && !noRows(err) {
			return err
		}
		if err != nil || root != d.RootID {
			return notFound("recipient in this tree: run", int64(m.To))
		}
		n, err := putMessage(t, d.RunID, m)
		if isNew = n == 1; err != nil || !isNew {
			return err
		}
		ev := AgentEvent{Step: m.Step, Kind: "message_sent", Other: m.To, Detail: fmt.Sprintf("%d chars", utf8.RuneCountInString(m.Body))}
		return ev.insert(t, d.RunID)
	})
	return isNew, err
}

func putMessage(t *txn, from trace.RunID, m AgentMessage) (int64, error) {
	body := cleanText(m.Body)
	digest := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s", m.To, body))
	if m.Kind == "" {
		m.Kind = MessageSaid
	}
	return t.exec(insertMessage, from, m.To, cleanText(m.FromName), string(m.Kind), m.Step, m.CallIndex, body, digest[:], t.now)
}

// postFinished tells a parent, once, that a child has ended.
func postFinished(t *txn, child, parent trace.RunID, name string, o trace.Outcome) error {
	var one int
	err := t.row(postedFinished, []any{child}, &one)
	if err == nil || !noRows(err) {
		return err
	}
	_, err = putMessage(t, child, AgentMessage{To: parent, FromName: name, Kind: MessageFinished, Step: o.Steps, CallIndex: finishedCall,
		Body: "[finished] " + string(o.Kind)})
	return err
}

// ReadMessages delivers what waits in a run's mailbox, the oldest first, and
// marks it as read by the given step, in one transaction. From narrows it to
// one sender; zero reads all. It delivers as many as fit into limit characters,
// at least one, and says how many are left; limit zero delivers all. Should the
// step not commit, entering the run again makes them unread.
func (s *Store) ReadMessages(ctx context.Context, d *Drive, from trace.RunID, step, limit int) (ms []AgentMessage, left int, err error) {
	err = d.writeAhead(ctx, "read messages", func(t *txn) error {
		ms, left = nil, 0
		all, err := list(&t.query, unreadMessages, []any{d.RunID, from}, scanMessage)
		if err != nil {
			return err
		}
		used := 0
		for i, m := range all {
			used += utf8.RuneCountInString(m.Body)
			if limit > 0 && i > 0 && used > limit {
				left = len(all) - i
				break
			}
			if _, err := t.exec(markRead, t.now, step, m.ID); err != nil {
				return err
			}
			m.ReadAt, m.ReadStep = timeOf(t.now), step
			ms = append(ms, m)
		}
		ev := AgentEvent{Step: step, Kind: "message_read", Other: from, Detail: fmt.Sprintf("%d read, %d left", len(ms), left)}
		return ev.insert(t, d.RunID)
	})
	if err != nil {
		return nil, 0, err
	}
	return ms, left, nil
}

// MessagesFor lists the mail of one run, read and unread, and delivers nothing.
func (s *Store) MessagesFor(ctx context.Context, run trace.RunID) (ms []AgentMessage, err error) {
	err = s.read(ctx, "messages", func(q *query) (err error) {
		ms, err = list(q, allMessages, []any{run}, scanMessage)
		return err
	})
	return ms, err
}

// Unread counts the mail that waits for one run.
func (s *Store) Unread(ctx context.Context, run, from trace.RunID) (int, error) {
	var n int
	err := s.read(ctx, "unread messages", func(q *query) error {
		return q.row(countUnread, []any{run, from}, &n)
	})
	return n, err
}

var countUnread = statement{"count unread", `SELECT count(*) FROM agent_messages WHERE to_run_id = ?1 AND read_at IS NULL AND kind <> 'operator' AND (?2 = 0 OR from_run_id = ?2)`}

func scanMessage(r scanner) (m AgentMessage, err error) {
	var sent int64
	var read *int64
	err = r.Scan(&m.ID, &m.From, &m.To, &m.FromName, &m.Kind, &m.Step, &m.CallIndex, &m.Body, &sent, &read, &m.ReadStep)
	m.SentAt, m.ReadAt = timeOf(sent), timeOrZero(read)
	return m, err
}
