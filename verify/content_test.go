package verify

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func TestContentIsComparedByteForByte(t *testing.T) {
	b := newBench(t)
	b.write("text", "one\ntwo\n")
	b.write("crlf", "one\r\ntwo\r\n")
	b.write("empty", "")
	b.write("latin", "caf\xe9 au lait")
	b.write("decomposed", "cafe\u0301")
	for _, tc := range []struct {
		name   string
		c      Criterion
		passed bool
	}{
		{"a part", Contains("text", "ne\ntw"), true},
		{"the wrong case", Contains("text", "ONE"), false},
		{"a pattern is no pattern", Contains("text", "o.e"), false},
		{"the empty text", Contains("text", ""), true},
		{"the empty text in an empty file", Contains("empty", ""), true},
		{"the empty text in a missing file", Contains("missing", ""), false},
		{"a missing file", Contains("missing", "x"), false},
		{"line endings count", Contains("crlf", "one\ntwo"), false},
		{"bytes that are no text", Contains("latin", "\xe9 au"), true},
		{"no normalisation of characters", Contains("decomposed", "caf\u00e9"), false},
		{"all of it", Equals("text", "one\ntwo\n"), true},
		{"without the last line end", Equals("text", "one\ntwo"), false},
		{"with one more", Equals("text", "one\ntwo\n\n"), false},
		{"an empty file", Equals("empty", ""), true},
		{"an empty file and some text", Equals("empty", "x"), false},
		{"a file and no text", Equals("text", ""), false},
		{"a missing file and no text", Equals("missing", ""), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := b.judge(tc.c)
			if v.Passed != tc.passed {
				t.Errorf("verdict = %+v, want passed %v", v, tc.passed)
			}
			if v.Phase != PhaseContains || v.TellModel || (v.Detail == "") != tc.passed {
				t.Errorf("verdict = %+v, want the phase contains, a detail for a failure, and nothing told", v)
			}
		})
	}
}

func TestWhatCannotBeReadIsAnErrorAndNotAFailure(t *testing.T) {
	b := newBench(t)
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("needle"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.write("dir/file", "needle")
	b.link(outside, "escape")
	b.link(filepath.Dir(outside), "escapedir")
	b.link("dir/file", "inside")
	for name, says := range map[string]string{
		"escape":           "escape",
		"escapedir/secret": "escape",
		"dir":              "directory",
	} {
		for _, c := range []Criterion{Contains(name, "needle"), Equals(name, "needle"), Contains(name, "")} {
			if err := b.errs(c); !strings.Contains(err.Error(), says) {
				t.Errorf("%s: error = %v, want one about %q", name, err, says)
			}
		}
	}
	b.passes(Contains("inside", "needle"))
	b.link("nowhere", "dangling")
	b.fails(Contains("dangling", "x"), "does not exist")
	b.fails(Contains("dir/file/below", "x"), "does not exist")
	b.fails(Equals("dir/file/far/below", ""), "does not exist")
	if os.Getuid() != 0 {
		b.write("locked", "needle")
		if err := os.Chmod(filepath.Join(b.root, "locked"), 0); err != nil {
			t.Fatal(err)
		}
		b.errs(Contains("locked", "needle"))
	}
	if err := os.Truncate(filepath.Join(b.root, "dir", "file"), MaxContentFile+1); err != nil {
		t.Fatal(err)
	}
	if err := b.errs(Contains("dir/file", "absent")); !strings.Contains(err.Error(), "at most") {
		t.Errorf("error = %v, want one about the size", err)
	}
}

func TestAFileOutsideTheRootIsNoCriterion(t *testing.T) {
	for _, file := range []string{"", "/etc/passwd", "../up", "a/../../up", "a\x00b", ".."} {
		for _, c := range []Criterion{Contains(file, "x"), Equals(file, "x"), EachCompiles(Rust, file)} {
			var invalid *InvalidError
			if err := c.Validate(); !errors.As(err, &invalid) {
				t.Errorf("%T of %q: Validate = %v, want an *InvalidError", c, file, err)
			}
			if _, err := Evaluate(context.Background(), c, Env{Root: t.TempDir()}); !errors.As(err, &invalid) {
				t.Errorf("%T of %q: Evaluate = %v, want an *InvalidError", c, file, err)
			}
		}
	}
}

// However the reads are cut, streaming finds what searching the whole would.
func TestStreamingFindsWhatSearchingTheWholeFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SliceOfN(rapid.SampledFrom([]byte("ab")), 0, 12)
		needle := unit.Draw(t, "needle")
		hay := bytes.Repeat([]byte("ab"), rapid.SampledFrom([]int{0, 1, 3, chunk / 2}).Draw(t, "prefix"))
		hay = append(hay, unit.Draw(t, "rest")...)
		hay = append(hay, needle[:rapid.IntRange(0, len(needle)).Draw(t, "part")]...)
		ctx := context.Background()
		got, err := streamContains(ctx, iotest.HalfReader(bytes.NewReader(hay)), needle)
		if want := bytes.Contains(hay, needle); err != nil || got != want {
			t.Fatalf("contains = %v, %v, want %v", got, err, want)
		}
		same := rapid.Bool().Draw(t, "same")
		want := hay
		if !same {
			want = append(bytes.Clone(hay), 'x')
		}
		got, err = streamEquals(ctx, iotest.HalfReader(bytes.NewReader(hay)), want)
		if err != nil || got != same {
			t.Fatalf("equals = %v, %v, want %v", got, err, same)
		}
	})
}

func TestAnEndedContextStopsASearch(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := streamContains(ctx, bytes.NewReader(make([]byte, 10)), []byte("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("contains = %v, want the context's error", err)
	}
	if _, err := streamEquals(ctx, bytes.NewReader(nil), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("equals = %v, want the context's error", err)
	}
}
