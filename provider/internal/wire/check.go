package wire

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/initorigin/io-harness-go/provider"
)

// Check refuses what no vendor takes, before anything is sent.
func Check(req *provider.Request) error {
	if err := checkMedia(req.Media); err != nil {
		return err
	}
	if tier, err := provider.ParseEffort(string(req.Effort)); err != nil {
		return err
	} else if tier != req.Effort {
		return &provider.ConfigError{Message: fmt.Sprintf("effort %q is not written as a tier is: parse it with provider.ParseEffort", req.Effort)}
	}
	return nil
}

func checkMedia(media []provider.Media) error {
	total := 0
	for _, m := range media {
		if err := m.Validate(); err != nil {
			return err
		}
		total += m.ByteLen()
	}
	if total > provider.MaxRequestImageBytes {
		return &provider.ConfigError{Message: fmt.Sprintf("images of %d bytes together cannot ride one request: at most %d", total, provider.MaxRequestImageBytes)}
	}
	return nil
}

// Encode is v as JSON the way a body is written: no escaping of <, > and &, no
// line end behind it.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, &provider.ConfigError{Message: "the request cannot be written as JSON: " + err.Error()}
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Model is the model to ask: the request's, else the client's.
func Model(req *provider.Request, own string) (string, error) {
	if req.Model != "" {
		return req.Model, nil
	}
	if own == "" {
		return "", &provider.ConfigError{Message: "no model is named: set one on the provider or on the request"}
	}
	return own, nil
}

// maxCount bounds a counter that a vendor reports, so that sums of them cannot
// wrap: far above any real prompt, far below the end of the type.
const maxCount = 1 << 50

// Count is a reported counter within its bounds. A negative one is no count.
func Count(n int64) int64 { return min(max(n, 0), maxCount) }
