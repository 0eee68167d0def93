package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// What encoding/json accepts is accepted and read alike, and nothing else is.
func FuzzJSONIsReadAsEncodingJSONDoes(f *testing.F) {
	for _, seed := range []string{
		`null`, `true`, ` [1, -0.5e+3, "a\n\u00e9\ud83d\ude00", {"a":{}, "b":[]}] `, `{"a":1,}`, `[1 2]`, `"\x"`, `1.`, `.5`, `-`, `01`, `nul`, "\"\x01\"", `{"a"}`, `{"a":1 "b"}`, "\"\xff\"", `"\ud800"`, ``, `[[`, `{"":0}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if !utf8.ValidString(src) {
			src = strings.ToValidUTF8(src, "\uFFFD") // as Check hands it over
		}
		dec := json.NewDecoder(bytes.NewReader([]byte(src)))
		dec.UseNumber()
		var want any
		wantErr := dec.Decode(&want)
		if wantErr == nil {
			if _, err := dec.Token(); err != io.EOF {
				wantErr = errors.New("more than one value")
			}
		}
		got, r, err := readJSON(src)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("readJSON(%q): %v, encoding/json: %v", src, err, wantErr)
		}
		if err != nil {
			return
		}
		if len(r.twice) > 0 {
			return // encoding/json lets the last one win
		}
		if !reflect.DeepEqual(got.plain(), want) {
			t.Fatalf("readJSON(%q) = %#v, encoding/json: %#v", src, got.plain(), want)
		}
	})
}

// What is cut is told from what is wrong: every beginning of a document that is
// no document itself is cut, and never wrong.
func TestEveryBeginningOfADocumentIsCut(t *testing.T) {
	doc := `{"a":[1.5e-3,true,false,null,"x\"\\y\u00e9"],"b":{"c":-0}}`
	for i := range doc {
		if _, _, err := readJSON(doc[:i]); !errors.Is(err, errCut) {
			t.Errorf("readJSON(%q) = %v, want that it is cut", doc[:i], err)
		}
	}
	for _, wrong := range []string{`{"a":1} x`, `{a`, `[1,]`, `{"a" 1`, `trux`, `"` + "\n"} {
		if _, _, err := readJSON(wrong); err == nil || errors.Is(err, errCut) {
			t.Errorf("readJSON(%q) = %v, want that it is wrong", wrong, err)
		}
	}
}

func TestNestingIsBounded(t *testing.T) {
	if _, _, err := readJSON(strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)); err != nil {
		t.Errorf("at the bound: %v", err)
	}
	if _, _, err := readJSON(strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2)); err == nil {
		t.Error("over the bound: no error")
	}
}
