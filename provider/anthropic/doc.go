// Package anthropic asks Anthropic's Messages API: streaming, extended thinking
// whose signed blocks go back with their turn, cache marks, and the web search
// and fetch that the vendor runs itself.
//
// It is one wire for one vendor and the gateways that speak it unchanged. It
// offers no batches, no files and no token counting.
package anthropic
