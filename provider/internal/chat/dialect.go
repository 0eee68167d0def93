package chat

// A Dialect is what differs between the vendors that speak Chat Completions. It
// is data: one body builder and one reader serve them all. The zero value is
// the plain wire.
type Dialect struct {
	Provider string // name of the provider, for rows, errors and carry
	Model    string // asked when the request names none

	// OpenRouter switches to that gateway's own keys for effort, web search
	// and cache marks, and hands reasoning_details back.
	OpenRouter bool

	OmitStreamOptions bool   // the vendor refuses stream_options
	ReasoningContent  bool   // reasoning_content must go back beside tool calls
	ExtraContent      bool   // extra_content of a call must go back with it
	NoTerminalSignal  bool   // the server ends streams without saying so
	OutputSchema      bool   // the vendor takes response_format
	MaxTokensField    string // key of the output cap; "" means max_tokens
}

// wireName marks the carry that this wire made.
const wireName = "chat"
