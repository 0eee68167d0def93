package proxy

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

// A client that sends its head a byte at a time has the same time for all of it as
// any other.
func TestAHeadThatDoesNotComeIsNotWaitedFor(t *testing.T) {
	for name, text := range map[string]string{
		"nothing at all":      "",
		"a byte now and then": "GET http://docs.example/ HTTP/1.1\r\nX: " + strings.Repeat("x", 100),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				began := time.Now()
				p := &Proxy{cfg: Config{Policy: policy.Permissive}}
				var both sync.WaitGroup
				both.Go(func() {
					p.serve(t.Context(), server)
					_ = server.Close()
				})
				both.Go(func() {
					for i := range text {
						time.Sleep(time.Second)
						if _, err := io.WriteString(client, text[i:i+1]); err != nil {
							return
						}
					}
				})
				got, err := io.ReadAll(client)
				if err != nil || !strings.HasPrefix(string(got), "HTTP/1.1 400 ") {
					t.Errorf("got %q, %v", got, err)
				}
				if took := time.Since(began); took != HeadTimeout {
					t.Errorf("waited %s of the bubble's time, want %s", took, HeadTimeout)
				}
				both.Wait()
			})
		})
	}
}

// What a request is judged and recorded as, where its text leaves something out or
// says it in another way.
func TestWhatATargetIsRecordedAs(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"absolute without a port", "GET http://docs.example/x HTTP/1.1\r\nHost: liar.test\r\n\r\n", "docs.example:80"},
		{"absolute with a port", "GET http://docs.example:8080/x HTTP/1.1\r\n\r\n", "docs.example:8080"},
		{"absolute with a user name", "GET http://a:b@docs.example/ HTTP/1.1\r\n\r\n", "docs.example:80"},
		{"tunnel", "CONNECT DOCS.example.:443 HTTP/1.1\r\n\r\n", "docs.example:443"},
		{"tunnel to an address of version 6", "CONNECT [2001:DB8:0::1]:443 HTTP/1.1\r\n\r\n", "[2001:db8::1]:443"},
		{"absolute with an address of version 6", "GET http://[2001:db8::1]/ HTTP/1.1\r\n\r\n", "[2001:db8::1]:80"},
		{"an address of version 4 inside one of version 6", "CONNECT [::ffff:192.0.2.7]:443 HTTP/1.1\r\n\r\n", "192.0.2.7:443"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, denyAll(), nil)
			got := w.say(t, tc.text)
			if !strings.HasPrefix(got, "HTTP/1.1 403") || !strings.Contains(got, tc.want) {
				t.Errorf("answer %q, want a refusal of %s", got, tc.want)
			}
			if len(w.dials) != 1 || w.dials[0].Target != tc.want || w.dials[0].Allowed {
				t.Errorf("recorded %+v, want %s", w.dials, tc.want)
			}
		})
	}
}
