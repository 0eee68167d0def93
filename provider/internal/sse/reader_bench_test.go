package sse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// benchStream is a stream of n events as a vendor of Chat Completions sends them.
func benchStream(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "data: {\"id\":\"chatcmpl-%d\",\"object\":\"chat.completion.chunk\",\"created\":1764000000,\"model\":\"vendor/model\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"},\"finish_reason\":null}]}\n\n", i, strings.Repeat("wörd ", 4))
	}
	b.WriteString("data: [DONE]\n\n")
	return b.Bytes()
}

// BenchmarkReader reads a stream, and beside it in the same run what cannot be
// done without: finding the lines of the same bytes, and checking that each
// payload is JSON. The ratios are how many times as long the reader takes.
func BenchmarkReader(b *testing.B) {
	const events = 10_000
	stream := benchStream(events)
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	var lines, checks, whole time.Duration
	for b.Loop() {
		began := time.Now()
		scan(b, stream, func([]byte) bool { return true })
		lines += time.Since(began)

		began = time.Now()
		scan(b, stream, json.Valid)
		checks += time.Since(began)

		began = time.Now()
		r, n := NewReader(bytes.NewReader(stream), Limits{}), 0
		for {
			_, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != events+1 {
			b.Fatalf("%d events", n)
		}
		whole += time.Since(began)
	}
	b.ReportMetric(float64(len(stream))*float64(b.N)/whole.Seconds()/1e6, "reader-MB/s")
	b.ReportMetric(whole.Seconds()/lines.Seconds(), "x-line-scan")
	b.ReportMetric(whole.Seconds()/checks.Seconds(), "x-scan-and-check")
	b.ReportMetric(testing.AllocsPerRun(3, func() {
		for r := NewReader(bytes.NewReader(stream), Limits{}); ; {
			if _, err := r.Next(); err != nil {
				return
			}
		}
	})/events, "allocs/event")
}

func scan(b *testing.B, stream []byte, check func([]byte) bool) {
	s := bufio.NewScanner(bytes.NewReader(stream))
	s.Buffer(make([]byte, 64<<10), 1<<20)
	for s.Scan() {
		if data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: ")); ok && string(data) != Done && !check(data) {
			b.Fatal("not JSON")
		}
	}
}
