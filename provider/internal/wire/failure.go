package wire

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider"
)

// overflowWords are the wordings of "the prompt does not fit", lower-cased. A
// wording is left out when in doubt: missing one costs a readable error, a
// wrong one makes a run fold and ask again for what the server had refused.
var overflowWords = []string{
	"context_length_exceeded",
	"maximum context length",
	"reduce the length of the messages",
	"prompt is too long",
	"exceed context limit",
	"context window",
	"too many tokens",
	"exceeds the available context size",   // llama.cpp
	"exceed_context_size_error",            // llama.cpp
	"exceeds the maximum number of tokens", // Gemini
}

// quotaWords tell a spent account from a quick asker: both come as 429, and from
// one vendor as 400. "Exceeded your current quota" is not among them, since
// Gemini says it for a minute's limit too.
var quotaWords = []string{"insufficient_quota", "spend limit", "spending limit", "credit balance is too low"}

func contains(message string, words []string) bool {
	m := strings.ToLower(message)
	for _, w := range words {
		if strings.Contains(m, w) {
			return true
		}
	}
	return false
}

// StatusKind classifies an HTTP status together with what the server said.
func StatusKind(status int, message string) provider.Kind {
	switch {
	case (status == 429 || status == 400) && contains(message, quotaWords):
		return provider.Quota
	case status == 429:
		return provider.RateLimited
	case status == 401, status == 403:
		return provider.Auth
	case status == 402:
		return provider.Quota
	case status == 408:
		return provider.Timeout
	case status >= 500 && status <= 599:
		return provider.Server
	case (status == 400 || status == 413) && contains(message, overflowWords):
		return provider.ContextOverflow
	}
	return provider.InvalidRequest
}

// A Failure is an error that a vendor put into the body of a success.
type Failure struct {
	Code    string // as text, "" when there was none
	Type    string
	Message string
	Request string // the vendor's id of the request
}

// FailureIn finds a failure in one document of a stream, in any of the shapes
// that vendors use: {"error":…}, {"object":"error",…}, {"type":"error",…} and
// an array of the first.
func FailureIn(doc gjson.Result) (Failure, bool) {
	if doc.IsArray() {
		first := doc.Get("0")
		if !first.Get("error").Exists() {
			return Failure{}, false
		}
		return FailureIn(first)
	}
	if e := doc.Get("error"); e.Exists() && e.Type != gjson.Null {
		if e.IsObject() {
			f := FailureOf(e)
			f.Request = doc.Get("request_id").String()
			return f, true
		}
		if text := e.String(); text != "" && e.Type == gjson.String {
			return Failure{Code: doc.Get("code").String(), Type: doc.Get("type").String(), Message: firstText(doc.Get("message").String(), text)}, true
		}
	}
	if doc.Get("object").String() == "error" || doc.Get("type").String() == "error" {
		return FailureOf(doc), true
	}
	return Failure{}, false
}

// FailureOf reads a failure that is known to be one, from the object that says so.
func FailureOf(e gjson.Result) Failure {
	f := Failure{Code: e.Get("code").String(), Type: e.Get("type").String(), Message: e.Get("message").String()}
	if f.Type == "" || f.Type == "error" {
		f.Type = e.Get("status").String() // Gemini names the class so
	}
	// A gateway's own message is often "Provider returned error"; what the
	// vendor behind it said is in the metadata.
	if raw := e.Get("metadata.raw").String(); raw != "" {
		f.Message = strings.TrimSpace(f.Message + ": " + raw)
	}
	return f
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// Status is the HTTP status that the code names, 0 when it names none.
func (f Failure) Status() int {
	n, err := strconv.Atoi(strings.TrimSpace(f.Code))
	if err != nil || n < 400 || n > 599 {
		return 0
	}
	return n
}

// failureWords maps the words for classes of failures.
var failureWords = map[string]provider.Kind{
	"overloaded_error": provider.Server, "api_error": provider.Server, "server_error": provider.Server,
	"internal_error": provider.Server, "internal_server_error": provider.Server,
	"rate_limit_error": provider.RateLimited, "rate_limit_exceeded": provider.RateLimited,
	"too_many_requests": provider.RateLimited, "resource_exhausted": provider.RateLimited,
	"timeout_error": provider.Timeout, "authentication_error": provider.Auth, "permission_error": provider.Auth,
	"invalid_api_key": provider.Auth, "unauthenticated": provider.Auth, "permission_denied": provider.Auth,
	"invalid_request_error": provider.InvalidRequest, "not_found_error": provider.InvalidRequest,
	"request_too_large": provider.InvalidRequest, "invalid_argument": provider.InvalidRequest,
	"billing_error": provider.Quota, "insufficient_quota": provider.Quota,
	"context_length_exceeded": provider.ContextOverflow, "exceed_context_size_error": provider.ContextOverflow,
}

// Err is the failure as an error of this library.
func (f Failure) Err() *provider.Error {
	e := &provider.Error{Status: f.Status(), RequestID: f.Request, Message: firstText(f.Message, f.Code, f.Type, "the vendor reported an error without a text")}
	words := f.Code + " " + f.Type + " " + f.Message
	if e.Status != 0 {
		e.Kind = StatusKind(e.Status, words)
		return e
	}
	e.Kind = provider.Server
	for _, w := range []string{f.Code, f.Type} {
		if k, ok := failureWords[strings.ToLower(w)]; ok {
			e.Kind = k
			break
		}
	}
	if e.Kind == provider.InvalidRequest && contains(words, overflowWords) {
		e.Kind = provider.ContextOverflow
	}
	return e
}

// WebCode is the text for a row of a failed web tool.
func (f Failure) WebCode() string { return firstText(f.Code, f.Message, "unknown") }

// OfWeb reports whether the failure is one of the provider's own web tool
// rather than of the completion: a code in words that names the web.
func (f Failure) OfWeb() bool {
	_, err := strconv.ParseFloat(f.Code, 64)
	return err != nil && strings.Contains(strings.ToLower(f.Code), "web")
}

// Withheld reports whether the ending itself is the answer: the vendor, or the
// model, gave none. Any other ending of an answer that holds nothing at all is of
// a stream that went wrong.
func Withheld(f provider.Finish) bool {
	return f == provider.FinishContentFilter || f == provider.FinishRefusal
}
