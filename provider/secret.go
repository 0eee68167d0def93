package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// redacted is what every rendering of a Secret shows.
const redacted = "[redacted]"

// A Secret holds a credential and never shows it: not by any verb of fmt, not
// in JSON or text, not to slog, and not as a field of a struct that is printed
// whole. Only Reveal gives it out. The zero value is no credential.
type Secret struct {
	// Behind a pointer, because fmt prints the unexported fields of a foreign
	// struct without asking for methods, and of a pointer it prints the address.
	value *string
}

// NewSecret wraps a credential. An empty text is the zero Secret.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{value: &s}
}

// Reveal returns the credential itself.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no credential.
func (s Secret) IsZero() bool { return s.value == nil }

// String returns a fixed text, the same for every credential.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// Format writes String whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// MarshalJSON writes String.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// MarshalText writes String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
