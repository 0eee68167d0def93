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
	if failed.Len() > 0 {
		st.notes = append(st.notes, note(st.n, prompt.Bound(failed.String(), d.entryCap, trace.ObsMessage)))
	}
}
