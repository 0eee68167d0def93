package sandbox

import (
	"bytes"
	"encoding/base64"
	"io"
	"strings"
)

// ProxyUser is the user name that goes with an [Egress.ProxyToken].
const ProxyUser = "run"

// ProxyToken is the password of a proxy. Every rendering of it but
// a conversion to string is a placeholder, so that it gets into no log.
type ProxyToken string

// String is a placeholder, or nothing where there is no token.
func (t ProxyToken) String() string {
	if t == "" {
		return ""
	}
	return "[token]"
}

// GoString is String.
func (t ProxyToken) GoString() string { return t.String() }

// MarshalText is String.
func (t ProxyToken) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// valid reports whether t can stand in a URL and in a list of options as it is.
func (t ProxyToken) valid() bool {
	return !strings.ContainsFunc(string(t), func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// spellings are the texts that give t away: as it stands in the variables, and as
// clients send it and show what they send.
func (t ProxyToken) spellings() [][]byte {
	if t == "" {
		return nil
	}
	return [][]byte{[]byte(t), []byte(base64.StdEncoding.EncodeToString([]byte(ProxyUser + ":" + string(t))))}
}

// Blot returns a writer that passes on to w what is written to it, with t blotted
// out as in the output of a command. It is for output that a command writes to a
// file of the caller's, which [Start] does not see. Close passes on what was held
// back because t may begin there, and does not close w. The result is not for use
// by several goroutines at once; without a token nothing is held back.
func (t ProxyToken) Blot(w io.Writer) io.WriteCloser {
	return &blotter{masker{hide: t.spellings()}, w}
}

type blotter struct {
	mask masker
	w    io.Writer
}

func (b *blotter) Write(p []byte) (int, error) {
	if len(b.mask.hide) == 0 {
		return b.w.Write(p)
	}
	if _, err := b.w.Write(b.mask.next(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (b *blotter) Close() error {
	_, err := b.w.Write(b.mask.rest())
	return err
}

// masker blots out what must not be shown from a stream, also where it comes in
// pieces. It is for what programs print about their environment, not for one that
// means to give it away.
type masker struct {
	hide [][]byte
	buf  []byte
	held int // bytes at the end of buf that may be the beginning of something to hide
}

// next takes more of the stream and returns what can be shown by now, of the same
// length in all. The result is good until the next call.
func (m *masker) next(more []byte) []byte {
	m.buf = append(m.buf[:copy(m.buf, m.buf[len(m.buf)-m.held:])], more...)
	for _, text := range m.hide {
		for from := 0; ; {
			i := bytes.Index(m.buf[from:], text)
			if i < 0 {
				break
			}
			from += i + len(text)
			for j := from - len(text); j < from; j++ {
				m.buf[j] = '*'
			}
		}
	}
	m.held = 0
	for _, text := range m.hide {
		for n := min(len(text)-1, len(m.buf)); n > m.held; n-- {
			if bytes.HasSuffix(m.buf, text[:n]) {
				m.held = n
				break
			}
		}
	}
	return m.buf[:len(m.buf)-m.held]
}

// rest is what was held back, once the stream has ended.
func (m *masker) rest() []byte { return m.buf[len(m.buf)-m.held:] }
