package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

// BenchmarkTunnel carries 100 MiB over the loopback through a tunnel of the proxy,
// over the time that the same takes without it.
func BenchmarkTunnel(b *testing.B) {
	const size = 100 << 20
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		chunk := make([]byte, 256<<10)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for left := size; left > 0; {
				n, err := c.Write(chunk[:min(left, len(chunk))])
				if err != nil {
					break
				}
				left -= n
			}
			_ = c.Close()
		}
	}()
	defer func() { _ = l.Close(); <-served }()
	p, err := Start(context.Background(), Config{Policy: policy.Permissive, AllowLocal: true})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	target := l.Addr().String()
	fetch := func(through bool) {
		addr := target
		if through {
			addr = p.Addr().String()
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		var from io.Reader = c
		if through {
			fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
			in := bufio.NewReader(c)
			if resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect}); err != nil || resp.StatusCode != http.StatusOK {
				b.Fatalf("%v, %v", resp, err)
			}
			from = in
		}
		if n, err := io.Copy(io.Discard, from); err != nil || n != size {
			b.Fatalf("%d bytes, %v", n, err)
		}
	}
	var took [2]time.Duration
	for b.Loop() {
		for i, through := range []bool{true, false} {
			began := time.Now()
			fetch(through)
			took[i] += time.Since(began)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.N)*size/(1<<20)/took[0].Seconds(), "MiB/s")
	b.ReportMetric(float64(b.N)*size/(1<<20)/took[1].Seconds(), "MiB/s-direct")
	b.ReportMetric(float64(took[0])/float64(took[1]), "x-direct-time")
}
