package wire

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
)

const (
	// maxPositions is how many messages, and calls in one message, the minted
	// ids can tell apart.
	maxPositions = 1 << 16

	// maxToolName is the longest tool name that every vendor takes.
	maxToolName = 64

	missingResult = "no result of this call is available here"
	openingUser   = "(the conversation goes on from here)"

	// ContinueUser follows a conversation that ends with the assistant: vendors
	// take that for the beginning of the answer, or refuse it.
	ContinueUser = "(go on)"
)

// A Turn is one message in a form that vendors accept: calls have ids that are
// unique in the conversation, names and arguments are legal, and each call of
// an assistant turn is answered exactly once in the turn behind it.
type Turn struct {
	Role    provider.Role
	Text    string
	Calls   []Call
	Results []Result
	Carry   json.RawMessage

	// Source is the index in Request.Messages, -1 for a turn that was added.
	Source int

	// Working marks the turns since the user last spoke outside of the work:
	// those whose vendor blocks must go back. A user text right behind results
	// (steering) belongs to the work.
	Working bool
}

// A Call is a replayed call.
type Call struct {
	ID   string
	Name string
	Args json.RawMessage // compact object
}

// A Result answers the call with the same id.
type Result struct {
	ID      string
	Content string
}

// Transcript brings messages to that form. keepBare tells whether an assistant
// message without text and calls is kept for its carry alone. It fails only for
// a conversation that is too long for the ids.
func Transcript(messages []provider.Message, keepBare func(json.RawMessage) bool) ([]Turn, error) {
	if len(messages) > maxPositions {
		return nil, &provider.ConfigError{Message: fmt.Sprintf("the conversation has %d messages and a request takes at most %d: fold the oldest", len(messages), maxPositions)}
	}
	var turns []Turn
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		switch m.Role {
		case provider.RoleAssistant:
			results, next := batch(messages, i+1)
			assistant, answers, err := answered(m, i, results)
			if err != nil {
				return nil, err
			}
			if assistant.Text == "" && len(assistant.Calls) == 0 && (len(m.Carry) == 0 || keepBare == nil || !keepBare(m.Carry)) {
				i = next - 1
				continue
			}
			turns = append(turns, assistant)
			if len(answers.Results) > 0 {
				if next > i+1 {
					answers.Source = next - 1
				}
				turns = append(turns, answers)
			}
			i = next - 1
		case provider.RoleTool: // nothing before it called anything
		default:
			turns = append(turns, Turn{Role: provider.RoleUser, Text: m.Text, Source: i})
		}
	}
	turns = dropEmptyUsers(turns)
	if len(turns) > 0 && turns[0].Role != provider.RoleUser {
		turns = append([]Turn{{Role: provider.RoleUser, Text: openingUser, Source: -1}}, turns...)
	}
	markWorking(turns)
	return turns, nil
}

// batch collects the results that follow an assistant message directly.
func batch(messages []provider.Message, from int) (results []provider.ToolResult, next int) {
	next = from
	for next < len(messages) && messages[next].Role == provider.RoleTool {
		results = append(results, messages[next].Results...)
		next++
	}
	return results, next
}

// answered pairs the calls of one assistant message with the results behind
// it. Pairing is by the caller's ids; where two calls share one, results are
// dealt out in order. A result that no call asked for is dropped, a call that
// nothing answered is told so, and several results of one call become one.
func answered(m provider.Message, at int, results []provider.ToolResult) (assistant, answers Turn, err error) {
	if len(m.Calls) > maxPositions {
		return assistant, answers, &provider.ConfigError{Message: fmt.Sprintf("an answer has %d tool calls and a request takes at most %d", len(m.Calls), maxPositions)}
	}
	assistant = Turn{Role: provider.RoleAssistant, Text: m.Text, Carry: m.Carry, Source: at}
	answers = Turn{Role: provider.RoleTool, Source: -1}
	contents := make([][]string, len(m.Calls))
	for _, r := range results {
		slot := -1
		for j, c := range m.Calls {
			if c.ID != r.CallID {
				continue
			}
			slot = j
			if contents[j] == nil {
				break
			}
		}
		if slot >= 0 {
			contents[slot] = append(contents[slot], r.Content)
		}
	}
	for j, c := range m.Calls {
		id := fmt.Sprintf("t%04x%04x", at&(maxPositions-1), j&(maxPositions-1))
		args, problem := Arguments(string(c.Arguments))
		if problem != "" || c.ArgumentsError != "" {
			args = json.RawMessage("{}")
		}
		assistant.Calls = append(assistant.Calls, Call{ID: id, Name: ToolName(c.Name), Args: args})
		content := missingResult
		if contents[j] != nil {
			content = strings.Join(contents[j], "\n")
		}
		answers.Results = append(answers.Results, Result{ID: id, Content: content})
	}
	return assistant, answers, nil
}

// dropEmptyUsers removes user turns that would say nothing, unless nothing else
// is left.
func dropEmptyUsers(turns []Turn) []Turn {
	kept := turns[:0:0]
	for _, t := range turns {
		if t.Role != provider.RoleUser || strings.TrimSpace(t.Text) != "" {
			kept = append(kept, t)
		}
	}
	if len(kept) == 0 && len(turns) > 0 {
		kept = append(kept, turns[len(turns)-1])
	}
	return kept
}

func markWorking(turns []Turn) {
	from := 0
	for i, t := range turns {
		if t.Role == provider.RoleUser && (i == 0 || turns[i-1].Role == provider.RoleAssistant) {
			from = i
		}
	}
	for i := from; i < len(turns); i++ {
		turns[i].Working = true
	}
}

// ToolName makes a name that a model invented safe to send back: vendors refuse
// the whole conversation for one character outside of letters, digits, _ and -.
func ToolName(name string) string {
	var b strings.Builder
	for _, r := range name {
		if b.Len() == maxToolName {
			break
		}
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	if b.Len() == 0 {
		return "_"
	}
	return b.String()
}
