package provider

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"strings"
)

// Limits of images. They are the tightest of the vendors', so that what one
// accepts the others accept too.
const (
	MaxImageBytes        = 5 << 20  // one image, decoded
	MaxRequestImageBytes = 20 << 20 // all images of one request, decoded
)

// Media is one image as the wires take it: standard base64 without line breaks
// and without a data: prefix. It is held encoded, so that a request compares
// and records as text.
type Media struct {
	Type   string `json:"media_type"` // image/jpeg, image/png, image/gif or image/webp
	Base64 string `json:"base64"`
}

// Image makes a Media of bytes that are already in a type that vendors take.
// The bytes are not parsed and not changed. Another type, no bytes, or more
// than MaxImageBytes is a *ConfigError.
func Image(mediaType string, data []byte) (Media, error) {
	if !wireImage(mediaType) {
		return Media{}, &ConfigError{Message: "media type " + quote(mediaType) + " is not one that models take: convert it to image/jpeg, image/png, image/gif or image/webp"}
	}
	if len(data) == 0 {
		return Media{}, &ConfigError{Message: "the image has no bytes"}
	}
	if len(data) > MaxImageBytes {
		return Media{}, &ConfigError{Message: fmt.Sprintf("the image has %d bytes and a model takes at most %d: make it smaller", len(data), MaxImageBytes)}
	}
	return Media{Type: mediaType, Base64: base64.StdEncoding.EncodeToString(data)}, nil
}

// Validate reports what keeps the image from any request, as a *ConfigError: a
// type that vendors do not take, no bytes or more than MaxImageBytes, or text
// that is no standard base64. The bytes themselves are not parsed.
func (m Media) Validate() error {
	switch n := m.ByteLen(); {
	case !wireImage(m.Type):
		return &ConfigError{Message: "media type " + quote(m.Type) + " is not one that models take: convert it to image/jpeg, image/png, image/gif or image/webp"}
	case n > MaxImageBytes:
		return &ConfigError{Message: fmt.Sprintf("the image has %d bytes and a model takes at most %d: make it smaller", n, MaxImageBytes)}
	}
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(m.Base64)))
	if err != nil || n == 0 || strings.ContainsAny(m.Base64, "\r\n") {
		return &ConfigError{Message: "the image is not standard base64 without line breaks: make it with provider.Image"}
	}
	return nil
}

func wireImage(mediaType string) bool {
	switch mediaType {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		return true
	}
	return false
}

// MediaTypeFor tells the wire type from a file name's extension, in any case;
// "" when it is not one that vendors take.
func MediaTypeFor(path string) string {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".jpg", ".jpeg":
		return "image/jpeg"
	case ".png":
		return "image/png"
	case ".gif":
		return "image/gif"
	case ".webp":
		return "image/webp"
	}
	return ""
}

// ByteLen is the decoded size in bytes, told from the text alone: never
// negative, also when the text is no base64 at all.
func (m Media) ByteLen() int {
	n := len(m.Base64) / 4 * 3
	n -= len(m.Base64) - len(strings.TrimRight(m.Base64, "="))
	return max(n, 0)
}

// Digest identifies the image in a trace: 16 lower-case hex digits over type
// and content. It is not a cryptographic hash.
func (m Media) Digest() string {
	h := fnv.New64a()
	h.Write([]byte(m.Type))
	h.Write([]byte{0})
	h.Write([]byte(m.Base64))
	return fmt.Sprintf("%016x", h.Sum64())
}
