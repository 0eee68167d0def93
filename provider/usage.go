package provider

import "math"

// Usage counts what one completion used, as the vendor reported it. The three
// breakdowns are parts of the counters they name and are never added to
// TotalTokens. No counter is negative.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`     // the whole prompt, cached parts included
	CompletionTokens int64 `json:"completion_tokens"` // everything generated, thinking included
	TotalTokens      int64 `json:"total_tokens"`      // what budgets draw; the vendor's own sum where it gives one

	CacheReadTokens  int64 `json:"cache_read_tokens"`  // part of PromptTokens that came from a cache
	CacheWriteTokens int64 `json:"cache_write_tokens"` // part of PromptTokens that went into a cache
	ReasoningTokens  int64 `json:"reasoning_tokens"`   // part of CompletionTokens, where reported

	ServerToolRequests int64 `json:"server_tool_requests"` // provider-executed requests, billed one by one
}

// Add returns the sum, each counter saturating. A negative one counts as none.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		PromptTokens:       satAdd(u.PromptTokens, v.PromptTokens),
		CompletionTokens:   satAdd(u.CompletionTokens, v.CompletionTokens),
		TotalTokens:        satAdd(u.TotalTokens, v.TotalTokens),
		CacheReadTokens:    satAdd(u.CacheReadTokens, v.CacheReadTokens),
		CacheWriteTokens:   satAdd(u.CacheWriteTokens, v.CacheWriteTokens),
		ReasoningTokens:    satAdd(u.ReasoningTokens, v.ReasoningTokens),
		ServerToolRequests: satAdd(u.ServerToolRequests, v.ServerToolRequests),
	}
}

func satAdd(a, b int64) int64 {
	a, b = max(a, 0), max(b, 0)
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
