package loop

import (
	"strings"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/trace"
)

// looked records what the provider looked up by itself for an answer.
func (r *recorder) looked(step int, resp *provider.Response) {
	for _, c := range resp.Citations {
		r.lease.Record(store.Citation{Step: step, URL: c.URL, Title: c.Title, Text: c.Text})
	}
	for _, c := range resp.ServerTools {
		r.lease.Record(store.ServerToolCall{Step: step, Provider: c.Provider, Tool: c.Tool, Error: c.Error})
	}
}

// tellLooked tells the watcher of it, and the model of what failed: to the model
// a failed search looks like one that found nothing.
func (d *drive) tellLooked(st *step) {
	var failed strings.Builder
	for _, c := range st.response.ServerTools {
		d.emit(st.n, trace.ServerToolUsed{Provider: c.Provider, Tool: c.Tool, OK: c.Error == ""})
		if c.Error != "" {
			failed.WriteString(prompt.SearchFailed(c.Tool, c.Error))
		}
	}
	if failed.Len() > 0 && !st.paused() { // a paused turn goes back with the vendor's own word on it
		st.notes = append(st.notes, note(st.n, prompt.Bound(failed.String(), d.entryCap, trace.ObsMessage)))
	}
}

// paused reports whether the vendor stopped in the middle of its turn, and what
// it had so far can be handed back to it.
func (st *step) paused() bool {
	return len(st.calls) == 0 && len(st.response.Carry) > 0 && st.response.Ending() == provider.FinishPaused
}

// begun is the text of the paused turns that end a request, and that its answer
// goes on with: the vendor does not repeat what it has said.
func begun(messages []provider.Message) string {
	text := ""
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Role != provider.RoleAssistant || len(m.Calls) > 0 || len(m.Carry) == 0 {
			break
		}
		text = m.Text + text
	}
	return text
}
