//go:build unix

package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/sandbox/scrub"
)

func TestWhatCannotBeStartedIsSaidInTheSystemsWords(t *testing.T) {
	ws := realTempDir(t)
	write(t, filepath.Join(ws, "text"), "no program\n")
	write(t, filepath.Join(ws, "garbage"), "\x00\x01\x02\x03")
	if err := os.Chmod(filepath.Join(ws, "garbage"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(ws, "lost"), "#!/no/such/interpreter\n")
	if err := os.Chmod(filepath.Join(ws, "lost"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		cmd   Cmd
		kind  error
		cause error
	}{
		{"not executable", Cmd{Argv: []string{"./text"}}, ErrStart, fs.ErrPermission},
		{"not a program", Cmd{Argv: []string{"./garbage"}}, ErrStart, syscall.ENOEXEC},
		{"no interpreter", Cmd{Argv: []string{"./lost"}}, ErrStart, fs.ErrNotExist},
		{"a directory is no program", Cmd{Argv: []string{ws}}, ErrStart, nil},
		{"missing", Cmd{Argv: []string{"./none"}}, ErrMissing, nil},
		{"no such directory", Cmd{Argv: []string{"true"}, Dir: "none"}, ErrStart, fs.ErrNotExist},
		{"a file as directory", Cmd{Argv: []string{"true"}, Dir: "text"}, ErrStart, syscall.ENOTDIR},
		{"too long for the system", Cmd{Argv: []string{"true", strings.Repeat("x", 256<<10)}}, ErrStart, syscall.E2BIG},
		{"too long for us", Cmd{Argv: []string{"true", strings.Repeat("x", maxArgv)}}, ErrInvalid, nil},
		{"empty argv", Cmd{}, ErrInvalid, nil},
		{"blank program", Cmd{Argv: []string{" "}}, ErrInvalid, nil},
		{"NUL", Cmd{Argv: []string{"echo", "a\x00b"}}, ErrInvalid, nil},
	} {
		for _, p := range everyRung(t, ws) {
			t.Run(tc.name+"/"+string(p.only)+string(p.Mode), func(t *testing.T) {
				if tc.cause == syscall.E2BIG && runtime.GOOS != "linux" {
					t.Skip("the bound on one argument is Linux's")
				}
				_, err := Run(t.Context(), tc.cmd, p)
				if !errors.Is(err, tc.kind) || tc.cause != nil && !errors.Is(err, tc.cause) {
					t.Errorf("got %v, want %v with %v", err, tc.kind, tc.cause)
				}
				if err != nil && strings.Contains(err.Error(), "\n") {
					t.Errorf("error of more than one line: %q", err)
				}
			})
		}
	}
}

func TestProfilesThatCannotWork(t *testing.T) {
	for _, tc := range []struct {
		name string
		p    Profile
		want string
	}{
		{"no workspace", Profile{}, "workspace is empty"},
		{"relative workspace", Profile{Workspace: "ws"}, "not absolute"},
		{"unknown mode", Profile{Workspace: "/", Mode: "full"}, `mode "full"`},
		{"control character", Profile{Workspace: "/a\nb"}, "control character"},
		{"proxy elsewhere", Profile{Workspace: "/", Egress: Egress{Proxy: addr("10.0.0.1:80")}}, "loopback"},
		{"negative limit", Profile{Workspace: "/", Limits: Limits{Wall: -1}}, "negative"},
		{"missing workspace", Profile{Workspace: "/no/such/place"}, "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Run(t.Context(), Cmd{Argv: []string{"true"}}, tc.p)
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ErrInvalid with %q", err, tc.want)
			}
		})
	}
}

func TestArgumentsReachTheProgramByteForByte(t *testing.T) {
	args := []string{"", " ", "$HOME", "`id`", "$(id)", "a;b", "*", "'\"\\", "-n", "é\xff", "\n", "--", "%s"}
	r, err := Run(t.Context(), Cmd{Argv: append([]string{"sh", "-c", `for a; do printf '%s\0' "$a"; done`, "sh"}, args...), Stdout: discard{}}, Profile{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r, err = Run(t.Context(), Cmd{Argv: r.Argv, Stdout: &out}, Profile{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(out.String(), "\x00"), "\x00"); !slices.Equal(got, args) {
		t.Errorf("got %q, want %q", got, args)
	}
	if !slices.Equal(r.Argv[4:], args) {
		t.Errorf("the result names %q", r.Argv)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestWorkingDirectory(t *testing.T) {
	ws := realTempDir(t)
	if err := os.MkdirAll(filepath.Join(ws, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ dir, want string }{{"", ws}, {"sub", ws + "/sub"}, {ws + "/sub", ws + "/sub"}, {"/", "/"}} {
		r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "pwd -P"}, Dir: tc.dir}, Profile{Workspace: ws})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(r.Stdout.String()); got != tc.want {
			t.Errorf("Dir %q: ran in %q, want %q", tc.dir, got, tc.want)
		}
	}
}

func TestSecretsAreNotInTheEnvironment(t *testing.T) {
	t.Setenv("ACME_API_KEY", "canary-1-abcdef")
	t.Setenv("OTHER", "canary-1-abcdef")
	t.Setenv("OPENAI_API_KEY", "canary-2-abcdef")
	t.Setenv("NPM_TOKEN", "canary-3-kept")
	t.Setenv("PLAIN", "plain")
	p := Profile{Workspace: t.TempDir(), Env: scrub.Rules{Keep: []string{"NPM_TOKEN"}, Secrets: []string{"canary-1-abcdef"}}}
	script := "env; cat /proc/self/environ /proc/$PPID/environ /proc/*/environ /proc/*/cmdline 2>/dev/null; ps eww 2>/dev/null; true"
	for _, floor := range []bool{false, true} {
		p.ForceFloor = floor
		r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", script}, Env: []string{"MY_SECRET=canary-4-abcdef"}}, p)
		if err != nil {
			t.Fatal(err)
		}
		out := r.Text(0)
		for _, canary := range []string{"canary-1", "canary-2", "canary-4"} {
			if strings.Contains(out, canary) {
				t.Errorf("%s is in what the command sees under %s", canary, r.Applied.Rung)
			}
		}
		if !strings.Contains(out, "canary-3-kept") || !strings.Contains(out, "PLAIN=plain") {
			t.Errorf("a kept or plain variable is missing under %s", r.Applied.Rung)
		}
		want := []string{"ACME_API_KEY", "MY_SECRET", "OPENAI_API_KEY", "OTHER"}
		if got := slices.DeleteFunc(slices.Clone(r.Applied.Scrubbed), func(n string) bool { return !slices.Contains(want, n) }); !slices.Equal(got, want) {
			t.Errorf("scrubbed %v, want %v among them", r.Applied.Scrubbed, want)
		}
		if s := fmt.Sprintf("%+v %s", r.Applied, r.Applied); strings.Contains(s, "canary") {
			t.Errorf("a value is in the report: %s", s)
		}
	}
	r, err := Run(t.Context(), Cmd{Argv: []string{"sh", "-c", "env"}}, Profile{Workspace: p.Workspace, Mode: FullAccess})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(r.Text(0), "canary-2") || len(r.Applied.Scrubbed) != 0 || r.Applied.Rung != RungNone {
		t.Errorf("full access keeps the environment and says so, got %+v", r.Applied)
	}
}

func TestProxyVariables(t *testing.T) {
	host := []string{"HTTP_PROXY=http://corp:1", "https_proxy=http://corp:1", "NO_PROXY=*", "JAVA_TOOL_OPTIONS=-Xmx1g"}
	get := func(e Egress, name string) string {
		env, _ := environ(host, Profile{Egress: e}, nil)
		v, ok := lookupEnv(env, name, false)
		if !ok {
			return "unset"
		}
		return v
	}
	proxy := Egress{Proxy: addr("127.0.0.1:4321")}
	login := Egress{Proxy: addr("127.0.0.1:4321"), ProxyToken: testToken}
	for _, tc := range []struct {
		e          Egress
		name, want string
	}{
		{Egress{Open: true}, "HTTP_PROXY", "http://corp:1"},
		{Egress{Open: true}, "NO_PROXY", "*"},
		{Egress{}, "HTTP_PROXY", "unset"},
		{Egress{}, "https_proxy", "unset"},
		{proxy, "HTTP_PROXY", "http://127.0.0.1:4321"},
		{proxy, "http_proxy", "http://127.0.0.1:4321"},
		{proxy, "ALL_PROXY", "http://127.0.0.1:4321"},
		{proxy, "NO_PROXY", ""},
		{proxy, "no_proxy", ""},
		{proxy, "JAVA_TOOL_OPTIONS", "-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=4321 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=4321 -Dhttp.nonProxyHosts="},
		{login, "HTTPS_PROXY", "http://run:ABCDEFGHIJ2345@127.0.0.1:4321"},
		{login, "http_proxy", "http://run:ABCDEFGHIJ2345@127.0.0.1:4321"},
		{login, "JAVA_TOOL_OPTIONS", "-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=4321 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=4321 -Dhttp.nonProxyHosts=" +
			" -Dhttp.proxyUser=run -Dhttp.proxyPassword=ABCDEFGHIJ2345 -Dhttps.proxyUser=run -Dhttps.proxyPassword=ABCDEFGHIJ2345"},
	} {
		if got := get(tc.e, tc.name); got != tc.want {
			t.Errorf("%+v: %s = %q, want %q", tc.e, tc.name, got, tc.want)
		}
	}
}

func TestStreams(t *testing.T) {
	p := Profile{Workspace: realTempDir(t)}
	run := func(c Cmd) *Result {
		t.Helper()
		r, err := Run(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := run(Cmd{Argv: []string{"cat"}}); !r.Success() || r.Output.Bytes != 0 {
		t.Errorf("no input: got %+v, want an immediate end of file", r)
	}
	if r := run(Cmd{Argv: []string{"cat"}, Stdin: strings.NewReader("in")}); r.Stdout.String() != "in" {
		t.Errorf("got %q, want the input", r.Stdout)
	}
	// A command that stops reading is no failure, however much there is to read.
	if r := run(Cmd{Argv: []string{"head", "-c", "1"}, Stdin: io.LimitReader(zeros{}, 64<<20)}); !r.Success() || r.Stdout.Bytes != 1 {
		t.Errorf("got %+v, want one byte and success", r)
	}
	var both bytes.Buffer
	r := run(Cmd{Argv: []string{"sh", "-c", "echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c"}, Stdout: &both, Stderr: &both})
	if both.String() != "a\nb\nc\n" || r.Output.String() != "a\nb\nc\n" || r.Stdout.String() != "a\nc\n" || r.Stderr.String() != "b\n" {
		t.Errorf("got %q and %+v", both.String(), r)
	}
	f, err := os.Create(filepath.Join(p.Workspace, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r = run(Cmd{Argv: []string{"sh", "-c", "echo a; echo b >&2"}, Stdout: f, Stderr: f})
	text, _ := os.ReadFile(f.Name())
	if string(text) != "a\nb\n" || r.Output.Bytes != 0 {
		t.Errorf("file %q, captured %q; want the file only", text, r.Output)
	}
	if r := run(Cmd{Argv: []string{"sh", "-c", "exec 3</dev/tty && echo tty"}}); strings.Contains(r.Text(0), "tty\n") || r.Success() {
		t.Errorf("the terminal can be opened: %s", r.Text(0))
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestNoDescriptorIsInherited(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("lists /proc/self/fd")
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := run(t, Profile{Workspace: t.TempDir()}, "ls", "/proc/self/fd")
	// The fourth is the directory that ls itself reads.
	if got := strings.Fields(r.Stdout.String()); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
		t.Errorf("descriptors %v, want the three streams and the listing", got)
	}
}

func TestAFloodOfOutputIsBoundedInMemory(t *testing.T) {
	const total = 256 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	r := run(t, Profile{Workspace: t.TempDir(), Limits: Limits{Output: 1}}, "sh", "-c", fmt.Sprintf("echo first; yes | head -c %d; echo last", total))
	runtime.ReadMemStats(&after)
	if r.Stdout.Bytes != total+len64("first\nlast\n") {
		t.Errorf("counted %d bytes", r.Stdout.Bytes)
	}
	s := r.Stdout.String()
	if len(s) > MinOutput+100 || !strings.HasPrefix(s, "first\ny\n") || !strings.HasSuffix(s, "last\n") || r.Stdout.Elided != r.Stdout.Bytes-MinOutput {
		t.Errorf("kept %d bytes with %d elided, ends %q … %q", len(s), r.Stdout.Elided, s[:10], s[len(s)-10:])
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 16<<20 {
		t.Errorf("allocated %d bytes for %d of output", grown, total)
	}
}

func len64(s string) int64 { return int64(len(s)) }

func TestAKilledTreeIsGone(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(p *Process, cancel func())
		err  error
	}{
		{"by Kill", func(p *Process, _ func()) { p.Kill() }, nil},
		{"by its context", func(_ *Process, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			up := make(lines, 8)
			script := `trap '' TERM; for i in 1 2 3; do sh -c 'sh -c "sleep 300" & sleep 300' & done; setsid sleep 300 & sh -c 'setsid sleep 300 &' ; echo up; wait`
			p, err := Start(ctx, Cmd{Argv: []string{"sh", "-c", script}, Stdout: up}, Profile{Workspace: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			<-up
			pids := p.Pids()
			tc.end(p, cancel)
			r, err := p.Wait()
			if !errors.Is(err, tc.err) || !r.Killed || r.Success() {
				t.Errorf("got %+v, %v", r, err)
			}
			if runtime.GOOS == "linux" && len(pids) < 6 {
				t.Errorf("saw %v, want the whole tree", pids)
			}
			for _, pid := range pids {
				if alive(pid) {
					t.Errorf("process %d of %v lives", pid, pids)
				}
			}
			if len(p.Pids()) != 0 {
				t.Errorf("still lists %v", p.Pids())
			}
			p.Kill() // after the end: nothing
		})
	}
}

// alive reports whether pid still runs; one that was killed may take a moment
// to be collected by whoever inherited it.
func alive(pid int) bool {
	for range 100 {
		if syscall.Kill(pid, 0) != nil {
			return false
		}
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			if i := bytes.LastIndexByte(b, ')'); i > 0 && (b[i+2] == 'Z' || b[i+2] == 'X') {
				return false
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

func TestRequireRefusesInsteadOfDegrading(t *testing.T) {
	ws := realTempDir(t)
	for _, p := range []Profile{
		{Require: Require{Writes: true}},
		{Require: Require{Egress: true}},
		{Require: Require{Egress: true}, Egress: Egress{Proxy: addr("127.0.0.1:9")}},
	} {
		p.Workspace, p.ForceFloor = ws, true
		_, err := Run(t.Context(), Cmd{Argv: []string{"touch", "ran"}}, p)
		if !errors.Is(err, ErrRequired) {
			t.Errorf("%+v: got %v, want ErrRequired", p.Require, err)
		}
		if _, err := os.Stat(filepath.Join(ws, "ran")); err == nil {
			t.Fatal("the command ran all the same")
		}
	}
	r, err := Run(t.Context(), Cmd{Argv: []string{"touch", "ran"}}, Profile{Workspace: ws, ForceFloor: true})
	if err != nil || !r.Success() {
		t.Fatalf("without a requirement: %+v, %v", r, err)
	}
	if a := r.Applied; a.Rung != RungFloor || a.Files != FilesOpen || a.Egress != EgressOpen || len(a.Why) == 0 || a.Confined() {
		t.Errorf("the floor reports %+v", a)
	}
}

func TestAnEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("no more")
	cancel(why)
	ws := t.TempDir()
	if _, err := Run(ctx, Cmd{Argv: []string{"touch", "ran"}}, Profile{Workspace: ws}); !errors.Is(err, why) {
		t.Errorf("got %v, want the cause", err)
	}
	if des, _ := os.ReadDir(ws); len(des) != 0 {
		t.Errorf("ran: %v", des)
	}
}

func TestPlanSaysWhatTheStartApplies(t *testing.T) {
	for _, p := range []Profile{
		{}, {Mode: ReadOnly}, {Mode: FullAccess}, {ForceFloor: true}, {Egress: Egress{Open: true}},
		{Egress: Egress{Proxy: addr("127.0.0.1:9")}}, {Limits: Limits{Wall: time.Minute}},
	} {
		p.Workspace = realTempDir(t)
		planned, err := Plan(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, p, "true")
		if got, want := r.Applied.String(), planned.String(); got != want {
			t.Errorf("applied %q, planned %q", got, want)
		}
	}
}

func TestAWritableDirectoryOnPathIsWithheld(t *testing.T) {
	dir := realTempDir(t)
	home, ws := filepath.Join(dir, "home"), filepath.Join(dir, "ws")
	for _, d := range []string{home + "/bin", ws} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", os.Getenv("PATH")+":"+home+"/bin")
	p, missing := Profile{Workspace: ws}.Grant([]string{home, filepath.Join(home, "cache"), "/dev/null/x"}, []string{"CACHE=1"})
	if !slices.Equal(missing, []string{"/dev/null/x"}) {
		t.Errorf("missing %v", missing)
	}
	r := run(t, p, "sh", "-c", "echo $CACHE")
	if want := []string{home}; !slices.Equal(r.Applied.Withheld, want) {
		t.Errorf("withheld %v, want %v", r.Applied.Withheld, want)
	}
	if want := []string{ws, home + "/cache"}; !slices.Equal(r.Applied.Roots, want) || r.Stdout.String() != "1\n" {
		t.Errorf("roots %v, want %v; variable %q", r.Applied.Roots, want, r.Stdout)
	}
}

// everyRung is a profile for each rung of this host, the floor and full access
// included.
func everyRung(t *testing.T, ws string) []Profile {
	t.Helper()
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := []Profile{{Workspace: ws, Mode: FullAccess}}
	for _, c := range candidates(h, Profile{}) {
		out = append(out, forced(Profile{Workspace: ws}, c.rung))
	}
	return out
}

func TestACommandCanBeAskedToEnd(t *testing.T) {
	for _, p := range everyRung(t, realTempDir(t)) {
		t.Run(string(p.only)+string(p.Mode), func(t *testing.T) {
			up := make(lines, 8)
			pr, err := Start(t.Context(), Cmd{Argv: []string{"sh", "-c", "trap 'echo asked; exit 7' TERM; echo up; while :; do sleep 0.05; done"}, Stdout: up}, p)
			if err != nil {
				t.Fatal(err)
			}
			<-up
			pr.Terminate()
			r, err := pr.Wait()
			if err != nil || !r.Exited(7) || r.Stdout.String() != "up\nasked\n" {
				t.Errorf("got %+v, %v; want its own exit code after its own word", r, err)
			}
			pr.Terminate() // after the end: nothing
		})
	}
}

func TestReadOnlyRefusesATemporaryDirectoryThatHoldsTheWorkspace(t *testing.T) {
	dir := realTempDir(t)
	ws := filepath.Join(dir, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, temp := range []string{dir, ws} {
		_, err := Run(t.Context(), Cmd{Argv: []string{"touch", "ran"}}, Profile{Workspace: ws, Mode: ReadOnly, Temp: temp})
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("temporary directory %s: got %v, want ErrInvalid", temp, err)
		}
	}
	if des, _ := os.ReadDir(ws); len(des) != 0 {
		t.Errorf("ran: %v", des)
	}
	r := run(t, Profile{Workspace: ws, Temp: dir}, "touch", "ran")
	if !r.Success() {
		t.Errorf("workspace-write: %s", r.Text(0))
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("a temporary directory of the caller's was removed: %v", err)
	}
}
