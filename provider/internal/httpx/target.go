package httpx

import (
	"net/url"
	"os"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
)

// Base checks the prefix of an endpoint and drops slashes at its end. problem
// says what is wrong with it, without quoting it: what people put into URLs may
// be secret.
func Base(raw string) (base, problem string) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return "", "the base URL is not an http or https URL with a host"
	case u.User != nil:
		return "", "the base URL holds a user or password, which would show in traces: give the key as Key"
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", "the base URL holds a query or fragment: write the prefix that paths are appended to"
	}
	return strings.TrimRight(raw, "/"), ""
}

// KeyProblem says why a key can never be sent, "" when it can. The usual case
// is a line end that came along from a file.
func KeyProblem(key provider.Secret) string {
	for _, c := range []byte(key.Reveal()) {
		if c <= ' ' || c >= 0x7f {
			return "the key holds white space or characters that a header cannot carry: strip it of line ends"
		}
	}
	return ""
}

// KeyFromEnv reads a key, without the white space around it.
func KeyFromEnv(variable string) provider.Secret {
	return provider.NewSecret(strings.TrimSpace(os.Getenv(variable)))
}
