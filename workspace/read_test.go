package workspace

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/initorigin/io-harness-go/policy"
)

func utf16Bytes(mark bool, order binary.AppendByteOrder, s string) string {
	var b []byte
	if mark {
		b = order.AppendUint16(b, 0xFEFF)
	}
	for _, u := range utf16.Encode([]rune(s)) {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

func TestReadTypedSaysWhatAFileIs(t *testing.T) {
	le, be := binary.LittleEndian, binary.BigEndian
	for _, tc := range []struct {
		name, bytes string
		kind        Kind
		text        string
		encoding    Encoding
		format      string
	}{
		{"plain.txt", "héllo\n", KindText, "héllo\n", UTF8, ""},
		{"empty", "", KindText, "", UTF8, ""},
		{"bom.txt", "\xef\xbb\xbfmark\n", KindText, "mark\n", UTF8BOM, ""},
		{"bom-only", "\xef\xbb\xbf", KindText, "", UTF8BOM, ""},
		{"bom-bad", "\xef\xbb\xbf\xff\xfe\xfa", KindBinary, "", "", "binary data"},
		{"le.log", utf16Bytes(true, le, "línea 𝄞\r\n"), KindText, "línea 𝄞\r\n", UTF16LE, ""},
		{"be.log", utf16Bytes(true, be, "línea 𝄞\n"), KindText, "línea 𝄞\n", UTF16BE, ""},
		{"le-nomark", utf16Bytes(false, le, "plain ascii"), KindBinary, "", "", "binary data"},
		{"be-nomark", utf16Bytes(false, be, "plain ascii"), KindBinary, "", "", "binary data"},
		{"le-odd", utf16Bytes(true, le, "ab") + "x", KindBinary, "", "", "binary data"},
		{"le-lone-high", "\xff\xfe\x00\xd8a\x00", KindBinary, "", "", "binary data"},
		{"le-lone-low", "\xff\xfe\x00\xdc", KindBinary, "", "", "binary data"},
		{"le-half-at-end", "\xff\xfe\x34\xd8", KindBinary, "", "", "binary data"},
		{"nul.txt", "a\x00b\n", KindBinary, "", "", "binary data"},
		{"latin1", "gr\xfcn\n", KindBinary, "", "", "binary data"},
		{"elf", "\x7fELF\x02\x01\x00\x00\xff", KindBinary, "", "", "ELF executable"},
		{"macho", "\xcf\xfa\xed\xfe\x00", KindBinary, "", "", "Mach-O executable"},
		{"macho32", "\xfe\xed\xfa\xce\x00", KindBinary, "", "", "Mach-O executable"},
		{"fat", "\xca\xfe\xba\xbe\x00", KindBinary, "", "", "Mach-O universal executable"},
		{"win", "MZ\x90\x00", KindBinary, "", "", "Windows executable"},
		{"zip", "PK\x03\x04\x00\xff", KindBinary, "", "", "ZIP archive"},
		{"gz", "\x1f\x8b\x08\x00", KindBinary, "", "", "gzip stream"},
		{"pdf-by-bytes", "%PDF-1.7\n\xe2\xe3", KindBinary, "", "", "PDF"},
		{"wasm", "\x00asm\x01", KindBinary, "", "", "WebAssembly module"},
		{"db", "SQLite format 3\x00", KindBinary, "", "", "SQLite database"},
		{"pic.PNG", "not really", KindImage, "", "", "PNG image"},
		{"pic.jpeg", "", KindImage, "", "", "JPEG image"},
		{"drawing.svg", "<svg/>", KindText, "<svg/>", UTF8, ""},
		{"a.xlsx", "PK\x03\x04", KindDocument, "", "", "a spreadsheet (XLSX)"},
		{"a.docx", "x", KindDocument, "", "", "a Word document (DOCX)"},
		{"a.pptx", "x", KindDocument, "", "", "a presentation (PPTX)"},
		{"a.Pdf", "x", KindDocument, "", "", "a PDF document"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, policy.Permissive())
			tr.put(tc.name, tc.bytes)
			c, err := tr.ReadTyped(t.Context(), tc.name)
			if err != nil {
				t.Fatal(err)
			}
			if c.Kind != tc.kind || c.Text != tc.text || c.Encoding != tc.encoding || c.Format != tc.format || c.Size != int64(len(tc.bytes)) || c.Missing {
				t.Errorf("ReadTyped = %+v, want kind %s, text %q, encoding %q, format %q", c, tc.kind, tc.text, tc.encoding, tc.format)
			}
			if c.Kind == KindText && string(encode(c.Text, c.Encoding)) != tc.bytes {
				t.Errorf("encoding it again gives %q, want %q", encode(c.Text, c.Encoding), tc.bytes)
			}
			_, err = tr.ReadFile(t.Context(), tc.name)
			if tc.kind != KindText && !errors.Is(err, ErrNotText) {
				t.Errorf("ReadFile = %v, want ErrNotText", err)
			}
			if tc.kind != KindText && len(tc.bytes) > 4 && strings.Contains(err.Error(), tc.bytes) {
				t.Errorf("the refusal holds content: %v", err)
			}
		})
	}
}

func TestMissingFileReadsAsEmptyTextWhateverItsName(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	for _, p := range []string{"new.go", "new.png", "new.xlsx", "no/such/dir/x", "also.pdf"} {
		c, err := tr.ReadTyped(t.Context(), p)
		if err != nil || !c.Missing || c.Kind != KindText || c.Text != "" {
			t.Errorf("ReadTyped(%q) = %+v, %v, want an empty text that is missing", p, c, err)
		}
		if _, err := tr.ReadBytes(t.Context(), p); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), p) {
			t.Errorf("ReadBytes(%q) = %v, want an error that names it", p, err)
		}
	}
	tr.put("file", "x")
	if _, err := tr.ReadTyped(t.Context(), "file/below"); err == nil {
		t.Error("a path below a file reads as something")
	}
}

const strange = "one\ntwo\ftwo-b\nthree NEEDLE\rtail\nfour\u2028more\nfive\n"

func TestEverythingCountsLinesAlike(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", strange)
	m, err := tr.Grep(t.Context(), "NEEDLE", "", 9)
	if err != nil || len(m.Hits) != 1 || m.Hits[0].Line != 3 {
		t.Errorf("Grep = %+v, %v, want line 3", m, err)
	}
	s, err := tr.ReadLines(t.Context(), "f", 3, 1, 0)
	if err != nil || s.Text != "three NEEDLE\rtail\n" || s.Total != 5 || s.From != 3 || s.To != 3 {
		t.Errorf("ReadLines(3, 1) = %+v, %v", s, err)
	}
	c, n, err := tr.PatchFile(t.Context(), "f", "@@ -3,1 +3,1 @@\n-three NEEDLE\rtail\n+three\rtail\n")
	if err != nil || n != 1 {
		t.Fatalf("PatchFile = %v", err)
	}
	if want := "@@ -1,5 +1,5 @@\n one\n two\ftwo-b\n-three NEEDLE\rtail\n+three\rtail\n four\u2028more\n five\n"; c.Hunk == nil || *c.Hunk != want {
		t.Errorf("recorded hunk is %q, want %q", *c.Hunk, want)
	}
}

func TestReadLinesRanges(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("five", "1\n2\n3\n4\n5\n")
	tr.put("open", "1\n2\n3")
	tr.put("blank", "\n\n")
	tr.put("empty", "")
	for _, tc := range []struct {
		file            string
		offset, limit   int
		text            string
		from, to, total int
	}{
		{"five", 0, 0, "1\n2\n3\n4\n5\n", 1, 5, 5},
		{"five", 1, 1, "1\n", 1, 1, 5},
		{"five", 5, 1, "5\n", 5, 5, 5},
		{"five", 4, 99, "4\n5\n", 4, 5, 5},
		{"five", 2, 2, "2\n3\n", 2, 3, 5},
		{"five", 1, 1 << 30, "1\n2\n3\n4\n5\n", 1, 5, 5},
		{"open", 3, 1, "3", 3, 3, 3},
		{"open", 2, 0, "2\n3", 2, 3, 3},
		{"blank", 2, 1, "\n", 2, 2, 2},
		{"empty", 1, 5, "", 0, 0, 0},
	} {
		s, err := tr.ReadLines(t.Context(), tc.file, tc.offset, tc.limit, 0)
		if err != nil || s.Text != tc.text || s.From != tc.from || s.To != tc.to || s.Total != tc.total {
			t.Errorf("ReadLines(%s, %d, %d) = %q %d-%d of %d, %v, want %q %d-%d of %d",
				tc.file, tc.offset, tc.limit, s.Text, s.From, s.To, s.Total, err, tc.text, tc.from, tc.to, tc.total)
		}
	}
	for _, off := range []int{6, 1000} {
		_, err := tr.ReadLines(t.Context(), "five", off, 1, 0)
		var re *RangeError
		if !errors.As(err, &re) || re.Total != 5 || !strings.Contains(err.Error(), "5 lines") {
			t.Errorf("ReadLines past the end = %v, want a RangeError with the total", err)
		}
	}
}

func TestTextOverTheRoomIsRefusedWhole(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	lines := strings.Repeat("ééééééééé\n", 100) // 10 characters each
	tr.put("f", "HEAD"+lines[4:500]+"MIDDLE\n"+lines+"TAIL\n")
	_, err := tr.ReadLines(t.Context(), "f", 0, 0, 500)
	var big *TooLargeError
	if !errors.As(err, &big) || big.Which != CeilingChars || big.Limit != 500 || big.Lines == 0 || big.LongLine != 0 {
		t.Fatalf("ReadLines = %v, want it over the room", err)
	}
	for _, word := range []string{"HEAD", "MIDDLE", "TAIL", "é"} {
		if strings.Contains(err.Error(), word) {
			t.Errorf("the refusal holds content: %v", err)
		}
	}
	if _, err := tr.ReadLines(t.Context(), "f", 2, 10, 500); err != nil {
		t.Errorf("a range that fits: %v", err)
	}
	tr.put("g", lines[:len("ééééééééé\n")*50])
	if s, err := tr.ReadLines(t.Context(), "g", 0, 0, 500); err != nil || len([]rune(s.Text)) != 500 {
		t.Errorf("a text of exactly the room: %v", err)
	}
	tr.put("long", "a\n"+strings.Repeat("x", 600)+"\nb\n")
	_, err = tr.ReadLines(t.Context(), "long", 1, 2, 500)
	if !errors.As(err, &big) || big.LongLine != 2 {
		t.Errorf("one long line: %v, want it named", err)
	}
}

func TestFileOverTheCeilingIsRefusedByItsSizeAndServedByRange(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	f, err := os.Create(tr.path("big"))
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Repeat("x", 1023) + "\n"
	chunk := strings.Repeat(line, 1024)
	for range 65 {
		if _, err := f.WriteString(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteString("last line"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	var big *TooLargeError
	for what, err := range map[string]error{
		"ReadTyped": second(tr.ReadTyped(t.Context(), "big")),
		"ReadFile":  second(tr.ReadFile(t.Context(), "big")),
		"ReadBytes": second(tr.ReadBytes(t.Context(), "big")),
		"ReadLines": second(tr.ReadLines(t.Context(), "big", 0, 0, 0)),
	} {
		if !errors.As(err, &big) || big.Which != CeilingFile || big.Limit != MaxFile || big.Size != 65<<20+9 {
			t.Errorf("%s = %v, want it over the file ceiling", what, err)
		}
	}
	total := 65*1024 + 1
	s, err := tr.ReadLines(t.Context(), "big", total-1, 5, 0)
	if err != nil || s.Text != line+"last line" || s.Total != total || s.From != total-1 || s.To != total || s.AtLeast {
		t.Errorf("range at the end = %d-%d of %d, %d bytes, %v", s.From, s.To, s.Total, len(s.Text), err)
	}
	if _, err := tr.ReadLines(t.Context(), "big", total+1, 1, 0); err == nil {
		t.Error("a range past the end of a large file was served")
	}
	tr.dir.counting = 0
	if s, err := tr.ReadLines(t.Context(), "big", 2, 3, 0); err != nil || s.Text != strings.Repeat(line, 3) || s.From != 2 || s.To != 4 || !s.AtLeast || s.Total < 4 || s.Total >= total {
		t.Errorf("a range of a file whose lines were not all counted = %d-%d of %d (at least: %v), %v", s.From, s.To, s.Total, s.AtLeast, err)
	}
	tr.dir.counting = countTime
	if _, err := tr.ReadLines(t.Context(), "big", 2, 20, 5000); !errors.As(err, &big) || big.Which != CeilingChars || big.Size != 20*1024 || big.FileSize != 65<<20+9 {
		t.Errorf("a range over the room = %v, want it refused with its size", err)
	}
	if _, err := tr.ReadLines(t.Context(), "big", 2, 2, 600); !errors.As(err, &big) || big.LongLine != 2 {
		t.Errorf("a line over the room = %v, want it named", err)
	}
}

func TestLargeBinaryIsNoTextByRangeEither(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("zeros", "")
	if err := os.Truncate(tr.path("zeros"), MaxFile+10); err != nil {
		t.Skipf("no sparse file here: %v", err)
	}
	if _, err := tr.ReadLines(t.Context(), "zeros", 1, 5, 0); !errors.Is(err, ErrNotText) {
		t.Errorf("ReadLines = %v, want ErrNotText", err)
	}
	if err := os.Truncate(tr.path("zeros"), MaxRange+1); err != nil {
		t.Skipf("no sparse file of that size here: %v", err)
	}
	var big *TooLargeError
	if _, err := tr.ReadLines(t.Context(), "zeros", 1, 5, 0); !errors.As(err, &big) || big.Limit != MaxRange || big.FileSize != MaxRange+1 {
		t.Errorf("ReadLines = %v, want it over the ceiling of ranges", err)
	}
}

// growing is a file that has more each time one looks.
type growing struct{}

func (growing) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestFileThatGrowsWhileItIsReadEndsAtTheCeiling(t *testing.T) {
	_, err := readAll(t.Context(), "log", growing{}, 10)
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("readAll = %v, want ErrTooLarge", err)
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "text")
	cause := errors.New("the run was stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := tr.ReadFile(ctx, "f"); !errors.Is(err, cause) {
		t.Errorf("ReadFile = %v, want the cause", err)
	}
	if _, err := tr.Grep(ctx, "t", "", 1); !errors.Is(err, cause) {
		t.Errorf("Grep = %v, want the cause", err)
	}
	if _, err := tr.ListDir(ctx, "", 1); !errors.Is(err, cause) {
		t.Errorf("ListDir = %v, want the cause", err)
	}
	if _, err := tr.WriteFile(ctx, "f", "new"); !errors.Is(err, cause) {
		t.Errorf("WriteFile = %v, want the cause", err)
	}
	if got := tr.get("f"); got != "text" {
		t.Errorf("f = %q", got)
	}
}

func TestTheLargestFileIsReadWhole(t *testing.T) {
	tr := newTree(t, policy.Permissive())
	tr.put("f", "")
	if err := os.Truncate(tr.path("f"), MaxFile); err != nil {
		t.Skipf("no sparse file here: %v", err)
	}
	if data, err := tr.ReadBytes(t.Context(), "f"); err != nil || len(data) != MaxFile {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}
