package httpx

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
)

// shortestSecret is the length from which a key is masked wherever it occurs. A
// shorter one would blank out ordinary words.
const shortestSecret = 8

const mask = "[redacted]"

var (
	headerValue = regexp.MustCompile(`(?i)(authorization|x-api-key|api-key)(["']?\s*[:=]\s*["']?)((?:bearer|basic)\s+)?[^\s"',}]+`)
	bearerValue = regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}`)
	userInfo    = regexp.MustCompile(`(://)[^/?#\s@]+@`)
	queryValue  = regexp.MustCompile(`(?i)([?&](?:key|api_key|access_token)=)[^&\s"'#]+`)
)

// Label renders a provider as its name and model, whatever the verb. Without
// it, fmt would walk through everything that a client holds: a wall of text,
// and a race with the connections in use.
func Label(f fmt.State, name, model string) {
	if model != "" {
		name += "(" + model + ")"
	}
	_, _ = io.WriteString(f, name)
}

// Redact masks the given secrets and what looks like one in a text that is
// about to leave a client.
func Redact(text string, secrets ...provider.Secret) string {
	for _, s := range secrets {
		if v := s.Reveal(); len(v) >= shortestSecret {
			text = strings.ReplaceAll(text, v, mask)
			text = maskCut(text, v)
		}
	}
	text = headerValue.ReplaceAllString(text, "${1}${2}"+mask)
	text = bearerValue.ReplaceAllString(text, "${1}"+mask)
	text = userInfo.ReplaceAllString(text, "${1}"+mask+"@")
	return queryValue.ReplaceAllString(text, "${1}"+mask)
}

// maskCut masks what is left of a secret in front of an ellipsis: a text is often
// cut before anybody looks for secrets in it.
func maskCut(text, secret string) string {
	const cut = "..."
	if !strings.Contains(text, secret[:shortestSecret]) {
		return text
	}
	for n := len(secret) - 1; n >= shortestSecret; n-- {
		text = strings.ReplaceAll(text, secret[:n]+cut, mask+cut)
	}
	return text
}
