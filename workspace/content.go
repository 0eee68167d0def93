package workspace

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Kind says what a file turned out to be.
type Kind string

// The kinds of file.
const (
	KindText     Kind = "text"
	KindImage    Kind = "image"
	KindDocument Kind = "document"
	KindBinary   Kind = "binary"
)

// Encoding is how the bytes of a text file are text. Its value is what a reader
// is shown.
type Encoding string

// The encodings that are read as text.
const (
	UTF8    Encoding = "UTF-8"
	UTF8BOM Encoding = "UTF-8 with a byte-order mark"
	UTF16LE Encoding = "UTF-16LE"
	UTF16BE Encoding = "UTF-16BE"
)

// Content is what a path turned out to be.
type Content struct {
	Kind     Kind
	Text     string   // of a text; without the byte-order mark
	Encoding Encoding // of a text
	Format   string   // of anything else: "PNG image", "ELF executable"
	Reader   string   // the tool that reads a document or an image
	Size     int64    // bytes in the file
	Missing  bool     // nothing is there; Kind is KindText and Text is empty
}

// Describe says what the file is, in words and without a byte of it.
func (c Content) Describe() string {
	if c.Kind == KindText {
		return fmt.Sprintf("text (%s, %d bytes)", c.Encoding, c.Size)
	}
	return fmt.Sprintf("%s (%d bytes)", c.Format, c.Size)
}

// byName is what a file is by its extension: things whose bytes are not looked
// at. SVG is not among them, because it is text.
func byName(p string) (Content, bool) {
	ext := strings.TrimPrefix(strings.ToLower(path.Ext(p)), ".")
	switch ext {
	case "png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff", "ico", "tga", "pnm", "pbm", "pgm", "ppm", "heic", "heif", "avif":
		return Content{Kind: KindImage, Format: strings.ToUpper(ext) + " image", Reader: "view_image"}, true
	case "xlsx":
		return Content{Kind: KindDocument, Format: "a spreadsheet (XLSX)", Reader: "xlsx_read"}, true
	case "docx":
		return Content{Kind: KindDocument, Format: "a Word document (DOCX)", Reader: "docx_read"}, true
	case "pptx":
		return Content{Kind: KindDocument, Format: "a presentation (PPTX)", Reader: "pptx_read"}, true
	case "pdf":
		return Content{Kind: KindDocument, Format: "a PDF document", Reader: "pdf_read"}, true
	}
	return Content{}, false
}

// classify says what the bytes of a file are. Nothing is guessed: bytes that are
// not text in one of the encodings are binary.
func classify(p string, data []byte) Content {
	if c, ok := byName(p); ok {
		c.Size = int64(len(data))
		return c
	}
	if text, enc, ok := decode(data); ok {
		return Content{Kind: KindText, Text: text, Encoding: enc, Size: int64(len(data))}
	}
	return Content{Kind: KindBinary, Format: signature(data), Size: int64(len(data))}
}

var (
	markUTF8    = []byte{0xEF, 0xBB, 0xBF}
	markUTF16LE = []byte{0xFF, 0xFE}
	markUTF16BE = []byte{0xFE, 0xFF}
)

func decode(data []byte) (text string, enc Encoding, ok bool) {
	var rest []byte
	switch {
	case bytes.HasPrefix(data, markUTF8):
		enc, rest = UTF8BOM, data[len(markUTF8):]
	case bytes.HasPrefix(data, markUTF16LE):
		text, ok = decode16(data[2:], binary.LittleEndian)
		return text, UTF16LE, ok
	case bytes.HasPrefix(data, markUTF16BE):
		text, ok = decode16(data[2:], binary.BigEndian)
		return text, UTF16BE, ok
	default:
		enc, rest = UTF8, data
	}
	// A NUL byte is legal UTF-8 and no text: an archive of text files has them,
	// and so has UTF-16 without a mark.
	if !utf8.Valid(rest) || bytes.IndexByte(rest, 0) >= 0 {
		return "", "", false
	}
	return string(rest), enc, true
}

func decode16(data []byte, order binary.ByteOrder) (string, bool) {
	if len(data)%2 != 0 {
		return "", false
	}
	var b strings.Builder
	b.Grow(len(data) / 2)
	for i := 0; i < len(data); i += 2 {
		r := rune(order.Uint16(data[i:]))
		if utf16.IsSurrogate(r) {
			if i+4 > len(data) {
				return "", false
			}
			pair := utf16.DecodeRune(r, rune(order.Uint16(data[i+2:])))
			if pair == utf8.RuneError {
				return "", false
			}
			r, i = pair, i+2
		}
		if r == 0 {
			return "", false
		}
		b.WriteRune(r)
	}
	return b.String(), true
}

// encode is the inverse of decode: for a text that decode gave, the same bytes.
func encode(text string, enc Encoding) []byte {
	switch enc {
	case UTF8BOM:
		return append(bytes.Clone(markUTF8), text...)
	case UTF16LE:
		return encode16(text, markUTF16LE, binary.LittleEndian)
	case UTF16BE:
		return encode16(text, markUTF16BE, binary.BigEndian)
	}
	return []byte(text)
}

func encode16(text string, mark []byte, order binary.AppendByteOrder) []byte {
	out := append(make([]byte, 0, 2+2*len(text)), mark...)
	for _, u := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, u)
	}
	return out
}

// signatures are the leading bytes by which a binary file is named.
var signatures = []struct{ lead, name string }{
	{"\x7fELF", "ELF executable"},
	{"\xfe\xed\xfa", "Mach-O executable"},
	{"\xce\xfa\xed\xfe", "Mach-O executable"},
	{"\xcf\xfa\xed\xfe", "Mach-O executable"},
	{"\xca\xfe\xba\xbe", "Mach-O universal executable"},
	{"MZ", "Windows executable"},
	{"PK\x03", "ZIP archive"},
	{"PK\x05", "ZIP archive"},
	{"\x1f\x8b", "gzip stream"},
	{"%PDF", "PDF"},
	{"\x00asm", "WebAssembly module"},
	{"SQLite", "SQLite database"},
}

func signature(data []byte) string {
	for _, s := range signatures {
		if bytes.HasPrefix(data, []byte(s.lead)) {
			return s.name
		}
	}
	return "binary data"
}

// Endings counts how the lines of a text end.
type Endings struct{ LF, CRLF int }

func endingsOf(text string) Endings {
	crlf := strings.Count(text, "\r\n")
	return Endings{LF: strings.Count(text, "\n") - crlf, CRLF: crlf}
}

// String names the endings with their number.
func (e Endings) String() string {
	switch {
	case e.CRLF == 0 && e.LF == 0:
		return "none"
	case e.CRLF == 0:
		return fmt.Sprintf("LF (%d)", e.LF)
	case e.LF == 0:
		return fmt.Sprintf("CRLF (%d)", e.CRLF)
	}
	return fmt.Sprintf("mixed (%d CRLF, %d LF)", e.CRLF, e.LF)
}

// sameKind reports whether a reader would call both the same. Text without any
// line ending fits everything.
func (e Endings) sameKind(o Endings) bool {
	none := func(x Endings) bool { return x.LF == 0 && x.CRLF == 0 }
	return none(e) || none(o) || (e.CRLF == 0) == (o.CRLF == 0) && (e.LF == 0) == (o.LF == 0)
}
