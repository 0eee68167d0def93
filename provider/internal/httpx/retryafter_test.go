package httpx

import (
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/provider"
)

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	const none = time.Duration(-1)
	for _, tc := range []struct {
		value string
		want  time.Duration
	}{
		{"7", 7 * time.Second}, {" 0 ", 0}, {"120", 2 * time.Minute}, {"999999", 999999 * time.Second},
		{"99999999999999999999999", math.MaxInt64 / time.Second * time.Second},
		{"Sat, 01 Aug 2026 12:00:45 GMT", 45 * time.Second}, {"Sat, 01 Aug 2026 11:00:00 GMT", 0},
		{"Saturday, 01-Aug-26 12:00:45 GMT", 45 * time.Second}, {"Sat Aug  1 12:00:45 2026", 45 * time.Second},
		{"", none}, {"soon", none}, {"-5", none}, {"7.5", none}, {"+5", none}, {"5 s", none},
		{"Sat, 01 Aug 2026 12:00:45 EST", none}, {"Saturday, 01-Aug-26 12:00:45 EST", none}, {"Sat, 01 Aug 2026 12:00:45 +0000", none},
		{"Xxx, 01 Aug 2026 12:00:45 GMT", none}, {"Sat, 41 Aug 2026 12:00:45 GMT", none}, {"Sat, 01 Aug 2026 25:00:45 GMT", none}, {"Sat, 01 Foo 2026 12:00:45 GMT", none},
	} {
		got := RetryAfter(http.Header{"Retry-After": {tc.value}}, now)
		if (got == nil) != (tc.want == none) || (got != nil && *got != tc.want) {
			t.Errorf("%q = %v, want %v", tc.value, got, tc.want)
		}
	}
	for _, tc := range []struct {
		values []string
		want   time.Duration
	}{{[]string{"2", "9"}, 2 * time.Second}, {[]string{"soon", "9"}, 9 * time.Second}, {[]string{"soon", "-5"}, none}} {
		got := RetryAfter(http.Header{"Retry-After": tc.values}, now)
		if (got == nil) != (tc.want == none) || (got != nil && *got != tc.want) {
			t.Errorf("%q = %v, want %v", tc.values, got, tc.want)
		}
	}
	for ms, want := range map[string]time.Duration{"250": 250 * time.Millisecond, "1.5": 1500 * time.Microsecond, "-1": 9 * time.Second, "x": 9 * time.Second, "NaN": 9 * time.Second, "Inf": 9 * time.Second, "1e300": 9 * time.Second} {
		got := RetryAfter(http.Header{"Retry-After-Ms": {ms}, "Retry-After": {"9"}}, now)
		if got == nil || *got != want {
			t.Errorf("retry-after-ms %q = %v, want %v", ms, got, want)
		}
	}
}

func TestRedact(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"key longsecret here", "key [redacted] here"},
		{"short is kept", "short is kept"},
		{`{"Authorization":"Bearer abc.def","x":1}`, `{"Authorization":"[redacted]","x":1}`},
		{"x-api-key: abc", "x-api-key: [redacted]"},
		{"sent Bearer abcdefghijkl along", "sent Bearer [redacted] along"},
		{"https://user:pw@host/p", "https://[redacted]@host/p"},
		{"https://host/?a=1&access_token=xyz&b=2", "https://host/?a=1&access_token=[redacted]&b=2"},
		{"https://host/?key=xyz", "https://host/?key=[redacted]"},
		{"a monkey=x stays", "a monkey=x stays"},
		{"mail me@host stays", "mail me@host stays"},
	} {
		if got := Redact(tc.in, provider.NewSecret("longsecret"), provider.NewSecret("short"), provider.Secret{}); got != tc.want {
			t.Errorf("Redact(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
	if strings.Contains(Redact("nothing to see"), "[") {
		t.Error("a plain text was changed")
	}
}
