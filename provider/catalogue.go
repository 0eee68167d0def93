package provider

// ModelInfo is one row of a catalogue. A nil pointer means that the vendor did
// not say, which is neither false nor zero.
type ModelInfo struct {
	ID              string `json:"id"`
	ContextLength   *int64 `json:"context_length,omitempty"`    // tokens
	MaxOutputTokens *int64 `json:"max_output_tokens,omitempty"` // tokens
	AcceptsImages   *bool  `json:"accepts_images,omitempty"`
	AcceptsTools    *bool  `json:"accepts_tools,omitempty"`
}
