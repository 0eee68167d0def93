package chat

import (
	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// usageOf finds the counters in one document, wherever this vendor puts them.
func usageOf(doc gjson.Result) (provider.Usage, bool) {
	for _, place := range []string{"usage", "choices.0.usage", "x_groq.usage"} {
		if u := doc.Get(place); u.IsObject() {
			return readUsage(u), true
		}
	}
	return provider.Usage{}, false
}

func readUsage(u gjson.Result) provider.Usage {
	out := provider.Usage{
		PromptTokens:     count(u, "prompt_tokens"),
		CompletionTokens: count(u, "completion_tokens"),
		TotalTokens:      count(u, "total_tokens"),
		// Three vendors' names for the same counter.
		CacheReadTokens:    count(u, "prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"),
		CacheWriteTokens:   count(u, "prompt_tokens_details.cache_write_tokens"),
		ReasoningTokens:    count(u, "completion_tokens_details.reasoning_tokens"),
		ServerToolRequests: count(u, "server_tool_use.web_search_requests"),
	}
	if out.TotalTokens == 0 {
		// Without a sum a budget would draw nothing.
		out.TotalTokens = out.PromptTokens + out.CompletionTokens
	}
	return out
}

// count reads the first counter that is there.
func count(u gjson.Result, paths ...string) int64 {
	for _, p := range paths {
		if v := u.Get(p); v.Type == gjson.Number {
			return wire.Count(v.Int())
		}
	}
	return 0
}
