package builtin

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// render writes a parsed line so that it can be compared: each argument in
// quotes, redirects behind their stage.
func (l *shellLine) render() string {
	var lists []string
	for _, list := range l.lists {
		var b strings.Builder
		for i, p := range list.pipelines {
			if i > 0 {
				fmt.Fprintf(&b, " %s ", p.after)
			}
			for j, s := range p.stages {
				if j > 0 {
					b.WriteString(" | ")
				}
				for k, a := range s.argv {
					if k > 0 {
						b.WriteByte(' ')
					}
					fmt.Fprintf(&b, "%q", a)
				}
				for _, r := range s.redirects {
					if r.op == joinErrors {
						b.WriteString(" 2>&1")
						continue
					}
					fmt.Fprintf(&b, " %d%s%q", r.fd, r.op, r.target)
				}
			}
		}
		lists = append(lists, b.String())
	}
	return strings.Join(lists, " ; ")
}

func TestWhatTheGrammarAdmits(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{`go test ./...`, `"go" "test" "./..."`},
		{`a 'b  c'd"e"f\ g`, `"a" "b  cdef g"`},
		{`a '' ""`, `"a" "" ""`},
		{`echo '$x' '*' "a\$b" "\\" "\q" \$x \* \~ \# '#'`, `"echo" "$x" "*" "a$b" "\\" "\\q" "$x" "*" "~" "#" "#"`},
		{"echo \"a\\\nb\" c\\\nd 'e\\\nf'", `"echo" "ab" "cd" "e\\\nf"`},
		{"echo 'two\nlines' \"tab\there\"", `"echo" "two\nlines" "tab\there"`},
		{"echo a\\\tb", `"echo" "a\tb"`},
		{"a\nb\n\n;; "[:4] + ";c;", `"a" ; "b" ; "c"`},
		{";\n ; a ;", `"a"`},
		{`a|b | c`, `"a" | "b" | "c"`},
		{`a && b || c && d | e`, `"a" && "b" || "c" && "d" | "e"`},
		{"a && \\\n b", `"a" && "b"`},
		{`a > f`, `"a" 1>"f"`},
		{`a 1>f 2>>'g h' <i`, `"a" 1>"f" 2>>"g h" 0<"i"`},
		{`a 0< f 1>> g`, `"a" 0<"f" 1>>"g"`},
		{`> f a b`, `"a" "b" 1>"f"`},
		{`a >f 2>&1`, `"a" 1>"f" 2>&1`},
		{`a 2>&1 | b`, `"a" 2>&1 | "b"`},
		{`a 2>&1>f`, `"a" 2>&1 1>"f"`},
		{`echo "2"> f`, `"echo" "2" 1>"f"`},
		{`echo \2> f`, `"echo" "2" 1>"f"`},
		{`cmd 2 > f`, `"cmd" "2" 1>"f"`},
		{`cmd a2>f`, `"cmd" "a2" 1>"f"`},
		{`cmd 2> f`, `"cmd" 2>"f"`},
		{`'if' x; \if; echo if then done`, `"if" "x" ; "if" ; "echo" "if" "then" "done"`},
		{`'A'=1; echo A=1 B=2`, `"A=1" ; "echo" "A=1" "B=2"`},
		{`time ls; export A; eval x; exec y; . z`, `"time" "ls" ; "export" "A" ; "eval" "x" ; "exec" "y" ; "." "z"`},
		{`echo é ’ 漢字 🙂`, `"echo" "é" "’" "漢字" "🙂"`},
		{`mail a@b.c 50% x:y,z +1 -- -`, `"mail" "a@b.c" "50%" "x:y,z" "+1" "--" "-"`},
		{`a 2>/dev/null >'>'`, `"a" 2>"/dev/null" 1>">"`},
		{`echo '&&' "|" ';' \; \& \|`, `"echo" "&&" "|" ";" ";" "&" "|"`},
		{`cd`, `"cd"`},
		{strings.Repeat("x", maxLine), fmt.Sprintf("%q", strings.Repeat("x", maxLine))},
		{strings.Repeat("a;", maxStages), strings.TrimSuffix(strings.Repeat(`"a" ; `, maxStages), " ; ")},
	} {
		line, refused := parseShell(tc.line)
		if refused != nil {
			t.Errorf("%q is refused: %v", tc.line, refused)
			continue
		}
		if got := line.render(); got != tc.want {
			t.Errorf("%q is read as\n%s, want\n%s", tc.line, got, tc.want)
		}
	}
}

// refusedLines has a line for every construct that is refused by name, and more
// where a construct has several forms. at is in characters.
var refusedLines = []struct {
	line, construct string
	at              int
}{
	{"echo $(id)", "command-substitution", 5},
	{"echo `id`", "command-substitution", 5},
	{"é $(id)", "command-substitution", 2},
	{"echo $((1+1))", "arithmetic-expansion", 5},
	{"echo $HOME", "parameter-expansion", 5},
	{"echo ${HOME}", "parameter-expansion", 5},
	{"echo $'a'", "parameter-expansion", 5},
	{`echo $"a"`, "parameter-expansion", 5},
	{"$CMD", "parameter-expansion", 0},
	{"echo $", "parameter-expansion", 5},
	{`echo "a $HOME"`, "expansion-in-double-quotes", 8},
	{`echo "$(id)"`, "expansion-in-double-quotes", 6},
	{"echo \"`id`\"", "expansion-in-double-quotes", 6},
	{`echo "$"`, "expansion-in-double-quotes", 6},
	{"diff <(a) b", "process-substitution", 5},
	{"tee >(a)", "subshell", 5},
	{"(a)", "subshell", 0},
	{"a; (b)", "subshell", 3},
	{"f() a", "subshell", 1},
	{"a )", "subshell", 2},
	{"echo {a,b}", "brace", 5},
	{"{ a; }", "brace", 0},
	{"}", "brace", 0},
	{"ls *", "glob", 3},
	{"ls a?", "glob", 4},
	{"ls [ab]", "glob", 3},
	{"[ -f x ]", "glob", 0},
	{"ls ~", "tilde", 3},
	{"ls a~b", "tilde", 4},
	{"a # b", "comment", 2},
	{"a#b", "comment", 1},
	{"! a", "negation-or-history", 0},
	{"echo hi!", "negation-or-history", 7},
	{"a &", "background", 2},
	{"a & b", "background", 2},
	{"a &> f", "background", 2},
	{"a |& b", "background", 3},
	{"git log & rm -r build", "background", 8},
	{"a ;; b", "case-terminator", 2},
	{"a ;& b", "case-terminator", 2},
	{"if true; then a; fi", "keyword", 0},
	{"a; then b", "keyword", 3},
	{"elif", "keyword", 0},
	{"else", "keyword", 0},
	{"a && fi", "keyword", 5},
	{"for x in a b; do c; done", "keyword", 0},
	{"while a; do b; done", "keyword", 0},
	{"until a; do b; done", "keyword", 0},
	{"do a", "keyword", 0},
	{"a | done", "keyword", 4},
	{"case a in b", "keyword", 0},
	{"esac", "keyword", 0},
	{"select x", "keyword", 0},
	{"function f", "keyword", 0},
	{"> f if", "keyword", 4},
	{"i\\\nf", "keyword", 0},
	{"cat <<EOF\nx\nEOF", "here-document", 4},
	{"cat <<-EOF\nx\nEOF", "here-document", 4},
	{"cat <<< x", "here-document", 4},
	{"a <> f", "read-write-redirect", 2},
	{"a <&3", "input-duplication", 2},
	{"a 0<&-", "input-duplication", 3},
	{"a >| f", "clobber-redirect", 2},
	{"a >&2", "descriptor-duplication", 2},
	{"a 1>&2", "descriptor-duplication", 2},
	{"a 2>&12", "descriptor-duplication", 2},
	{"a 2>&1x", "descriptor-duplication", 2},
	{"a 2>&-", "descriptor-duplication", 2},
	{"a 2>& f", "descriptor-duplication", 2},
	{`a 2>&"1"`, "descriptor-duplication", 2},
	{"a >& f", "descriptor-duplication", 2},
	{"a 3> f", "unsupported-descriptor", 2},
	{"a 0> f", "unsupported-descriptor", 2},
	{"a 1< f", "unsupported-descriptor", 2},
	{"a 02> f", "unsupported-descriptor", 2},
	{"a 99999999999999999999> f", "unsupported-descriptor", 2},
	{"a\x00b", "control-character", 1},
	{"a 'x\x00'", "control-character", 4},
	{"a \"x\x1b\"", "control-character", 4},
	{"a \\\x01", "control-character", 3},
	{"a\rb", "control-character", 1},
	{"a\r\nb", "control-character", 1},
	{"a ^b", "unsupported-character", 2},
	{"a \x7f", "unsupported-character", 2},
	{"a \u0085", "unsupported-character", 2},
	{"a \xff", "unsupported-character", 0},
	{"a 'b", "unterminated-single-quote", 2},
	{`a "b`, "unterminated-double-quote", 2},
	{`a "b\"`, "unterminated-double-quote", 2},
	{`a \`, "trailing-backslash", 2},
	{strings.Repeat("x", maxLine+1), "over-long-line", maxLine},
	{strings.Repeat("é", maxLine+1), "over-long-line", maxLine},
	{strings.Repeat("a;", maxStages) + "b", "over-long-line", 2 * maxStages},
	{strings.Repeat("a|", maxStages) + "b", "over-long-line", 2 * maxStages},
	{"a |", "dangling-pipe", 2},
	{"a | ; b", "dangling-pipe", 2},
	{"a |\nb", "dangling-pipe", 2},
	{"a &&", "dangling-operator", 2},
	{"a || ; b", "dangling-operator", 2},
	{"a &&\nb", "dangling-operator", 2},
	{"a >", "redirect-without-target", 3},
	{"a > | b", "redirect-without-target", 4},
	{"a > ; b", "redirect-without-target", 4},
	{"a > > f", "redirect-without-target", 4},
	{"a > ''", "redirect-without-target", 2},
	{"> f", "redirect-without-command", 0},
	{"a; < f", "redirect-without-command", 3},
	{"> f | b", "redirect-without-command", 0},
	{"&& a", "missing-command", 0},
	{"| a", "missing-command", 0},
	{"a && && b", "missing-command", 5},
	{"a; || b", "missing-command", 3},
	{"a | | b", "missing-command", 4},
	{"", "empty-line", 0},
	{" \t\n ; \n", "empty-line", 0},
	{"\\\n", "empty-line", 0},
	{"A=1 git push", "assignment-prefix", 0},
	{"a; B=", "assignment-prefix", 3},
	{"A+=1 b", "assignment-prefix", 0},
	{`A='x' b`, "assignment-prefix", 0},
	{"''", "empty-program", 0},
	{`a; "" b`, "empty-program", 3},
	{"' ' b", "empty-program", 0},
}

func TestWhatTheGrammarRefusesByName(t *testing.T) {
	seen := map[string]bool{}
	for _, tc := range refusedLines {
		seen[tc.construct] = true
		line, refused := parseShell(tc.line)
		short := within(tc.line, 40)
		if refused == nil {
			t.Errorf("%q is read as %s, want %s", short, line.render(), tc.construct)
			continue
		}
		if refused.construct != tc.construct || refused.at != tc.at {
			t.Errorf("%q: refused as %s at %d, want %s at %d", short, refused.construct, refused.at, tc.construct, tc.at)
		}
		if refused.reason == "" {
			t.Errorf("%q: %s has no reason", short, refused.construct)
		}
	}
	// These come from the plan, or from trees that the scan lets nobody write.
	for _, name := range []string{"cd-arguments", "redirect-to-directory", "read-only", "path", "coprocess", "syntax-error"} {
		seen[name] = true
	}
	for name := range refusedConstructs {
		if !seen[name] {
			t.Errorf("no line is refused as %s", name)
		}
	}
}

// TestNoCharacterIsAdmittedByAccident tries every character of ASCII without
// quotes. The list is written out on purpose: it is not what the scanner uses.
func TestNoCharacterIsAdmittedByAccident(t *testing.T) {
	const bare = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=+:,@%"
	for c := range rune(0x80) {
		for _, form := range []string{"echo a%sb", "%secho", "echo %s", "%s x"} {
			text := fmt.Sprintf(form, string(c))
			line, refused := parseShell(text)
			switch {
			case strings.ContainsRune(bare, c):
				if refused != nil {
					t.Errorf("%q is refused: %v", text, refused)
				}
			case refused != nil, c == ' ', c == '\t', c == '\n', c == ';':
			case c == '<', c == '>':
				if len(line.all()[0].redirects) != 1 {
					t.Errorf("%q is read as %s", text, line.render())
				}
			case c == '|':
				if line.stages != 2 {
					t.Errorf("%q is read as %s", text, line.render())
				}
			case c == '\\':
				if strings.Contains(strings.Join(line.all()[0].argv, " "), `\`) {
					t.Errorf("%q is read as %s", text, line.render())
				}
			default:
				t.Errorf("%q is read as %s", text, line.render())
			}
		}
	}
}

// plainShell is a second reading of a line that was accepted: split by hand into
// words and operators. It knows nothing of the parser.
func plainShell(text string) (words []string, operators int) {
	var word strings.Builder
	in := false
	end := func() {
		if in {
			words = append(words, word.String())
		}
		word.Reset()
		in = false
	}
	rs := []rune(text)
	for i := 0; i < len(rs); i++ {
		switch r := rs[i]; r {
		case ' ', '\t', '\n', ';':
			end()
		case '\'':
			in = true
			for i++; rs[i] != '\''; i++ {
				word.WriteRune(rs[i])
			}
		case '"':
			in = true
			for i++; rs[i] != '"'; i++ {
				if rs[i] == '\\' && rs[i+1] == '\n' {
					i++
					continue
				}
				if rs[i] == '\\' && strings.ContainsRune("\"\\$`", rs[i+1]) {
					i++
				}
				word.WriteRune(rs[i])
			}
		case '\\':
			i++
			if rs[i] != '\n' {
				in = true
				word.WriteRune(rs[i])
			}
		case '|', '&':
			end()
			operators++
			if rs[i+1] == r {
				i++
			}
		case '<', '>':
			end()
			words = append(words, "\x00"+string(r)) // a mark that no word can hold
			if i+1 < len(rs) && rs[i+1] == '&' {
				i++
			} else if i+1 < len(rs) && rs[i+1] == '>' {
				i++
			}
		default:
			in = true
			word.WriteRune(r)
		}
	}
	end()
	return words, operators
}

// agree holds an accepted line against the second reading.
func agree(t *testing.T, text string, line *shellLine) {
	t.Helper()
	words, operators := plainShell(text)
	var got []string
	joined := 0
	for _, list := range line.lists {
		for _, p := range list.pipelines {
			joined += len(p.stages) - 1
		}
		joined += len(list.pipelines) - 1
	}
	for _, s := range line.all() {
		got = append(got, s.argv...)
		for _, a := range s.argv {
			if i := strings.IndexFunc(a, func(r rune) bool { return r < 0x20 && r != '\t' && r != '\n' }); i >= 0 {
				t.Fatalf("%q yields an argument with a control character: %q", text, a)
			}
		}
	}
	if joined != operators {
		t.Fatalf("%q has %d operators and is read as %s", text, operators, line.render())
	}
	// Without redirects the words must be the arguments, one for one.
	if !strings.Contains(strings.Join(words, ""), "\x00") {
		if diff := cmp.Diff(words, got); diff != "" {
			t.Fatalf("%q: arguments differ (-by hand +parsed):\n%s", text, diff)
		}
	}
}

func TestRandomLinesAreReadAsTheyAreWritten(t *testing.T) {
	const alphabet = "ab12 \t\n;|&<>'\"\\$`(){}*?[]~#!=/.-é\x01"
	rs := []rune(alphabet)
	rnd := rand.New(rand.NewPCG(1, 2))
	accepted := 0
	for range 20_000 {
		text := make([]rune, rnd.IntN(14))
		for i := range text {
			text[i] = rs[rnd.IntN(len(rs))]
			if rnd.IntN(3) > 0 {
				text[i] = rs[rnd.IntN(14)] // mostly what may be accepted
			}
		}
		if line, refused := parseShell(string(text)); refused == nil {
			accepted++
			agree(t, string(text), line)
		}
	}
	if accepted < 200 {
		t.Errorf("only %d lines were accepted: the alphabet is wrong", accepted)
	}
}

func FuzzParseShell(f *testing.F) {
	for _, tc := range refusedLines {
		if len(tc.line) < 200 {
			f.Add(tc.line)
		}
	}
	for _, s := range []string{`a 'b'"c"\d`, "a && b || c | d > f 2>&1; e", "a \"\\\n\" \\\nb", "cd x && ./y < z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		line, refused := parseShell(text)
		if refused != nil {
			if refused.construct == "" || refused.at < 0 || refused.reason == "" {
				t.Fatalf("%q: refused as %+v", text, refused)
			}
			return
		}
		if line.stages != len(line.all()) || line.stages < 1 || line.stages > maxStages {
			t.Fatalf("%q: %d stages counted, %d there", text, line.stages, len(line.all()))
		}
		agree(t, text, line)
	})
}

func TestAPathThatLostItsSeparatorsIsHintedAt(t *testing.T) {
	for _, tc := range []struct {
		goos, program string
		hint          bool
	}{
		{"windows", "C:repox.exe", true}, {"windows", "d:x", true},
		{"windows", `C:\repo\x.exe`, false}, {"windows", "C:/repo/x.exe", false}, {"windows", "tool", false}, {"windows", "C:", false}, {"windows", "1:x", false},
		{"linux", "C:repox.exe", false},
	} {
		if got := unescaped(tc.goos, tc.program); (got != "") != tc.hint {
			t.Errorf("%s, %s: %q", tc.goos, tc.program, got)
		}
	}
}
