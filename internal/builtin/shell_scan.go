package builtin

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// shellPiece is a part of a line between two separators, in bytes.
type shellPiece struct{ from, to int }

// refusedConstructs says of each construct that is refused by name what the
// model should write in its place. The names are stable: they are in the trace.
var refusedConstructs = map[string]string{
	"command-substitution":       "$( ) and backticks are not run: run that command in a step of its own and write its output here",
	"arithmetic-expansion":       "arithmetic is not done: write the result",
	"parameter-expansion":        "variables are not expanded: write the value, or quote the $ with single quotes to pass it literally",
	"expansion-in-double-quotes": "$ and backticks in double quotes are not expanded: use single quotes, or \\$ to pass it literally",
	"process-substitution":       "<( ) is not run: run that command first, with its output redirected to a file",
	"subshell":                   "parentheses are not admitted: write the commands one after the other with && or ;, or quote them to pass them literally",
	"brace":                      "braces are neither a group nor expanded: write each word, or quote them to pass them literally",
	"glob":                       "patterns are not expanded: name the files (find or list_dir shows them), or quote the pattern to pass it literally",
	"tilde":                      "~ is not expanded: write a path relative to the workspace, or quote it",
	"comment":                    "comments are not admitted: leave it out, or quote the # to pass it literally",
	"negation-or-history":        "! is not admitted: use && and || to branch, or quote it to pass it literally",
	"background":                 "a single & is not admitted: shell_start leaves a command running",
	"case-terminator":            ";; is not admitted: write one ; between commands",
	"keyword":                    "compound commands are not admitted: use && and || to branch and one call for each repetition, or quote the word to call a program of that name",
	"here-document":              "here-documents are not admitted: write_file the text and use < to read it",
	"read-write-redirect":        "<> is not admitted: use < or >",
	"input-duplication":          "<& is not admitted: use < with a file",
	"clobber-redirect":           ">| is not admitted: use >",
	"descriptor-duplication":     "of the duplications only 2>&1 is admitted",
	"unsupported-descriptor":     "only <, > (1>), >> and 2>, 2>> are admitted: put a space before the > if the number is an argument",
	"control-character":          "control characters are not admitted: write the data to a file",
	"unsupported-character":      "the character is not admitted outside of quotes: quote it to pass it literally",
	"unterminated-single-quote":  "the single quote is not closed",
	"unterminated-double-quote":  "the double quote is not closed",
	"trailing-backslash":         "there is nothing behind the last backslash",
	"over-long-line":             "a line has at most 8,192 characters and 30 commands: write a script file and run it, or use several calls",
	"dangling-pipe":              "a command is missing behind the |",
	"dangling-operator":          "a command is missing behind the && or ||",
	"missing-command":            "a command is missing before the operator",
	"redirect-without-target":    "a file is missing behind the redirect",
	"redirect-without-command":   "a redirect needs a command before it",
	"empty-line":                 "there is nothing to run",
	"assignment-prefix":          "NAME=value before a command is not admitted: run env NAME=value command",
	"empty-program":              "the name of the program is empty",
	"coprocess":                  "coprocesses are not admitted: shell_start leaves a command running",
	"cd-arguments":               "cd takes one directory of the workspace, or nothing for its root",
	"redirect-to-directory":      "the redirect names a directory",
	"read-only":                  "commands of this run may not write to the workspace, and neither may a redirect",
	"path":                       "the path is none",
	"syntax-error":               "write plain commands joined by |, &&, || and ;",
}

func refuseShell(construct string, at int) *shellRefusal {
	return &shellRefusal{construct: construct, reason: refusedConstructs[construct], at: at}
}

// keywords begin or continue a compound command where a program's name stands.
var keywords = []string{
	"if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "select", "function",
}

// bareCharacter reports whether r may stand in a word without quotes.
func bareCharacter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("_-./=+:,@%", r) || r >= 0xa0
}

// constructOf names what an unquoted character begins that is not admitted.
func constructOf(r rune) string {
	switch r {
	case '(', ')':
		return "subshell"
	case '{', '}':
		return "brace"
	case '*', '?', '[', ']':
		return "glob"
	case '~':
		return "tilde"
	case '#':
		return "comment"
	case '!':
		return "negation-or-history"
	case '`':
		return "command-substitution"
	}
	if r < 0x20 {
		return "control-character"
	}
	return "unsupported-character"
}

// shellScanner goes over a line once, in characters, and refuses whatever is not
// known outside of quotes.
type shellScanner struct {
	text string
	pos  int // bytes
	at   int // characters

	pieces []shellPiece
	start  int // of the piece

	word    strings.Builder // the word so far, as it is spelt
	began   int             // where it began, in characters; -1: outside of a word
	quoted  bool            // a part of it is quoted
	command bool            // the next word is a program
	target  bool            // the next word is a redirect's file
	some    bool            // something stands since the last separator or operator
	first   int             // where that begins, in characters
}

// scanShell cuts a line at its separators and refuses what its characters tell.
func scanShell(text string) ([]shellPiece, *shellRefusal) {
	if !utf8.ValidString(text) {
		return nil, refuseShell("unsupported-character", 0)
	}
	if utf8.RuneCountInString(text) > maxLine {
		return nil, refuseShell("over-long-line", maxLine)
	}
	s := &shellScanner{text: text, began: -1, command: true}
	for s.pos < len(s.text) {
		if r := s.next(); r != nil {
			return nil, r
		}
	}
	if r := s.endCommand("", 0); r != nil {
		return nil, r
	}
	s.cut(len(text))
	return s.pieces, nil
}

func (s *shellScanner) refuse(construct string) *shellRefusal { return refuseShell(construct, s.at) }

// peek is the character n characters ahead, 0 at the end. It is only asked about
// ASCII.
func (s *shellScanner) peek(n int) byte {
	if s.pos+n < len(s.text) {
		return s.text[s.pos+n]
	}
	return 0
}

// skip moves over n characters of one byte each.
func (s *shellScanner) skip(n int) { s.pos, s.at = s.pos+n, s.at+n }

// next takes one token or a part of a word.
func (s *shellScanner) next() *shellRefusal {
	r, size := utf8.DecodeRuneInString(s.text[s.pos:])
	switch r {
	case ' ', '\t':
		s.skip(1)
		return s.endWord()
	case '\n', ';':
		return s.separator()
	case '\'':
		return s.singleQuoted()
	case '"':
		return s.doubleQuoted()
	case '\\':
		return s.escape()
	case '$':
		return s.dollar()
	case '|', '&':
		return s.operator(byte(r))
	case '<', '>':
		return s.redirection(byte(r))
	}
	if !bareCharacter(r) {
		return s.refuse(constructOf(r))
	}
	s.beginWord()
	s.word.WriteRune(r)
	s.pos, s.at = s.pos+size, s.at+1
	return nil
}

func (s *shellScanner) beginWord() {
	if s.began < 0 {
		s.began = s.at
	}
}

// endWord judges a word that is complete, by where it stands.
func (s *shellScanner) endWord() *shellRefusal {
	if s.began < 0 {
		return nil
	}
	word, quoted, at := s.word.String(), s.quoted, s.began
	s.word.Reset()
	s.began, s.quoted = -1, false
	s.stands(at)
	if s.target {
		s.target = false
		return nil
	}
	if !s.command {
		return nil
	}
	s.command = false
	if name, _, ok := strings.Cut(word, "="); ok && isName(strings.TrimSuffix(name, "+")) {
		return refuseShell("assignment-prefix", at)
	}
	if !quoted && slices.Contains(keywords, word) {
		return refuseShell("keyword", at)
	}
	return nil
}

// stands notes that the command has begun.
func (s *shellScanner) stands(at int) {
	if !s.some {
		s.some, s.first = true, at
	}
}

// isName reports whether s could be a variable.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// endCommand ends a command at an operator, a separator or the end of the line.
// missing names what is refused when there is no command; "" takes that.
func (s *shellScanner) endCommand(missing string, at int) *shellRefusal {
	if r := s.endWord(); r != nil {
		return r
	}
	if s.target {
		return s.refuse("redirect-without-target")
	}
	if !s.some && missing != "" {
		return refuseShell(missing, at)
	}
	if s.some && s.command {
		return refuseShell("redirect-without-command", s.first)
	}
	s.some, s.command = false, true
	return nil
}

func (s *shellScanner) cut(to int) {
	s.pieces = append(s.pieces, shellPiece{s.start, to})
	s.start = to
}

func (s *shellScanner) separator() *shellRefusal {
	if s.peek(0) == ';' && (s.peek(1) == ';' || s.peek(1) == '&' || s.peek(1) == '|') {
		return s.refuse("case-terminator")
	}
	if r := s.endCommand("", s.at); r != nil {
		return r
	}
	s.cut(s.pos)
	s.skip(1)
	s.start = s.pos
	return nil
}

// operator takes |, || and &&, and looks whether there is a command on both
// sides.
func (s *shellScanner) operator(c byte) *shellRefusal {
	width := 1
	if s.peek(1) == c {
		width = 2
	}
	if c == '&' && width == 1 || c == '|' && s.peek(1) == '&' {
		if c == '|' {
			s.skip(1)
		}
		return s.refuse("background")
	}
	if r := s.endCommand("missing-command", s.at); r != nil {
		return r
	}
	dangling := "dangling-operator"
	if width == 1 {
		dangling = "dangling-pipe"
	}
	ahead := width
	for s.peek(ahead) == ' ' || s.peek(ahead) == '\t' || s.peek(ahead) == '\\' && s.peek(ahead+1) == '\n' {
		if s.peek(ahead) == '\\' {
			ahead++
		}
		ahead++
	}
	switch s.peek(ahead) {
	case 0, '\n', ';':
		if s.pos+ahead >= len(s.text) || s.peek(ahead) != 0 {
			return s.refuse(dangling)
		}
	}
	s.skip(width)
	return nil
}

// redirection takes the operator of a redirect. Which descriptors and targets are
// admitted is judged on the tree.
func (s *shellScanner) redirection(c byte) *shellRefusal {
	next := s.peek(1)
	switch {
	case c == '<' && next == '<':
		return s.refuse("here-document")
	case c == '<' && next == '>':
		return s.refuse("read-write-redirect")
	case c == '<' && next == '&':
		return s.refuse("input-duplication")
	case c == '<' && next == '(':
		return s.refuse("process-substitution")
	case c == '>' && next == '|':
		return s.refuse("clobber-redirect")
	case c == '>' && next == '(':
		s.skip(1)
		return s.refuse("subshell")
	}
	at := s.at
	if s.began >= 0 && !s.quoted && !s.target && strings.Trim(s.word.String(), "0123456789") == "" {
		// The number is the descriptor, and no word.
		at = s.began
		s.word.Reset()
		s.began = -1
	} else if r := s.endWord(); r != nil {
		return r
	}
	if s.target {
		return s.refuse("redirect-without-target")
	}
	s.stands(at)
	s.target = true
	s.skip(1)
	if c == '>' && (next == '>' || next == '&') {
		s.skip(1)
	}
	return nil
}

func (s *shellScanner) dollar() *shellRefusal {
	switch {
	case s.peek(1) == '(' && s.peek(2) == '(':
		return s.refuse("arithmetic-expansion")
	case s.peek(1) == '(':
		return s.refuse("command-substitution")
	}
	return s.refuse("parameter-expansion")
}

// escape takes a backslash outside of quotes with the character behind it.
func (s *shellScanner) escape() *shellRefusal {
	r, size := utf8.DecodeRuneInString(s.text[s.pos+1:])
	switch {
	case size == 0:
		return s.refuse("trailing-backslash")
	case r == '\n':
		s.skip(2) // the line goes on
		return nil
	case r < 0x20 && r != '\t':
		s.skip(1)
		return s.refuse("control-character")
	}
	s.beginWord()
	s.quoted = true
	s.word.WriteByte('\\')
	s.pos, s.at = s.pos+1+size, s.at+2
	return nil
}

func (s *shellScanner) singleQuoted() *shellRefusal {
	open := s.at
	s.beginWord()
	s.quoted = true
	s.word.WriteByte('\'')
	s.skip(1)
	for s.pos < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[s.pos:])
		if r < 0x20 && r != '\t' && r != '\n' {
			return s.refuse("control-character")
		}
		s.pos, s.at = s.pos+size, s.at+1
		if r == '\'' {
			return nil
		}
	}
	return refuseShell("unterminated-single-quote", open)
}

func (s *shellScanner) doubleQuoted() *shellRefusal {
	open := s.at
	s.beginWord()
	s.quoted = true
	s.word.WriteByte('"')
	s.skip(1)
	for s.pos < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[s.pos:])
		switch {
		case r == '"':
			s.skip(1)
			return nil
		case r == '$' || r == '`':
			return s.refuse("expansion-in-double-quotes")
		case r < 0x20 && r != '\t' && r != '\n':
			return s.refuse("control-character")
		case r == '\\':
			if n := s.peek(1); n == '"' || n == '\\' || n == '$' || n == '`' {
				s.skip(1)
				size = 1
			}
		}
		s.pos, s.at = s.pos+size, s.at+1
	}
	return refuseShell("unterminated-double-quote", open)
}
