package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const testToken = ProxyToken("ABCDEFGHIJ2345")

func TestATokenIsBlottedOutHoweverItComesInPieces(t *testing.T) {
	stars := func(s string) string { return strings.Repeat("*", len(s)) }
	sent := base64.StdEncoding.EncodeToString([]byte("run:" + string(testToken)))
	for _, tc := range []struct{ in, want string }{
		{"nothing here", "nothing here"},
		{"HTTP_PROXY=http://run:" + string(testToken) + "@127.0.0.1:1\n", "HTTP_PROXY=http://run:" + stars(string(testToken)) + "@127.0.0.1:1\n"},
		{"> Proxy-Authorization: Basic " + sent, "> Proxy-Authorization: Basic " + stars(sent)},
		{string(testToken + testToken), stars(string(testToken + testToken))},
		{"A" + string(testToken) + "AB", "A" + stars(string(testToken)) + "AB"},
		{string(testToken[:9]) + "x", string(testToken[:9]) + "x"},
		{string(testToken[:9]), string(testToken[:9])},
		{"", ""},
	} {
		for size := 1; size <= len(tc.in)+1; size++ {
			m := &masker{hide: testToken.spellings()}
			var got strings.Builder
			for rest := tc.in; rest != ""; {
				n := min(size, len(rest))
				got.Write(m.next([]byte(rest[:n])))
				rest = rest[n:]
			}
			got.Write(m.rest())
			if got.String() != tc.want {
				t.Errorf("%q in pieces of %d: got %q, want %q", tc.in, size, got.String(), tc.want)
			}
			var blotted strings.Builder
			w := testToken.Blot(&blotted)
			for piece := range slices.Chunk([]byte(tc.in), size) {
				if n, err := w.Write(piece); n != len(piece) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
			}
			if err := w.Close(); err != nil || blotted.String() != tc.want {
				t.Errorf("%q written in pieces of %d: got %q, %v, want %q", tc.in, size, blotted.String(), err, tc.want)
			}
		}
	}
}

func TestOnlyTheTokenIsChangedInAStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(rapid.SampledFrom([]string{"A", "AB", string(testToken), string(testToken[:7]), "x\n", "cnVu", "é"})).Draw(t, "pieces")
		m := &masker{hide: testToken.spellings()}
		var in, got strings.Builder
		for _, p := range pieces {
			in.WriteString(p)
			got.Write(m.next([]byte(p)))
		}
		got.Write(m.rest())
		if want := strings.ReplaceAll(in.String(), string(testToken), strings.Repeat("*", len(testToken))); got.String() != want {
			t.Fatalf("%q became %q, want %q", in.String(), got.String(), want)
		}
	})
}

func TestATokenIsNotInWhatIsPrintedOfAProfile(t *testing.T) {
	p := Profile{Workspace: "/w", Egress: Egress{Proxy: addr("127.0.0.1:1"), ProxyLogin: true, ProxyToken: testToken}}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	log := slog.New(slog.NewTextHandler(&logged, nil))
	log.Info("x", "profile", p, "token", p.Egress.ProxyToken)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "profile", p, "token", p.Egress.ProxyToken)
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", p), "%+v": fmt.Sprintf("%+v", p), "%#v": fmt.Sprintf("%#v", p), "String": p.Egress.ProxyToken.String(),
		"%q": fmt.Sprintf("%q", p.Egress.ProxyToken), "JSON": string(b), "a log": logged.String(),
	} {
		if strings.Contains(text, string(testToken)) {
			t.Errorf("%s shows the token: %s", name, text)
		}
	}
	if !strings.Contains(string(b), "proxy_login") {
		t.Errorf("what was asked for is not stored: %s", b)
	}
}

func TestATokenThatWouldNotStandInAURLIsRefused(t *testing.T) {
	p := Profile{Workspace: "/w", Egress: Egress{Proxy: addr("127.0.0.1:1"), ProxyToken: "canary@evil.test -Dx"}}
	if err := p.Validate(); !errors.Is(err, ErrInvalid) || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v, want ErrInvalid that does not tell it", err)
	}
}
