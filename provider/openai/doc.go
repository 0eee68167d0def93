// Package openai asks OpenAI: New the Chat Completions API, which is the default
// and what other vendors imitate (see package compatible for those), and
// NewResponses the Responses API, in which models get their encrypted thinking
// back and the vendor searches the web on every model that can.
package openai
