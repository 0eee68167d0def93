package provider

import "strings"

// Finish classifies how a completion ended.
type Finish string

// The endings. Only FinishStop is an answer that may end a run.
const (
	FinishStop      Finish = "stop"       // the model has said what it wanted
	FinishToolCalls Finish = "tool_calls" // the model waits for results

	FinishLength        Finish = "length"         // an output cap or the window cut it
	FinishContentFilter Finish = "content_filter" // the vendor withheld it
	FinishRefusal       Finish = "refusal"        // the model declined
	FinishMalformedCall Finish = "malformed_call" // a call was meant and could not be formed
	FinishPaused        Finish = "paused"         // the vendor stopped in the middle and wants to be asked again
	FinishError         Finish = "error"          // the vendor's side broke
	FinishEmpty         Finish = "empty"          // a stop with no text and no call
)

// Ends reports whether the completion is an ending at all, so that an answer
// without tool calls may be taken as the last one.
func (f Finish) Ends() bool { return f == FinishStop }

// finishWords maps the words that vendors use, lower-cased, to endings. Words
// that are missing here are taken as an ordinary stop: local servers invent
// them freely.
var finishWords = map[string]Finish{
	// Chat Completions and its imitations.
	"stop": FinishStop, "eos": FinishStop, "eos_token": FinishStop, "stop_sequence": FinishStop,
	"tool_calls": FinishToolCalls, "function_call": FinishToolCalls,
	"length": FinishLength, "max_output_tokens": FinishLength, "max_tokens": FinishLength, "model_context_window_exceeded": FinishLength,
	"model_length":   FinishLength, // Mistral: the window, not the cap
	"content_filter": FinishContentFilter, "sensitive": FinishContentFilter,
	"error": FinishError, "network_error": FinishError,
	"insufficient_system_resource": FinishError, // DeepSeek: broken off
	"abort":                        FinishError, // vLLM and SGLang: broken off
	// Anthropic.
	"end_turn": FinishStop, "tool_use": FinishToolCalls, "pause_turn": FinishPaused, "refusal": FinishRefusal,
	// Gemini, native words that its compatibility endpoint lets through, some
	// behind a class and a colon.
	"function_call_filter":    FinishMalformedCall,
	"malformed_function_call": FinishMalformedCall, "unexpected_tool_call": FinishMalformedCall,
	"safety": FinishContentFilter, "recitation": FinishContentFilter, "blocklist": FinishContentFilter,
	"prohibited_content": FinishContentFilter, "spii": FinishContentFilter, "language": FinishContentFilter,
}

// Ending classifies how r ended: Finish if the provider set it, else what
// FinishReason and the content say together. A stop beside tool calls is
// FinishToolCalls, since many servers say stop there; an announced call that
// never came is FinishMalformedCall.
func (r *Response) Ending() Finish {
	if r.Finish != "" {
		return r.Finish
	}
	f := finishOf(r.FinishReason)
	switch {
	case f == FinishStop && len(r.Calls) > 0:
		return FinishToolCalls
	case f == FinishToolCalls && len(r.Calls) == 0:
		return FinishMalformedCall
	case f == FinishStop && strings.TrimSpace(r.Text) == "":
		return FinishEmpty
	}
	return f
}

// finishOf classifies a vendor's word. One of the form "class: word" is told by
// the word, or else by the class.
func finishOf(reason string) Finish {
	reason = strings.ToLower(strings.TrimSpace(reason))
	class, word, _ := strings.Cut(reason, ":")
	for _, w := range []string{reason, strings.TrimSpace(word), strings.TrimSpace(class)} {
		if f, known := finishWords[w]; known {
			return f
		}
	}
	return FinishStop
}
