package httpx

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/internal/buildinfo"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/sse"
	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

const (
	maxErrorBody  = 64 << 10 // read of the body of a failure
	maxErrorText  = 8 << 10  // kept of it
	maxRequestID  = 200      // of the vendor's id of a request
	drainBytes    = 16 << 10 // read behind the end of a stream, so that its connection can be used again
	drainPatience = 50 * time.Millisecond
)

// errorPatience is how long the body of a failure may take. It is a variable for
// the tests.
var errorPatience = 10 * time.Second

var userAgent = "io-harness-go/" + buildinfo.Version()

var (
	errDeadline = errors.New("the deadline of the request passed")
	errIdle     = errors.New("the stream was silent too long")
	errDrained  = errors.New("enough was read")
)

// A Client asks one vendor. Its fields are set before the first use; it is
// safe for concurrent use.
type Client struct {
	Name      string            // of the provider, for errors
	Secrets   []provider.Secret // masked in every error
	Transport http.RoundTripper // nil: the transport that the providers of a process share
	Timeout   time.Duration     // of one request, connecting and the whole body; 0: provider.RequestTimeout
	Idle      time.Duration     // longest silence behind the first byte of a body; 0: none
	Limits    sse.Limits
}

// Handlers read a successful answer.
type Handlers struct {
	// Event gets each payload of a stream, and says when the stream is over.
	Event func(sse.Event) (stop bool, err error)
	// Whole reports whether the payloads so far are a whole answer: that the connection
	// then breaks, or falls silent, is no failure. nil: they never are.
	Whole func() bool
	// Document gets the whole answer of a server that did not stream.
	Document func([]byte) error
}

// shared is the transport of all providers of the process: HTTP/2 with pings,
// so that a dead connection is noticed under a model that thinks for minutes;
// no timeout for headers for the same reason; no compression, which would hold
// deltas back.
var shared = sync.OnceValue(NewTransport)

// NewTransport makes a transport as the providers use it. Environment proxies
// are honoured; an egress policy judges the target, not the proxy.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 func(r *http.Request) (*url.URL, error) { return proxyFor(r) },
		DialContext:           dial,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		MaxIdleConns:          64,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true,
	}
}

func (c *Client) http() *http.Client {
	t := c.Transport
	if t == nil {
		t = shared()
	}
	return &http.Client{
		Transport: t,
		// Following one could reach a host that nobody authorised.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Post sends body and reads the answer with h. Errors of h pass through, those
// of the library's own types named and masked.
func (c *Client) Post(ctx context.Context, target string, header http.Header, body []byte, h Handlers) error {
	own, cancel := c.deadline(ctx, c.Timeout, provider.RequestTimeout)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(own, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return c.badTarget(err)
	}
	if req, err = c.proxied(req); err != nil {
		return err
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.http().Do(req)
	if err != nil {
		return c.transport(ctx, own, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.failed(ctx, cancel, resp)
	}
	return c.read(ctx, own, cancel, resp, h)
}

// Get reads a document of at most most bytes. timeout 0 means that of the
// client.
func (c *Client) Get(ctx context.Context, target string, header http.Header, timeout time.Duration, most int64) ([]byte, error) {
	own, cancel := c.deadline(ctx, timeout, c.Timeout, provider.RequestTimeout)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(own, http.MethodGet, target, nil)
	if err != nil {
		return nil, c.badTarget(err)
	}
	if req, err = c.proxied(req); err != nil {
		return nil, err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", userAgent)
	resp, err := c.http().Do(req)
	if err != nil {
		return nil, c.transport(ctx, own, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, c.failed(ctx, cancel, resp)
	}
	src, err := decoded(resp)
	if err != nil {
		return nil, c.Named(err)
	}
	b, err := io.ReadAll(io.LimitReader(src, most+1))
	if err != nil {
		return nil, c.transport(ctx, own, err)
	}
	if int64(len(b)) > most {
		return nil, c.Named(&provider.Error{Kind: provider.Malformed, Message: fmt.Sprintf("the answer is longer than %d bytes", most)})
	}
	return b, nil
}

// proxyFor is a variable for the tests: what the environment says is read once.
var proxyFor = http.ProxyFromEnvironment

// proxied takes the check of addresses out of a request that goes through a proxy
// of the environment: the address dialled is then the proxy's. A proxy that has no
// address is not quoted, since there may be a password in it.
func (c *Client) proxied(req *http.Request) (*http.Request, error) {
	via, err := proxyFor(req)
	switch {
	case err != nil && c.Transport == nil:
		return nil, &provider.ConfigError{Provider: c.Name, Message: "the proxy that the environment names cannot be used: mend the address in HTTP_PROXY or HTTPS_PROXY, or leave this host out by NO_PROXY"}
	case err == nil && via != nil:
		return req.WithContext(provider.WithDialCheck(req.Context(), nil)), nil
	}
	return req, nil
}

// deadline derives the context of one request; the first positive duration
// counts.
func (c *Client) deadline(ctx context.Context, choices ...time.Duration) (context.Context, context.CancelCauseFunc) {
	for _, d := range choices {
		if d > 0 {
			timed, stop := context.WithTimeoutCause(ctx, d, errDeadline)
			own, cancel := context.WithCancelCause(timed)
			return own, func(cause error) { cancel(cause); stop() }
		}
	}
	return context.WithCancelCause(ctx)
}

func (c *Client) read(ctx, own context.Context, cancel context.CancelCauseFunc, resp *http.Response, h Handlers) error {
	src, err := decoded(resp)
	if err != nil {
		return c.Named(err)
	}
	watched := &idleReader{src: src, idle: c.Idle, cancel: cancel}
	defer watched.stop()
	buffered := bufio.NewReader(watched)
	if isDocument(buffered, resp.Header.Get("Content-Type")) {
		b, err := c.document(ctx, own, buffered)
		if err != nil {
			return err
		}
		if !linesOf(b) {
			return c.identified(h.Document(b), resp)
		}
		buffered = bufio.NewReader(bytes.NewReader(b))
	}
	events := sse.NewReader(buffered, c.Limits)
	for {
		e, err := events.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			if ctx.Err() == nil && h.Whole != nil && h.Whole() {
				return nil // it is paid for, and would be bought again
			}
			return c.transport(ctx, own, err)
		}
		stop, err := h.Event(e)
		if err != nil {
			return c.identified(err, resp)
		}
		if stop {
			drain(buffered, cancel)
			return nil
		}
		if ctx.Err() != nil { // the sink may have ended the caller's context
			return c.cancelled(ctx)
		}
	}
}

func (c *Client) document(ctx, own context.Context, src io.Reader) ([]byte, error) {
	most := c.Limits.Stream
	if most <= 0 {
		most = sse.DefaultStream
	}
	b, err := io.ReadAll(io.LimitReader(src, most+1))
	if err != nil {
		return nil, c.transport(ctx, own, err)
	}
	if int64(len(b)) > most {
		return nil, c.transport(ctx, own, &sse.LimitError{What: "answer", Limit: most})
	}
	return b, nil
}

// isDocument reports whether the server answered with one document instead of a
// stream. The first byte decides where it can: some servers stream under the
// wrong type, and some proxies put an error document or a page under the right
// one.
func isDocument(r *bufio.Reader, contentType string) bool {
	for n := 1; n <= r.Size(); n++ {
		b, err := r.Peek(n)
		if err != nil || len(b) < n {
			break
		}
		switch b[n-1] {
		case ' ', '\t', '\r', '\n', 0xef, 0xbb, 0xbf:
			continue
		case '{', '[', '<':
			return true
		case 'd', 'e', ':', 'i', 'r':
			return false
		}
		break
	}
	return strings.Contains(contentType, "json") || strings.Contains(contentType, "html")
}

// linesOf reports whether what began like a document is a stream of lines, the first
// of them a document: some gateways write an error so, in front of the end.
func linesOf(b []byte) bool {
	first, _, more := bytes.Cut(bytes.TrimLeft(b, "\xef\xbb\xbf \t\r\n"), []byte("\n"))
	return more && json.Valid(first) && !json.Valid(b)
}

// decoded undoes a compression that nobody asked for. gzip is undone; anything
// else is named, because shown as it is it would be rubbish.
func decoded(resp *http.Response) (io.Reader, error) {
	switch enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		return &lazyGzip{src: resp.Body}, nil
	default:
		return nil, &provider.Error{Kind: provider.Malformed, Message: fmt.Sprintf("the answer is compressed with %q, which was not asked for and is not read", enc)}
	}
}

// lazyGzip reads the header of the compressed stream on the first Read, where
// the deadline and the watch for silence already hold.
type lazyGzip struct {
	src io.Reader
	z   *gzip.Reader
}

func (l *lazyGzip) Read(p []byte) (int, error) {
	if l.z == nil {
		z, err := gzip.NewReader(l.src)
		if err != nil {
			return 0, err
		}
		l.z = z
	}
	return l.z.Read(p)
}

// drain reads what little may follow the end of a stream, for no longer than
// drainPatience: a server that keeps the connection open must not hold the
// answer back.
func drain(r io.Reader, cancel context.CancelCauseFunc) {
	timer := time.AfterFunc(drainPatience, func() { cancel(errDrained) })
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, r, drainBytes)
}

// idleReader ends a request whose body has begun and then gone silent. Only waiting
// for the server counts: whoever reads may take his time with what has come.
type idleReader struct {
	src    io.Reader
	idle   time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func (r *idleReader) Read(p []byte) (int, error) {
	if r.timer != nil {
		r.timer.Reset(r.idle)
	}
	n, err := r.src.Read(p)
	if r.timer == nil && n > 0 && r.idle > 0 {
		r.timer = time.AfterFunc(r.idle, func() { r.cancel(errIdle) })
	}
	r.stop()
	return n, err
}

func (r *idleReader) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}

func (c *Client) badTarget(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return &provider.ConfigError{Provider: c.Name, Message: Redact("the address cannot be used: "+err.Error(), c.Secrets...)}
}

// transport classifies an exchange that broke: by the caller's own context, by
// this request's deadline, by silence, by a limit, or for another reason.
func (c *Client) transport(ctx, own context.Context, err error) error {
	if ctx.Err() != nil {
		return c.cancelled(ctx)
	}
	var refused *refusedDial
	if errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", c.Name, refused.err)
	}
	var limit *sse.LimitError
	if errors.As(err, &limit) {
		return c.Named(&provider.Error{Kind: provider.Malformed, Message: limit.Error(), Err: limit})
	}
	switch cause := context.Cause(own); {
	case errors.Is(cause, errDeadline), errors.Is(cause, errIdle):
		return c.Named(&provider.Error{Kind: provider.Timeout, Message: cause.Error()})
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return c.Named(&provider.Error{Kind: provider.Transport, Message: "the exchange broke: " + err.Error(), Err: err})
}

// cancelled is the caller's own ending: never a failure of the provider.
func (c *Client) cancelled(ctx context.Context) error {
	return &provider.Interrupted{Provider: c.Name, Err: Ended(ctx)}
}

// Ended is why ctx ended: its own error, and the cause beside it where there is a
// particular one.
func Ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return errors.Join(ctx.Err(), cause)
	}
	return ctx.Err()
}

// failed reads the answer of a request that did not succeed. Its status is known
// and says the most, so that a body that does not end is not waited for.
func (c *Client) failed(ctx context.Context, cancel context.CancelCauseFunc, resp *http.Response) error {
	e := &provider.Error{
		Status:     resp.StatusCode,
		RetryAfter: RetryAfter(resp.Header, time.Now()),
		RequestID:  requestID(resp.Header),
	}
	var body []byte
	if src, err := decoded(resp); err == nil {
		timer := time.AfterFunc(errorPatience, func() { cancel(errDrained) })
		defer timer.Stop()
		// What came before the connection broke still explains more than the
		// break does: the status is known.
		body, _ = io.ReadAll(io.LimitReader(src, maxErrorBody))
	}
	if ctx.Err() != nil {
		return c.cancelled(ctx)
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(body), "\uFFFD"))
	if e.RequestID == "" && gjson.Valid(text) {
		e.RequestID = gjson.Get(text, "request_id").String()
	}
	if text == "" {
		if text = http.StatusText(resp.StatusCode); text == "" {
			text = "no reason given"
		}
	}
	e.Message, e.Kind = text, wire.StatusKind(resp.StatusCode, text)
	return c.Named(e)
}

// identified is Named for a failure inside of a success, whose id may stand in
// the head of the answer only.
func (c *Client) identified(err error, resp *http.Response) error {
	if e, ok := err.(*provider.Error); ok && e.RequestID == "" {
		n := *e
		n.RequestID = requestID(resp.Header)
		err = &n
	}
	return c.Named(err)
}

func requestID(h http.Header) string {
	if id := h.Get("Request-Id"); id != "" {
		return id
	}
	return h.Get("X-Request-Id")
}

// Metered puts what a call is known to have used until it ended into its error,
// which is the caller's own.
func Metered(err error, used *provider.Usage) {
	var i *provider.Interrupted
	if e, ok := provider.AsError(err); ok && e.Usage == nil {
		e.Usage = used
	} else if errors.As(err, &i) && i.Usage == nil {
		i.Usage = used
	}
}

// Named completes an error on its way out: who failed, and nothing secret in
// it. Errors of other types pass unchanged.
func (c *Client) Named(err error) error {
	switch e := err.(type) {
	case *provider.Error:
		n := *e
		if n.Provider == "" {
			n.Provider = c.Name
		}
		// Cut twice: what is inside of a success may be as long as an event, and
		// looking for secrets in it takes time.
		n.Message = shorten(Redact(shorten(n.Message, maxErrorBody), c.Secrets...), maxErrorText)
		n.RequestID = strings.Join(strings.Fields(Redact(shorten(n.RequestID, maxErrorText), c.Secrets...)), " ")
		n.RequestID = shorten(n.RequestID, maxRequestID)
		// Who walks down an error prints its cause too.
		if n.Err != nil && Redact(n.Err.Error(), c.Secrets...) != n.Err.Error() {
			n.Err = nil
		}
		return &n
	case *provider.ConfigError:
		n := *e
		if n.Provider == "" {
			n.Provider = c.Name
		}
		n.Message = Redact(n.Message, c.Secrets...)
		return &n
	}
	return err
}

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-3], "") + "..."
}
