package httpx_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/initorigin/io-harness-go/internal/buildinfo"
	"github.com/initorigin/io-harness-go/internal/testkit"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-canary-0123456789"

// post asks v and returns the payloads of its stream, or the document.
func post(ctx context.Context, v *testkit.Vendor, change func(*httpx.Client)) (events []string, doc string, err error) {
	c := &httpx.Client{Name: "test", Transport: v.Transport(), Secrets: []provider.Secret{provider.NewSecret(key)}}
	if change != nil {
		change(c)
	}
	h := http.Header{"Authorization": {"Bearer " + key}}
	err = c.Post(ctx, v.URL+"/v1/x?api_key="+key, h, []byte(`{"a":1}`), httpx.Handlers{
		Event: func(e sse.Event) (bool, error) {
			events = append(events, string(e.Data))
			return e.IsDone(), nil
		},
		Document: func(b []byte) error { doc = string(b); return nil },
	})
	return events, doc, err
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// pieces gives one text for each read, at once, until ctx ends.
type pieces struct {
	texts []string
	ctx   context.Context
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	if len(p.texts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.texts[0])
	p.texts = p.texts[1:]
	return n, nil
}

func TestRequestHead(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Stream("[DONE]"))
	if _, _, err := post(context.Background(), v, nil); err != nil {
		t.Fatal(err)
	}
	a := v.Asked()[0]
	for k, want := range map[string]string{
		"Content-Type": "application/json", "Accept": "text/event-stream", "Authorization": "Bearer " + key,
		"Accept-Encoding": "", "Cookie": "", "User-Agent": "io-harness-go/" + buildinfo.Version(),
	} {
		if got := a.Header.Get(k); got != want {
			t.Errorf("%s = %q, want %q", k, got, want)
		}
	}
	if a.Method != "POST" || a.Body != `{"a":1}` {
		t.Errorf("asked %s with %s", a.Method, a.Body)
	}
}

func TestFailedStatus(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply testkit.Reply
		kind  provider.Kind
		say   string
		wait  time.Duration // -1: none
		id    string
	}{
		{"rate limited with a wait", testkit.Status(429, `{"error":"slow"}`, "Retry-After", "3", "X-Request-Id", "r1"), provider.RateLimited, "slow", 3 * time.Second, "r1"},
		{"server, in milliseconds", testkit.Status(503, "", "Retry-After-Ms", "250", "Retry-After", "9"), provider.Server, "Service Unavailable", 250 * time.Millisecond, ""},
		{"two waits, the first counts", testkit.Status(503, "x", "Retry-After", "1", "Retry-After", "2"), provider.Server, "x", time.Second, ""},
		{"unreadable wait", testkit.Status(529, "busy", "Retry-After", "soon"), provider.Server, "busy", -1, ""},
		{"auth, id in the body", testkit.Status(401, `{"request_id":"req_9"}`), provider.Auth, "req_9", -1, "req_9"},
		{"no words at all", testkit.Status(599, ""), provider.Server, "no reason given", -1, ""},
		{"overflow", testkit.Status(400, "prompt is too long"), provider.ContextOverflow, "too long", -1, ""},
		{"redirect", testkit.Status(302, "", "Location", "http://example.invalid/"), provider.InvalidRequest, "Found", -1, ""},
		{"body cut short", testkit.Reply{Status: 500, Chunks: []testkit.Chunk{{Data: "half a rea"}}, Cut: true}, provider.Server, "half a rea", -1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := post(context.Background(), testkit.NewVendor(t, tc.reply), nil)
			e, ok := provider.AsError(err)
			if !ok || e.Kind != tc.kind || e.Status != tc.reply.Status || e.Provider != "test" || e.RequestID != tc.id || !strings.Contains(e.Message, tc.say) {
				t.Fatalf("error = %v (%+v), want %s with %q", err, e, tc.kind, tc.say)
			}
			switch {
			case tc.wait < 0 && e.RetryAfter != nil:
				t.Errorf("wait = %v, want none", *e.RetryAfter)
			case tc.wait >= 0 && (e.RetryAfter == nil || *e.RetryAfter != tc.wait):
				t.Errorf("wait = %v, want %v", e.RetryAfter, tc.wait)
			}
		})
	}
}

func TestAFailureInsideASuccessHasTheIDOfItsHead(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Reply{Header: http.Header{"Request-Id": {"req_7"}}, Chunks: []testkit.Chunk{{Data: "data: 1\n\n"}}})
	c := &httpx.Client{Name: "test", Transport: v.Transport()}
	err := c.Post(context.Background(), v.URL, nil, nil, httpx.Handlers{Event: func(sse.Event) (bool, error) { return false, &provider.Error{Kind: provider.Server} }})
	if e, ok := provider.AsError(err); !ok || e.RequestID != "req_7" || e.Provider != "test" {
		t.Errorf("error = %+v", err)
	}
}

func TestRedirectsReachNobody(t *testing.T) {
	for _, status := range []int{301, 302, 307, 308} {
		other := testkit.NewVendor(t)
		v := testkit.NewVendor(t, testkit.Status(status, "", "Location", other.URL))
		_, _, err := post(context.Background(), v, nil)
		if e, ok := provider.AsError(err); !ok || e.Status != status || e.Retryable() {
			t.Errorf("%d: error = %v, want a terminal one with the status", status, err)
		}
		if n := len(other.Asked()); n != 0 {
			t.Errorf("%d: the other server was asked %d times", status, n)
		}
	}
}

func TestBrokenExchanges(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		url := "http://" + l.Addr().String()
		l.Close()
		tr := httpx.NewTransport()
		defer tr.CloseIdleConnections()
		c := &httpx.Client{Name: "test", Transport: tr, Timeout: 5 * time.Second}
		err = c.Post(context.Background(), url, nil, nil, httpx.Handlers{})
		if e, ok := provider.AsError(err); !ok || e.Status != 0 || (e.Kind != provider.Transport && runtime.GOOS != "windows") {
			t.Errorf("error = %v, want Transport", err)
		}
	})
	t.Run("accepts and says nothing", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.Reply{Deaf: true})
		_, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Timeout = 50 * time.Millisecond })
		if !errors.Is(err, provider.Timeout) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want the provider's Timeout and not the caller's", err)
		}
	})
	t.Run("hangs in the middle", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: 1\n\n"}}, Hang: true})
		events, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Timeout = 100 * time.Millisecond })
		if !errors.Is(err, provider.Timeout) || len(events) != 1 {
			t.Errorf("events %v, error = %v; want one and Timeout", events, err)
		}
	})
	t.Run("silent behind the first byte", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: 1\n\n"}}, Hang: true})
		_, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Idle = 30 * time.Millisecond })
		if !errors.Is(err, provider.Timeout) || !strings.Contains(err.Error(), "silent") {
			t.Errorf("error = %v, want Timeout for silence", err)
		}
	})
	t.Run("silence before the first byte is thinking", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.Reply{Chunks: []testkit.Chunk{{After: 100 * time.Millisecond, Data: "data: [DONE]\n\n"}}})
		if _, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Idle = 10 * time.Millisecond }); err != nil {
			t.Error(err)
		}
	})
	t.Run("a slow reader is no silence", func(t *testing.T) {
		own, ended := context.WithCancelCause(context.Background())
		body := &pieces{texts: []string{"data: 1\n\n", "data: 2\n\n", "data: [DONE]\n\n"}, ctx: own}
		c := &httpx.Client{Name: "test", Idle: 20 * time.Millisecond, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			context.AfterFunc(r.Context(), func() { ended(context.Cause(r.Context())) })
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body)}, nil
		})}
		err := c.Post(context.Background(), "http://vendor.test/", nil, nil, httpx.Handlers{Event: func(e sse.Event) (bool, error) {
			time.Sleep(100 * time.Millisecond)
			return e.IsDone(), nil
		}})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("endless keep-alives end at the deadline", func(t *testing.T) {
		pings := testkit.Reply{}
		for range 400 {
			pings.Chunks = append(pings.Chunks, testkit.Chunk{After: 5 * time.Millisecond, Data: ": ping\n\n"})
		}
		v := testkit.NewVendor(t, pings)
		_, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Idle, c.Timeout = 10*time.Second, 60*time.Millisecond })
		if !errors.Is(err, provider.Timeout) {
			t.Errorf("error = %v, want Timeout", err)
		}
	})
	t.Run("connection lost in the body", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: 1\n\n"}}, Cut: true})
		_, _, err := post(context.Background(), v, nil)
		if !errors.Is(err, provider.Transport) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("error = %v, want Transport with its cause", err)
		}
	})
	t.Run("no HTTP at all", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.Reply{Raw: "SSH-2.0-hello\r\n"})
		if _, _, err := post(context.Background(), v, nil); !errors.Is(err, provider.Transport) {
			t.Errorf("error = %v, want Transport", err)
		}
	})
	t.Run("an endless line", func(t *testing.T) {
		v := testkit.NewVendor(t, testkit.Pieces("data: "+strings.Repeat("x", 1<<16), 1<<12))
		_, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Limits.Line = 1 << 14 })
		if !errors.Is(err, provider.Malformed) || !strings.Contains(err.Error(), "line") {
			t.Errorf("error = %v, want Malformed with the line limit", err)
		}
	})
	t.Run("an address that cannot be one", func(t *testing.T) {
		c := &httpx.Client{Name: "test"}
		var ce *provider.ConfigError
		if err := c.Post(context.Background(), "http://a b/", nil, nil, httpx.Handlers{}); !errors.As(err, &ce) {
			t.Errorf("error = %v, want a ConfigError", err)
		}
	})
}

func TestTheCallersEndIsNoFailureOfTheProvider(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reply testkit.Reply
	}{
		{"before the head", testkit.Reply{Deaf: true}},
		{"in the stream", testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: 1\n\n"}}, Hang: true}},
		{"in the body of a failure", testkit.Reply{Status: 500, Chunks: []testkit.Chunk{{Data: "x"}}, Hang: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cause := errors.New("the user left")
			ctx, cancel := context.WithCancelCause(context.Background())
			v := testkit.NewVendorFunc(t, func(int, testkit.Asked) testkit.Reply {
				time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
				return tc.reply
			})
			_, _, err := post(ctx, v, nil)
			if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
				t.Errorf("error = %v, want context.Canceled and the cause", err)
			}
			if _, ok := provider.AsError(err); ok {
				t.Errorf("error = %v is a provider's", err)
			}
		})
	}
	t.Run("the sink ends it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		v := testkit.NewVendor(t, testkit.Stream("1", "2", "3", "[DONE]"))
		c := &httpx.Client{Name: "test", Transport: v.Transport()}
		n := 0
		err := c.Post(ctx, v.URL, nil, nil, httpx.Handlers{Event: func(sse.Event) (bool, error) { n++; cancel(); return false, nil }})
		if !errors.Is(err, context.Canceled) || n != 1 {
			t.Errorf("error = %v after %d events, want context.Canceled after one", err, n)
		}
	})
	t.Run("its deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, _, err := post(ctx, testkit.NewVendor(t, testkit.Reply{Deaf: true}), nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error = %v, want context.DeadlineExceeded", err)
		}
	})
}

func TestAServerThatKeepsTheConnectionOpen(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Reply{Chunks: []testkit.Chunk{{Data: "data: 1\n\ndata: [DONE]\n"}}, Hang: true})
	events, _, err := post(context.Background(), v, nil) // would end at the deadline of ten minutes
	if err != nil || len(events) != 2 {
		t.Errorf("events %v, error = %v", events, err)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Stream("1", "[DONE]"), testkit.Stream("1", "[DONE]"))
	tr := &countingTransport{Transport: http.Transport{DisableCompression: true}}
	defer tr.CloseIdleConnections()
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		tr.dials++
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	for range 2 {
		if _, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Transport = tr }); err != nil {
			t.Fatal(err)
		}
	}
	if tr.dials != 1 {
		t.Errorf("dialled %d times, want once", tr.dials)
	}
}

type countingTransport struct {
	http.Transport
	dials int
}

func TestDocumentsAreTold(t *testing.T) {
	for _, tc := range []struct {
		name, contentType, body string
		events                  int
		doc                     string
	}{
		{"JSON by type", "application/json", `{"a":1}`, 0, `{"a":1}`},
		{"JSON under the type of a stream", "text/event-stream", " \n{\"a\":1}", 0, " \n{\"a\":1}"},
		{"an array under the type of a stream", "text/event-stream", `[{"error":{}}]`, 0, `[{"error":{}}]`},
		{"a page", "text/html", "<html>", 0, "<html>"},
		{"a page under the type of a stream", "text/event-stream", "<html>", 0, "<html>"},
		{"a stream under the type of JSON", "application/json", "data: 1\n\ndata: [DONE]\n\n", 2, ""},
		{"a stream behind a mark and a comment", "text/plain", "\xef\xbb\xbf: hi\n\ndata: 1\n\n", 1, ""},
		{"nothing", "text/event-stream", "", 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := testkit.NewVendor(t, testkit.Reply{Header: http.Header{"Content-Type": {tc.contentType}}, Chunks: []testkit.Chunk{{Data: tc.body}}})
			events, doc, err := post(context.Background(), v, nil)
			if err != nil || len(events) != tc.events || doc != tc.doc {
				t.Errorf("events %v, document %q, error %v", events, doc, err)
			}
		})
	}
}

func TestUnaskedCompression(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	fmt.Fprint(z, "data: \"é\"\n\ndata: [DONE]\n\n")
	z.Close()
	reply := func(enc, body string) testkit.Reply {
		return testkit.Reply{Header: http.Header{"Content-Encoding": {enc}}, Chunks: []testkit.Chunk{{Data: body}}}
	}
	t.Run("gzip is undone", func(t *testing.T) {
		events, _, err := post(context.Background(), testkit.NewVendor(t, reply("gzip", b.String())), nil)
		if err != nil || len(events) != 2 || events[0] != `"é"` {
			t.Errorf("events %q, error %v", events, err)
		}
	})
	t.Run("anything else is named", func(t *testing.T) {
		_, _, err := post(context.Background(), testkit.NewVendor(t, reply("br", "\x0b\x02\x80")), nil)
		if !errors.Is(err, provider.Malformed) || !strings.Contains(err.Error(), `"br"`) {
			t.Errorf("error = %v, want Malformed naming br", err)
		}
	})
	t.Run("a bomb is bounded", func(t *testing.T) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		for range 64 {
			fmt.Fprint(z, strings.Repeat(": ping\n", 1<<13))
		}
		z.Close()
		_, _, err := post(context.Background(), testkit.NewVendor(t, reply("gzip", b.String())), func(c *httpx.Client) { c.Limits.Stream = 1 << 20 })
		if !errors.Is(err, provider.Malformed) {
			t.Errorf("error = %v, want Malformed", err)
		}
	})
}

func TestErrorBodiesAreBounded(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Status(500, strings.Repeat("é", 5<<20)))
	_, _, err := post(context.Background(), v, nil)
	e, ok := provider.AsError(err)
	if !ok || len(e.Message) > 8<<10 || !strings.HasSuffix(e.Message, "é...") {
		t.Errorf("message of %d bytes ending %q", len(e.Message), e.Message[max(0, len(e.Message)-8):])
	}
}

// endless is a body without an end that counts what was read of it.
type endless struct{ read *int }

func (e endless) Read(p []byte) (int, error) {
	*e.read += copy(p, bytes.Repeat([]byte("x"), len(p)))
	return len(p), nil
}

func (endless) Close() error { return nil }

func TestOfALongFailureLittleIsRead(t *testing.T) {
	read := 0
	c := &httpx.Client{Name: "test", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 500, Header: http.Header{}, Body: endless{&read}, Request: r}, nil
	})}
	err := c.Post(context.Background(), "http://127.0.0.1/", nil, nil, httpx.Handlers{})
	if !errors.Is(err, provider.Server) || read > 128<<10 {
		t.Errorf("%d bytes were read: %v", read, err)
	}
}

// A compressed stream comes in blocks, which holds deltas back; a model may think for
// minutes before the first byte, which no other clock than the request's may end; and
// a connection that died meanwhile is found by pings.
func TestTheSharedTransportSuitsSlowStreams(t *testing.T) {
	v := testkit.NewVendor(t, testkit.Stream("[DONE]"))
	tr := httpx.NewTransport()
	t.Cleanup(tr.CloseIdleConnections)
	if _, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Transport = tr }); err != nil {
		t.Fatal(err)
	}
	if got := v.Asked()[0].Header.Get("Accept-Encoding"); got != "" {
		t.Errorf("a compression is asked for: %q", got)
	}
	if tr.ResponseHeaderTimeout != 0 || !tr.ForceAttemptHTTP2 || tr.HTTP2 == nil || tr.HTTP2.SendPingTimeout <= 0 || tr.HTTP2.PingTimeout <= 0 || tr.MaxIdleConnsPerHost < 16 {
		t.Errorf("headers within %s, HTTP/2 %v with %+v, %d idle connections", tr.ResponseHeaderTimeout, tr.ForceAttemptHTTP2, tr.HTTP2, tr.MaxIdleConnsPerHost)
	}
	if tls := tr.TLSClientConfig; tls != nil && tls.InsecureSkipVerify {
		t.Error("certificates are not verified")
	}
}

func TestKeysNeverLeave(t *testing.T) {
	echo := fmt.Sprintf(`{"error":{"message":"key %s refused; Authorization: Bearer %s; x-api-key: other-secret-value; see https://me:pw@host/?api_key=abcdef&x=1"}}`, key, key)
	for name, reply := range map[string]testkit.Reply{
		"in the body of a failure":   testkit.Status(401, echo),
		"in a header":                testkit.Status(400, "x", "Request-Id", "req-"+key),
		"behind a long body":         testkit.Status(500, strings.Repeat("x", 8<<10-8)+key),
		"in a broken connection":     {Deaf: true},
		"in a response without HTTP": {Raw: "HTTP/9 " + key + "\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := post(context.Background(), testkit.NewVendor(t, reply), func(c *httpx.Client) { c.Timeout = 300 * time.Millisecond })
			if err == nil {
				t.Fatal("no error")
			}
			shown := []string{}
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
				shown = append(shown, fmt.Sprintf(verb, err))
			}
			for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
				shown = append(shown, cause.Error())
			}
			for _, got := range shown {
				for _, secret := range []string{key, "sk-canary", "other-secret-value", "me:pw", "abcdef"} {
					if strings.Contains(got, secret) {
						t.Errorf("%q is shown: %s", secret, got)
					}
				}
			}
		})
	}
}

func TestReachable(t *testing.T) {
	for _, tc := range []struct {
		reply testkit.Reply
		want  bool
	}{
		{testkit.Document(`{"data":[]}`), true}, {testkit.Status(404, ""), true}, {testkit.Status(429, ""), true},
		{testkit.Status(200, "x", "Content-Encoding", "br"), true}, // it is there, whatever it says
		{testkit.Status(401, ""), false}, {testkit.Status(403, ""), false}, {testkit.Status(302, "", "Location", "/"), false},
		{testkit.Status(500, ""), false}, {testkit.Reply{Deaf: true}, false}, {testkit.Reply{Raw: "x"}, false},
	} {
		v := testkit.NewVendor(t, tc.reply)
		c := &httpx.Client{Name: "test", Transport: v.Transport()}
		got, err := c.Reachable(context.Background(), v.URL, nil, 100*time.Millisecond)
		if got != tc.want || (err == nil) != tc.want {
			t.Errorf("%+v: reachable = %v, %v; want %v", tc.reply, got, err, tc.want)
		}
	}
}

func TestAFailureIsToldThoughItsBodyDoesNotEnd(t *testing.T) {
	defer httpx.SetErrorPatience(20 * time.Millisecond)()
	v := testkit.NewVendor(t, testkit.Reply{Status: 503, Chunks: []testkit.Chunk{{Data: "down for"}}, Hang: true})
	_, _, err := post(context.Background(), v, func(c *httpx.Client) { c.Timeout = time.Minute })
	if e, ok := provider.AsError(err); !ok || e.Kind != provider.Server || e.Status != 503 || e.Message != "down for" {
		t.Errorf("error = %v, want the status and what was said", err)
	}
}

func TestTheIDOfARequestIsShortAndOneLine(t *testing.T) {
	for name, reply := range map[string]testkit.Reply{
		"of a head": testkit.Status(500, "x", "X-Request-Id", strings.Repeat("r", 4096)),
		"of a body": testkit.Status(500, `{"request_id":"a\nb`+strings.Repeat("r", 4096)+`"}`),
	} {
		_, _, err := post(context.Background(), testkit.NewVendor(t, reply), nil)
		e, ok := provider.AsError(err)
		if !ok || e.RequestID == "" || len(e.RequestID) > 200 || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %d bytes, %.80q", name, len(e.RequestID), e.RequestID)
		}
	}
}

func TestACutTextShowsNoPartOfAKey(t *testing.T) {
	secret := provider.NewSecret(key)
	for n := 8; n <= len(key); n++ {
		if got := httpx.Redact("refused "+key[:n]+"...", secret); got != "refused [redacted]..." {
			t.Errorf("cut behind %d bytes: %q", n, got)
		}
	}
	if got := httpx.Redact("sk-canary is a bird", secret); got != "sk-canary is a bird" {
		t.Errorf("a text that is not cut became %q", got)
	}
}

func TestAProxyThatCannotBeUsedIsNotQuoted(t *testing.T) {
	defer httpx.SetProxy(func(*http.Request) (*url.URL, error) {
		return nil, errors.New(`invalid proxy address "http://me:p/w-canary@proxy:3128"`)
	})()
	c := &httpx.Client{Name: "test"}
	for name, ask := range map[string]func() error{
		"post": func() error {
			return c.Post(context.Background(), "http://vendor.invalid/v1", nil, nil, httpx.Handlers{})
		},
		"get": func() error {
			_, err := c.Get(context.Background(), "http://vendor.invalid/v1", nil, time.Second, 1)
			return err
		},
	} {
		err := ask()
		var ce *provider.ConfigError
		if !errors.As(err, &ce) || !strings.Contains(err.Error(), "HTTPS_PROXY") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, want a ConfigError that names the variables", name, err)
		}
	}
}
