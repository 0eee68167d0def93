package testkit

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// A Vendor is a fake model vendor on loopback. It answers its n-th request with
// the n-th reply, byte for byte, and keeps what it was asked.
type Vendor struct {
	URL string

	t      testing.TB
	server *httptest.Server
	done   chan struct{}
	stop   sync.Once

	mu    sync.Mutex
	reply func(n int, a Asked) Reply
	asked []Asked
}

// Asked is one request as it arrived.
type Asked struct {
	Method string
	Path   string // with the query
	Header http.Header
	Body   string
}

// A Reply is what the server does with one request: head, then chunks, then one
// of the endings.
type Reply struct {
	Status int         // 0 means 200
	Header http.Header // Content-Type is text/event-stream unless set
	Chunks []Chunk

	// Ending. By default the body ends as HTTP wants it.
	Cut  bool   // close the connection in the middle of the body
	Hang bool   // send nothing more and wait until the client is gone
	Deaf bool   // as Hang, and send not even a head
	Raw  string // instead of everything else: these bytes, then close
}

// A Chunk is written and flushed at once, after a wait.
type Chunk struct {
	After time.Duration
	Data  string
}

// NewVendor starts a server with a script. A request behind its end fails the
// test. It is closed, with all its connections, when the test ends.
func NewVendor(t testing.TB, script ...Reply) *Vendor {
	t.Helper()
	return NewVendorFunc(t, func(n int, a Asked) Reply {
		if n >= len(script) {
			t.Errorf("the vendor was asked %d times and has %d replies", n+1, len(script))
			return Reply{Status: http.StatusTeapot}
		}
		return script[n]
	})
}

// NewVendorFunc starts a server whose replies are computed; n counts from 0.
// reply is called for one request at a time.
func NewVendorFunc(t testing.TB, reply func(n int, a Asked) Reply) *Vendor {
	t.Helper()
	v := &Vendor{t: t, reply: reply, done: make(chan struct{})}
	v.server = httptest.NewServer(http.HandlerFunc(v.serve))
	v.URL = v.server.URL
	t.Cleanup(v.Close)
	return v
}

// Asked returns what was asked so far.
func (v *Vendor) Asked() []Asked {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]Asked(nil), v.asked...)
}

// Transport is a fresh transport to this server, whose connections end with the
// test, so that a leak check sees only the code under test.
func (v *Vendor) Transport() http.RoundTripper {
	tr := &http.Transport{DisableCompression: true}
	v.t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func (v *Vendor) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	a := Asked{Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: string(body)}
	v.mu.Lock()
	n := len(v.asked)
	v.asked = append(v.asked, a)
	reply := v.reply(n, a)
	v.mu.Unlock()

	switch {
	case reply.Raw != "":
		v.hijack(w, reply.Raw)
		return
	case reply.Deaf:
		v.hang(r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for k, vs := range reply.Header {
		w.Header()[k] = vs
	}
	status := reply.Status
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	flush := http.NewResponseController(w)
	for _, c := range reply.Chunks {
		if c.After > 0 {
			select {
			case <-time.After(c.After):
			case <-r.Context().Done():
				return
			case <-v.done:
				return
			}
		}
		if _, err := io.WriteString(w, c.Data); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
	}
	switch {
	case reply.Cut:
		v.hijack(w, "")
	case reply.Hang:
		_ = flush.Flush()
		v.hang(r)
	}
}

func (v *Vendor) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-v.done:
	}
}

// hijack writes raw bytes and closes the connection without the end that HTTP
// asks for.
func (v *Vendor) hijack(w http.ResponseWriter, raw string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		v.t.Errorf("hijack: %v", err)
		return
	}
	_, _ = io.WriteString(conn, raw)
	_ = conn.Close()
}

// Stream is the reply that sends each payload as one event of a stream.
func Stream(payloads ...string) Reply {
	var r Reply
	for _, p := range payloads {
		r.Chunks = append(r.Chunks, Chunk{Data: "data: " + p + "\n\n"})
	}
	return r
}

// Status is a reply that is no success.
func Status(status int, body string, header ...string) Reply {
	return Reply{Status: status, Header: headers(append([]string{"Content-Type", "application/json"}, header...)), Chunks: []Chunk{{Data: body}}}
}

// Document is a success in one piece.
func Document(body string) Reply {
	return Reply{Header: headers([]string{"Content-Type", "application/json"}), Chunks: []Chunk{{Data: body}}}
}

func headers(pairs []string) http.Header {
	h := http.Header{}
	for i := 0; i+1 < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Pieces sends text in pieces of n bytes each, flushed one by one.
func Pieces(text string, n int) Reply {
	var r Reply
	for len(text) > 0 {
		k := min(n, len(text))
		r.Chunks = append(r.Chunks, Chunk{Data: text[:k]})
		text = text[k:]
	}
	return r
}

// ChatText is the Chat Completions stream of a plain answer, cut into a few
// deltas, with usage on a chunk of its own as that vendor sends it.
func ChatText(model, text string) Reply {
	payloads := []string{fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","model":%s,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`, jsonText(model))}
	for _, w := range strings.SplitAfter(text, " ") {
		payloads = append(payloads, fmt.Sprintf(`{"id":"c1","object":"chat.completion.chunk","model":%s,"choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}],"usage":null}`, jsonText(model), jsonText(w)))
	}
	payloads = append(payloads, chatEnd(model, "stop")...)
	return Stream(payloads...)
}

// ChatCall is the Chat Completions stream of one tool call. args is the text of
// its arguments.
func ChatCall(model, id, name, args string) Reply {
	half := len(args) / 2
	for half > 0 && half < len(args) && !utf8.RuneStart(args[half]) {
		half--
	}
	payloads := []string{
		fmt.Sprintf(`{"model":%s,"choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]},"finish_reason":null}]}`, jsonText(model), jsonText(id), jsonText(name)),
		fmt.Sprintf(`{"model":%s,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]},"finish_reason":null}]}`, jsonText(model), jsonText(args[:half])),
		fmt.Sprintf(`{"model":%s,"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]},"finish_reason":null}]}`, jsonText(model), jsonText(args[half:])),
	}
	return Stream(append(payloads, chatEnd(model, "tool_calls")...)...)
}

func chatEnd(model, finish string) []string {
	return []string{
		fmt.Sprintf(`{"model":%s,"choices":[{"index":0,"delta":{},"finish_reason":%s}],"usage":null}`, jsonText(model), jsonText(finish)),
		fmt.Sprintf(`{"model":%s,"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}`, jsonText(model)),
		"[DONE]",
	}
}

func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(b)
}

// Close ends the server before its test does.
func (v *Vendor) Close() {
	v.stop.Do(func() {
		close(v.done)
		v.server.CloseClientConnections()
		v.server.Close()
	})
}
