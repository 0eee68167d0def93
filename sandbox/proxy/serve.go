package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strings"
	"sync"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

// serve answers one client connection, which carries one request or one tunnel.
func (p *Proxy) serve(ctx context.Context, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(HeadTimeout))
	in := bufio.NewReaderSize(c, MaxHead)
	head, err := readHead(in)
	if err != nil {
		answer(c, &refusal{400, err.Error()})
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	method, target, err := requestLine(head)
	if err != nil {
		answer(c, &refusal{400, err.Error()})
		return
	}
	if !p.known(head) {
		answer(c, &refusal{407, "this proxy is for the commands of one run, which have its login in their environment"})
		return
	}
	if method == http.MethodConnect {
		p.tunnel(ctx, c, in, target)
		return
	}
	p.forward(ctx, c, in, head, target)
}

// readHead reads up to and including the empty line that ends a head. It gives
// up at the first byte that cannot begin a method, so that a client that speaks
// another protocol is told at once.
func readHead(in *bufio.Reader) ([]byte, error) {
	if first, err := in.Peek(1); err == nil && !isToken(first[0]) {
		return nil, errors.New("this is an HTTP proxy")
	}
	var head []byte
	for {
		line, err := in.ReadSlice('\n')
		head = append(head, line...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull), len(head) > MaxHead:
			return nil, fmt.Errorf("the head of the request is longer than %d bytes", MaxHead)
		case err != nil:
			return nil, errors.New("the head of the request did not come")
		}
		if text := strings.TrimRight(string(line), "\r\n"); text == "" && len(head) > len(line) {
			return head, nil
		}
	}
}

func isToken(b byte) bool {
	return b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z'
}

// known reports whether a head carries the login that the proxy demands, exactly
// once. How long it takes tells nothing about the token.
func (p *Proxy) known(head []byte) bool {
	if p.cfg.Token == "" {
		return true
	}
	_, fields, _ := bytes.Cut(head, []byte("\n"))
	header, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(fields))).ReadMIMEHeader()
	if err != nil || len(header["Proxy-Authorization"]) != 1 {
		return false
	}
	scheme, login, _ := strings.Cut(header["Proxy-Authorization"][0], " ")
	given, err := base64.StdEncoding.DecodeString(strings.TrimSpace(login))
	if err != nil || !strings.EqualFold(scheme, "Basic") {
		return false
	}
	got, want := sha256.Sum256(given), sha256.Sum256([]byte(p.cfg.User+":"+p.cfg.Token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// requestLine takes the first line apart. It is strict: a line that two readers
// could read in two ways is refused.
func requestLine(head []byte) (method, target string, err error) {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	parts := strings.Split(strings.TrimSuffix(string(line), "\r"), " ")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || strings.ContainsAny(parts[1], "\r\t\v\f") || !strings.HasPrefix(parts[2], "HTTP/1.") {
		return "", "", errors.New("the request line is not METHOD TARGET HTTP/1.x")
	}
	for i := range len(parts[0]) {
		if !isToken(parts[0][i]) {
			return "", "", errors.New("the method is not a word")
		}
	}
	return parts[0], parts[1], nil
}

// tunnel serves CONNECT host:port.
func (p *Proxy) tunnel(ctx context.Context, c net.Conn, in *bufio.Reader, asked string) {
	if strings.ContainsAny(asked, "/@?#\\") {
		answer(c, &refusal{400, "CONNECT takes host:port"})
		return
	}
	target, ok := policy.HostTarget(asked)
	up, no := p.connect(ctx, asked, target, ok)
	if no != nil {
		answer(c, no)
		return
	}
	if !p.hold(up) {
		return
	}
	defer p.drop(up)
	if _, err := io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { pipe(up, in) })
	both.Go(func() { pipe(c, up) })
	both.Wait()
}

// pipe copies until from ends and then says so to the other side, which may go
// on sending.
func pipe(to net.Conn, from io.Reader) {
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close() // broken, not ended
		return
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
}

// forward serves one request in absolute form.
func (p *Proxy) forward(ctx context.Context, c net.Conn, in *bufio.Reader, head []byte, asked string) {
	if len(asked) < len("http://") || !strings.EqualFold(asked[:len("http://")], "http://") {
		answer(c, &refusal{400, "this proxy takes CONNECT host:port and http:// URLs in full"})
		return
	}
	target, ok := policy.NetTarget(asked)
	req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), in)))
	if err != nil {
		// The judged text may still be a sound target; without a sound request
		// around it nothing is dialled.
		answer(c, &refusal{400, "the request cannot be read"})
		return
	}
	up, no := p.connect(ctx, withoutPath(asked), target, ok)
	if no != nil {
		answer(c, no)
		return
	}
	if !p.hold(up) {
		return
	}
	defer p.drop(up)
	readdress(req, target)
	var sent sync.WaitGroup
	sent.Go(func() { _ = req.Write(up) })
	resp, err := finalResponse(bufio.NewReader(up), req)
	if err != nil {
		answer(c, &refusal{502, target + " gave no sound answer"})
	} else {
		resp.Close = true
		_ = resp.Write(c)
		_ = resp.Body.Close()
	}
	// A server may answer before it has read the body; closing both ends stops
	// the sender.
	_ = up.Close()
	_ = c.Close()
	sent.Wait()
}

// maxInterim is how many interim answers a server may send before its own.
const maxInterim = 8

// finalResponse reads the answer to req and passes over the interim ones, such as
// early hints, which tell nothing that the client could not do without.
func finalResponse(from *bufio.Reader, req *http.Request) (*http.Response, error) {
	for range maxInterim + 1 {
		resp, err := http.ReadResponse(from, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, errors.New("interim answers and no other")
}

// readdress makes req what the server gets: the host that was judged, one
// request, and nothing that was meant for the proxy.
func readdress(req *http.Request, target string) {
	req.Host = strings.TrimSuffix(target, ":80")
	req.URL.User = nil
	req.URL.Host = req.Host
	for _, name := range append(strings.Split(req.Header.Get("Connection"), ","), "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect") {
		req.Header.Del(strings.TrimSpace(name))
	}
	for name := range req.Header {
		if strings.HasPrefix(http.CanonicalHeaderKey(name), "Proxy-") {
			req.Header.Del(name)
		}
	}
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = nil // do not add one
	}
	req.Close = true
}

// withoutPath is the part of a URL that a record may hold.
func withoutPath(url string) string {
	rest := url[len("http://"):]
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return rest
}

// answer writes a status and one line of text, and no more will come.
func answer(c net.Conn, r *refusal) {
	_ = c.SetWriteDeadline(time.Now().Add(HeadTimeout))
	body := r.text + "\n"
	extra := ""
	if r.status == http.StatusProxyAuthRequired {
		extra = "Proxy-Authenticate: Basic realm=\"run\"\r\n"
	}
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\n%sContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		r.status, http.StatusText(r.status), extra, len(body), body)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		// Let the client read the answer although it may still be sending.
		_ = half.CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.CopyN(io.Discard, c, 64<<10)
	}
}
