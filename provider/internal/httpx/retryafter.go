package httpx

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter reads how long a server asks to wait: retry-after-ms in decimal
// milliseconds, else Retry-After as whole seconds or as a date of HTTP in GMT.
// A date in the past is a wait of zero. Of several headers the first that can be
// read counts. Anything else is no wish at all, never an error.
func RetryAfter(h http.Header, now time.Time) *time.Duration {
	if ms := strings.TrimSpace(h.Get("Retry-After-Ms")); ms != "" {
		if f, err := strconv.ParseFloat(ms, 64); err == nil && f >= 0 && f < math.MaxInt64/float64(time.Millisecond) {
			d := time.Duration(f * float64(time.Millisecond))
			return &d
		}
	}
	for _, v := range h.Values("Retry-After") {
		if wait := retryAfter(strings.TrimSpace(v), now); wait != nil {
			return wait
		}
	}
	return nil
}

func retryAfter(v string, now time.Time) *time.Duration {
	if v == "" {
		return nil
	}
	if strings.Trim(v, "0123456789") == "" {
		return seconds(v)
	}
	t, err := http.ParseTime(v)
	if err != nil {
		return nil
	}
	if _, offset := t.Zone(); offset != 0 || (t.Location() != time.UTC && !strings.HasSuffix(v, "GMT")) {
		return nil
	}
	d := max(t.Sub(now), 0)
	return &d
}

func seconds(digits string) *time.Duration {
	const most = math.MaxInt64 / int64(time.Second)
	n, err := strconv.ParseInt(digits, 10, 64)
	if errors.Is(err, strconv.ErrRange) || n > most {
		n = most // longer than anybody waits, and said so instead of forgotten
	} else if err != nil {
		return nil
	}
	d := time.Duration(n) * time.Second
	return &d
}
