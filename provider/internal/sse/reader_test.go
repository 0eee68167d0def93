package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// cut serves s in pieces of n bytes.
type cut struct {
	s string
	n int
}

func (c *cut) Read(p []byte) (int, error) {
	if c.s == "" {
		return 0, io.EOF
	}
	n := copy(p, c.s[:min(c.n, len(c.s))])
	c.s = c.s[n:]
	return n, nil
}

func readAll(src io.Reader, lim Limits) (events []string, names []string, err error) {
	r := NewReader(src, lim)
	for {
		e, err := r.Next()
		if err != nil {
			return events, names, err
		}
		events = append(events, string(e.Data))
		names = append(names, e.Name)
	}
}

func TestGrammar(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   string
		want []string
	}{
		{"line feeds", "data: {\"a\":1}\n\ndata: [DONE]\n\n", []string{`{"a":1}`, Done}},
		{"carriage return and line feed", "data: {\"a\":1}\r\n\r\ndata: 2\r\n\r\n", []string{`{"a":1}`, "2"}},
		{"lone carriage returns", "data: {\"a\":1}\r\rdata: 2\r\r", []string{`{"a":1}`, "2"}},
		{"mixed line ends", "data: 1\r\n\ndata: 2\n\r\ndata: 3\r\r\n", []string{"1", "2", "3"}},
		{"byte-order mark", "\xef\xbb\xbfdata: 1\n\n", []string{"1"}},
		{"a mark later is not a mark", "data: 1\n\n\xef\xbb\xbfdata: 2\n\n", []string{"1"}},
		{"no space behind the colon", "data:1\n\n", []string{"1"}},
		{"comments and unknown fields", ": OPENROUTER PROCESSING\n\nretry: 5\nid: 7\nwhat: ever\nnothing\ndata: 1\n\n: ping\n\n", []string{"1"}},
		{"a document on several lines", "data: {\"a\":\ndata: 1}\n\n", []string{"{\"a\":\n1}"}},
		{"two documents without a blank line", "data: {\"a\":1}\ndata: {\"a\":2}\n\n", []string{`{"a":1}`, `{"a":2}`}},
		{"document then end word without a blank line", "data: {\"a\":1}\ndata: [DONE]\n", []string{`{"a":1}`, Done}},
		{"empty data is nothing", "data:\n\ndata: \n\ndata\n\n", nil},
		{"rubbish is passed over", "data: hello\n\ndata: 1\n\n", []string{"1"}},
		{"rubbish then documents in one event", "data: {broken\ndata: 1\n\ndata: 2\n\n", []string{"2"}},
		{"end word without anything behind it", "data: [DONE]", []string{Done}},
		{"last event without its blank line", "data: 1\n\ndata: 2\n", []string{"1", "2"}},
		{"last line without its end, whole", "data: {\"a\":1}", []string{`{"a":1}`}},
		{"last line without its end, cut", "data: 1\n\ndata: {\"a\":\"b", []string{"1"}},
		{"last line cut inside a field name", "data: 1\n\ndat", []string{"1"}},
		{"a bare document between events", "data: 1\n\n{\"error\":{}}\ndata: 2\n\n", []string{"1", `{"error":{}}`, "2"}},
		{"a bare document at the end", "data: 1\n\n[{\"error\":{}}]", []string{"1", `[{"error":{}}]`}},
		{"page of something else", "<html>\n<body>data: no</body>\n</html>", nil},
		{"invalid text becomes the replacement character", "data: \"a\xffb\"\n\n", []string{"\"a\uFFFDb\""}},
		{"nothing", "", nil},
		{"blank lines only", "\n\n\r\n\r", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for n := 1; n <= len(tc.in)+1; n++ {
				got, _, err := readAll(&cut{tc.in, n}, Limits{})
				if err != io.EOF {
					t.Fatalf("in pieces of %d: error %v, want io.EOF", n, err)
				}
				if d := cmp.Diff(tc.want, got); d != "" {
					t.Fatalf("in pieces of %d (-want +got):\n%s", n, d)
				}
			}
		})
	}
}

func TestCharactersSurviveAnyCut(t *testing.T) {
	text := "é — 漢字 🙂 ﷽ Ω"
	b, _ := json.Marshal(map[string]string{"t": text})
	in := "data: " + string(b) + "\n\n"
	for n := 1; n <= len(in); n++ {
		got, _, _ := readAll(&cut{in, n}, Limits{})
		var v map[string]string
		if len(got) != 1 || json.Unmarshal([]byte(got[0]), &v) != nil || v["t"] != text {
			t.Fatalf("in pieces of %d: %q, want the text %q", n, got, text)
		}
	}
}

func TestNamesBelongToTheirEvent(t *testing.T) {
	in := "event: a\ndata: 1\n\ndata: 2\n\nevent: lost\n\ndata: 3\n\nevent: b\ndata: 4\ndata: 5\n\n"
	_, names, _ := readAll(strings.NewReader(in), Limits{})
	if want := []string{"a", "", "", "b", ""}; !slices.Equal(names, want) {
		t.Errorf("names = %q, want %q", names, want)
	}
}

func TestAnEventIsThereBeforeTheNextByte(t *testing.T) {
	pr, pw := io.Pipe()
	r := NewReader(pr, Limits{})
	for _, in := range []string{"data: 1\n\n", "data: 2\r\r", "data: 3\r\n\r\n", "data: [DONE]\n"} {
		go pw.Write([]byte(in))
		if _, err := r.Next(); err != nil { // blocks for ever if the reader wants more
			t.Fatalf("%q: %v", in, err)
		}
	}
	pw.Close()
}

func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   io.Reader
		lim  Limits
		what string
	}{
		{"an endless line", io.MultiReader(strings.NewReader("data: "), zeros{}), Limits{Line: 1 << 16}, "line"},
		{"a long whole line", strings.NewReader("data: " + strings.Repeat("x", 100) + "\n"), Limits{Line: 50}, "line"},
		{"an endless event", &repeat{s: []byte("data: [\n")}, Limits{Event: 1 << 12}, "event"},
		{"endless comments", &repeat{s: []byte(": ping\n")}, Limits{Stream: 1 << 16}, "stream"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, err := readAll(tc.in, tc.lim)
			var le *LimitError
			if !errors.As(err, &le) || le.What != tc.what {
				t.Errorf("error = %v, want the %s limit", err, tc.what)
			}
		})
	}
}

func TestDeepNestingIsRubbishAndNoCrash(t *testing.T) {
	in := "data: " + strings.Repeat("[", 4<<20) + "\n\ndata: 1\n\n"
	got, _, err := readAll(strings.NewReader(in), Limits{})
	if err != io.EOF || !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %d events, %v; want only the one behind", len(got), err)
	}
}

func TestASourceErrorIsKept(t *testing.T) {
	broken := errors.New("connection reset")
	got, _, err := readAll(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2"), iotest.ErrReader(broken)), Limits{})
	if !errors.Is(err, broken) || !slices.Equal(got, []string{"1"}) {
		t.Errorf("got %q, %v; want the whole event and the source's error", got, err)
	}
}

func TestSkippedIsCounted(t *testing.T) {
	r := NewReader(strings.NewReader("data: x\n\ndata: {\n\ndata: 1\n\n"), Limits{})
	for {
		if _, err := r.Next(); err != nil {
			break
		}
	}
	if r.Skipped() != 2 {
		t.Errorf("skipped = %d, want 2", r.Skipped())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

type repeat struct{ s []byte }

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n+len(r.s) <= len(p) {
		n += copy(p[n:], r.s)
	}
	return n, nil
}

// strict is the standard's own algorithm on whole text, as an independent
// reading of input that keeps to the rules.
func strict(in string) []string {
	in = strings.TrimPrefix(in, "\xef\xbb\xbf")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	var out []string
	var data []string
	lines := strings.Split(in, "\n")
	for _, l := range lines[:len(lines)-1] {
		if l == "" {
			if joined := strings.Join(data, "\n"); strings.TrimSpace(joined) != "" {
				out = append(out, joined)
			}
			data = nil
			continue
		}
		f, v, _ := strings.Cut(l, ":")
		if f == "data" {
			data = append(data, strings.TrimPrefix(v, " "))
		}
	}
	return out
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"data: {\"a\":1}\n\ndata: [DONE]\n\n", "\xef\xbb\xbfdata:1\r\r", ": c\r\nevent: x\r\ndata: 1\r\n\r\n",
		"data: {\ndata: }\n\n", "data: 1\ndata: 2\n", "{\"error\":1}\n", "data: \"\xc3", "event\n\n\n",
	} {
		f.Add(s, uint8(1))
	}
	f.Fuzz(func(t *testing.T, in string, step uint8) {
		lim := Limits{Line: 1 << 12, Event: 1 << 13, Stream: 1 << 14}
		whole, _, err1 := readAll(strings.NewReader(in), lim)
		parts, _, err2 := readAll(&cut{in, int(step) + 1}, lim)
		if (err1 == io.EOF) != (err2 == io.EOF) {
			t.Fatalf("whole ended with %v, in pieces with %v", err1, err2)
		}
		if err1 == io.EOF && !slices.Equal(whole, parts) {
			t.Fatalf("whole %q, in pieces %q", whole, parts)
		}
		for _, e := range whole {
			if e != Done && !json.Valid([]byte(e)) {
				t.Fatalf("payload %q is neither JSON nor the end word", e)
			}
		}
		// Every payload of an input that keeps to the rules must be here, in
		// order: leniency adds, it never loses.
		if err1 != io.EOF {
			return
		}
		at := 0
		for _, e := range strict(in) {
			p := bytes.ToValidUTF8(bytes.TrimSpace([]byte(e)), []byte("\uFFFD"))
			if !usable(p) {
				continue
			}
			i := slices.Index(whole[at:], string(p))
			if i < 0 {
				t.Fatalf("payload %q is missing from %q", p, whole)
			}
			at += i + 1
		}
	})
}
