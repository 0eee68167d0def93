package prompt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/trace"
)

// Rendered is the user side of one request.
type Rendered struct {
	// User is the whole user turn as one text. It is the texts of Messages in
	// order, the model's own turns left out. Where those end with a turn that
	// the provider paused, it also has what tells of that turn, and the closing
	// instruction: nothing may stand behind a turn that is to be gone on with.
	User string
	// Messages is the same as a conversation. It is nil when it would be one
	// user message, so that a first step is the flat request that it looks like.
	Messages []provider.Message
	// Frozen is the length in bytes of the prefix of User that ends with the
	// fold's summary, 0 when there is none.
	Frozen int

	ends  []int // where each message's text ends in User
	steps []int // the newest step that each message tells of
}

// Render puts a section into its frame. Each call of a turn has exactly one
// result, in the message right after it.
func Render(f Frame, a Assembled) Rendered {
	r := renderer{ids: map[string]bool{}}
	r.user.Grow(len(f.Head) + len(a.Text) + len(f.Empty) + len(f.Tail))
	r.say(f.Head)
	frozen, seen := 0, 0
	for _, p := range a.Pieces {
		if p.Kind == PieceOperator || p.Kind == PieceAgent || p.Kind == PieceTurn {
			r.flush() // what is pending belongs to the steps before
		}
		r.step = max(r.step, p.Step)
		r.piece(p)
		seen += len(p.Text)
		if a.Frozen > 0 && frozen == 0 && seen >= a.Frozen {
			frozen = r.size
			r.flush() // a message border where the cached prefix may end
		}
	}
	if a.Carried+a.Stubbed == 0 {
		r.say(f.Empty)
	}
	if r.paused && r.pending.Len() == 0 {
		r.write(f.Tail)
	} else {
		r.say(f.Tail)
	}
	r.flush()
	out := Rendered{User: r.user.String(), Messages: r.messages, Frozen: frozen, ends: r.ends, steps: r.steps}
	if len(out.Messages) < 2 {
		out.Messages, out.ends, out.steps = nil, nil, nil
	}
	return out
}

type renderer struct {
	user     strings.Builder
	size     int
	pending  strings.Builder // prose of the user message that is being written
	messages []provider.Message
	ends     []int
	steps    []int
	step     int // of the newest piece
	ids      map[string]bool
	calls    []string // ids of the last turn's calls as they were sent
	answered []int    // by call of the last turn: its place in the results + 1
	paused   bool     // the last turn was paused
}

func (r *renderer) say(text string) {
	r.pending.WriteString(text)
	r.write(text)
}

func (r *renderer) write(text string) {
	r.user.WriteString(text)
	r.size += len(text)
}

func (r *renderer) flush() {
	if r.pending.Len() == 0 {
		return
	}
	text := r.pending.String()
	r.pending.Reset()
	r.put(provider.User(text), r.size)
}

func (r *renderer) put(m provider.Message, end int) {
	r.messages = append(r.messages, m)
	r.ends = append(r.ends, end)
	r.steps = append(r.steps, r.step)
}

func (r *renderer) piece(p Piece) {
	switch p.Kind {
	case PieceOperator:
		r.flush()
		r.write(p.Text)
		r.put(provider.User(p.Text), r.size)
	case PieceAgent:
		r.flush()
		r.write(p.Text)
		r.put(provider.Assistant(p.Text), r.size)
	case PieceTurn:
		r.flush()
		r.put(r.turn(p.Turn), r.size)
		if len(p.Turn.Calls) > 0 {
			r.put(provider.Results(), r.size)
		}
	case PiecePaused:
		r.write(p.Text)
		r.paused = true
	case PieceResult:
		r.result(p)
	default:
		r.say(p.Text)
	}
}

func (r *renderer) result(p Piece) {
	r.write(p.Text)
	last := len(r.messages) - 1
	m := &r.messages[last]
	r.ends[last] = r.size
	if at := r.answered[p.Call]; at > 0 {
		m.Results[at-1].Content += p.Text
		return
	}
	m.Results = append(m.Results, provider.ToolResult{CallID: r.calls[p.Call], Content: p.Text})
	r.answered[p.Call] = len(m.Results)
}

// turn is the model's own turn. An id that is missing, or was used before in
// this request, is replaced by one that names the step and the call's place.
func (r *renderer) turn(t *trace.AssistantTurn) provider.Message {
	m := provider.Message{Role: provider.RoleAssistant, Text: t.Text, Carry: t.Carry}
	r.calls = make([]string, len(t.Calls))
	r.answered = make([]int, len(t.Calls))
	for i, c := range t.Calls {
		id := c.ID
		for n := 0; id == "" || r.ids[id]; n++ {
			id = fmt.Sprintf("s%d-%d", t.Step, i+1)
			if n > 0 {
				id = fmt.Sprintf("%s-%d", id, n)
			}
		}
		r.ids[id] = true
		r.calls[i] = id
		m.Calls = append(m.Calls, provider.ToolCall{ID: id, Name: c.Name, Arguments: object(c.Arguments)})
	}
	return m
}

// object is the arguments of a call as a JSON object: what is none was told to
// the model when it happened and must not spoil every later request.
func object(args json.RawMessage) json.RawMessage {
	if t := bytes.TrimLeft(args, " \t\r\n"); len(t) > 0 && t[0] == '{' && json.Valid(args) {
		return args
	}
	return json.RawMessage("{}")
}
