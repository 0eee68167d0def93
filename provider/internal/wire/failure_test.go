package wire

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
)

func TestWordsForFailures(t *testing.T) {
	for kind, words := range map[provider.Kind][]string{
		provider.Server:          {"overloaded_error", "api_error", "server_error", "internal_error", "internal_server_error", "a word of tomorrow"},
		provider.RateLimited:     {"rate_limit_error", "rate_limit_exceeded", "too_many_requests", "RESOURCE_EXHAUSTED"},
		provider.Timeout:         {"timeout_error"},
		provider.Auth:            {"authentication_error", "permission_error", "invalid_api_key"},
		provider.InvalidRequest:  {"invalid_request_error", "not_found_error", "request_too_large", "INVALID_ARGUMENT"},
		provider.Quota:           {"billing_error", "insufficient_quota"},
		provider.ContextOverflow: {"context_length_exceeded", "exceed_context_size_error"},
	} {
		for _, w := range words {
			for _, doc := range []string{
				`{"type":"error","error":{"type":%q,"message":"m"}}`, `{"error":{"code":%q,"message":"m"}}`,
				`{"object":"error","message":"m","code":%q}`, `[{"error":{"status":%q,"message":"m"}}]`,
			} {
				f, ok := FailureIn(gjson.Parse(fmt.Sprintf(doc, w)))
				if e := f.Err(); !ok || e.Kind != kind || e.Status != 0 || e.Message != "m" {
					t.Errorf(doc+" = %+v, want %s", w, e, kind)
				}
			}
		}
	}
}
