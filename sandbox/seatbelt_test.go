package sandbox

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSeatbeltProfile(t *testing.T) {
	evil := `/ws") (allow file-write* (subpath "/`
	s := &spec{
		argv: []string{"go", "test", "(version 1)"}, path: "/usr/bin/go", temp: "/private/var/folders/x/t",
		roots: []string{evil, "/cache"}, denied: []string{"/ws/secrets", "/ws/.env"},
	}
	isDir := func(p string) bool { return p != "/ws/.env" }
	got := seatbeltArgv(s, isDir)
	want := []string{
		"/usr/bin/sandbox-exec", "-D", "P0=" + evil, "-D", "P1=/cache", "-D", "P2=/private/var/folders/x/t", "-D", "P3=/ws/secrets", "-D", "P4=/ws/.env", "-D", "P5=/ws",
		"-p", strings.Join([]string{
			"(version 1)",
			"(allow default)",
			"(deny network*)",
			`(deny file-write* (subpath "/"))`,
			`(allow file-write* (subpath (param "P0")))`,
			`(allow file-write* (subpath (param "P1")))`,
			`(allow file-write* (subpath (param "P2")))`,
			`(allow file-write* (literal "/dev/null") (literal "/dev/dtracehelper"))`,
			`(deny file* (subpath (param "P3")))`,
			`(deny file* (literal (param "P4")))`,
			`(deny file-write-unlink (literal (param "P5")))`,
		}, "\n"),
		"/usr/bin/go", "test", "(version 1)",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestSeatbeltNetwork(t *testing.T) {
	for _, tc := range []struct {
		e    Egress
		want []string
	}{
		{Egress{}, []string{"(deny network*)"}},
		{Egress{Open: true}, []string{"(allow network*)"}},
		{Egress{Proxy: addr("127.0.0.1:77")}, []string{"(deny network*)", `(allow network-outbound (remote ip "localhost:77"))`}},
		// A network that is open has no use for a proxy.
		{Egress{Open: true, Proxy: addr("127.0.0.1:77")}, []string{"(allow network*)"}},
	} {
		argv := seatbeltArgv(&spec{argv: []string{"true"}, path: "/usr/bin/true", profile: Profile{Egress: tc.e}}, func(string) bool { return true })
		text := argv[slices.Index(argv, "-p")+1]
		var got []string
		for line := range strings.SplitSeq(text, "\n") {
			if strings.Contains(line, "network") {
				got = append(got, line)
			}
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.e, d)
		}
	}
}
