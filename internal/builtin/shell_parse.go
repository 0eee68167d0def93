package builtin

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// Limits of a command line. A line over them is refused before anything of it is
// looked at: what is too much to check is never half checked.
const (
	maxLine   = 8192 // characters
	maxStages = 30   // sub-commands
)

// shellLine is a command line as it will be run: lists that follow one another
// whatever happens, each of pipelines that are joined by && and ||.
type shellLine struct {
	text   string
	lists  []shellList
	stages int
}

type shellList struct {
	pipelines []shellPipeline
}

// shellPipeline is stages that run at the same time, each reading what the one
// before it prints.
type shellPipeline struct {
	after  connector // how it hangs on the pipeline before it
	stages []*shellStage
}

// connector is what stands between two pipelines of a list.
type connector string

const (
	always    connector = ""
	onSuccess connector = "&&"
	onFailure connector = "||"
)

// shellStage is one sub-command.
type shellStage struct {
	argv      []string
	redirects []redirect
	at        int // where it begins, in characters

	dir string // set by plan: the working directory, relative to the root
}

func (s *shellStage) isCd() bool { return s.argv[0] == "cd" }

// redirect is one redirection, in the order of the line.
type redirect struct {
	op     redirectOp
	fd     int    // 0, 1 or 2
	target string // of all but joinErrors; set by plan to a path of the workspace
	at     int
	null   bool // set by plan: the target is the null device
}

type redirectOp string

const (
	readFrom   redirectOp = "<"
	truncate   redirectOp = ">"
	appendTo   redirectOp = ">>"
	joinErrors redirectOp = "2>&1"
)

// shellRefusal says why a line is not run, before anything of it is.
type shellRefusal struct {
	construct string // a stable name
	reason    string // what is wrong, and what to do instead
	at        int    // in characters
}

func (r *shellRefusal) Error() string {
	return fmt.Sprintf("%s at character %d: %s", r.construct, r.at+1, r.reason)
}

// parseShell reads a command line. What is not known to be harmless is refused by
// name: first by the characters that stand outside of quotes, then by what the
// parser makes of them.
func parseShell(text string) (*shellLine, *shellRefusal) {
	pieces, refused := scanShell(text)
	if refused != nil {
		return nil, refused
	}
	line := &shellLine{text: text}
	for _, p := range pieces {
		if refused := line.addList(text, p); refused != nil {
			return nil, refused
		}
	}
	if line.stages == 0 {
		return nil, refuseShell("empty-line", 0)
	}
	return line, nil
}

// addList parses the part of the line between two separators.
func (l *shellLine) addList(text string, p shellPiece) *shellRefusal {
	b := &listBuilder{line: l, base: utf8.RuneCountInString(text[:p.from]), text: text[p.from:p.to]}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(b.text), "")
	if err != nil {
		return b.syntaxError(err)
	}
	for _, stmt := range file.Stmts {
		if err := b.statement(stmt, always, false); err != nil {
			return err
		}
	}
	if len(b.list.pipelines) > 0 {
		l.lists = append(l.lists, b.list)
	}
	return nil
}

// listBuilder turns the syntax tree of one list into pipelines. It knows the
// nodes that it takes; every other one is refused.
type listBuilder struct {
	line *shellLine
	base int // characters before the list
	text string
	list shellList
}

// at is a position of the tree in characters of the whole line.
func (b *listBuilder) at(p syntax.Pos) int {
	if !p.IsValid() {
		return b.base
	}
	return b.base + utf8.RuneCountInString(b.text[:min(int(p.Offset()), len(b.text))])
}

func (b *listBuilder) refuse(construct string, p syntax.Pos) *shellRefusal {
	return refuseShell(construct, b.at(p))
}

func (b *listBuilder) syntaxError(err error) *shellRefusal {
	at := b.base
	reason := err.Error()
	if pe, ok := err.(syntax.ParseError); ok {
		at, reason = b.at(pe.Pos), pe.Text
	}
	r := refuseShell("syntax-error", at)
	r.reason = reason + "; " + r.reason
	return r
}

// statement adds a command, or what && and || join. piped says that it stands in
// a pipeline, where only commands can.
func (b *listBuilder) statement(s *syntax.Stmt, after connector, piped bool) *shellRefusal {
	switch {
	case s.Background || s.Disown:
		return b.refuse("background", s.Semicolon)
	case s.Coprocess:
		return b.refuse("coprocess", s.Pos())
	case s.Negated:
		return b.refuse("negation-or-history", s.Pos())
	}
	switch cmd := s.Cmd.(type) {
	case nil:
		return b.refuse("redirect-without-command", s.Pos())
	case *syntax.CallExpr:
		return b.call(s, cmd, after, piped)
	case *syntax.BinaryCmd:
		if len(s.Redirs) > 0 {
			return b.refuse("redirect-without-command", s.Redirs[0].Pos())
		}
		return b.binary(cmd, after, piped)
	default:
		return b.node(cmd)
	}
}

func (b *listBuilder) binary(cmd *syntax.BinaryCmd, after connector, piped bool) *shellRefusal {
	switch cmd.Op {
	case syntax.Pipe:
		if err := b.statement(cmd.X, after, piped); err != nil {
			return err
		}
		return b.statement(cmd.Y, always, true)
	case syntax.AndStmt, syntax.OrStmt:
		if piped {
			return b.node(cmd)
		}
		if err := b.statement(cmd.X, after, false); err != nil {
			return err
		}
		next := onSuccess
		if cmd.Op == syntax.OrStmt {
			next = onFailure
		}
		return b.statement(cmd.Y, next, false)
	}
	return b.node(cmd)
}

// call adds one stage: to the pipeline before it when piped, else as a new one.
func (b *listBuilder) call(s *syntax.Stmt, cmd *syntax.CallExpr, after connector, piped bool) *shellRefusal {
	if len(cmd.Assigns) > 0 {
		return b.refuse("assignment-prefix", cmd.Assigns[0].Pos())
	}
	if len(cmd.Args) == 0 {
		return b.refuse("redirect-without-command", s.Pos())
	}
	stage := &shellStage{at: b.at(cmd.Args[0].Pos())}
	for _, w := range cmd.Args {
		arg, err := b.word(w)
		if err != nil {
			return err
		}
		stage.argv = append(stage.argv, arg)
	}
	if strings.TrimSpace(stage.argv[0]) == "" {
		return b.refuse("empty-program", cmd.Args[0].Pos())
	}
	for _, r := range s.Redirs {
		add, err := b.redirect(r)
		if err != nil {
			return err
		}
		stage.redirects = append(stage.redirects, add)
	}
	if b.line.stages++; b.line.stages > maxStages {
		return b.refuse("over-long-line", cmd.Pos())
	}
	if n := len(b.list.pipelines); piped && n > 0 {
		last := &b.list.pipelines[n-1]
		last.stages = append(last.stages, stage)
		return nil
	}
	b.list.pipelines = append(b.list.pipelines, shellPipeline{after: after, stages: []*shellStage{stage}})
	return nil
}

func (b *listBuilder) redirect(r *syntax.Redirect) (redirect, *shellRefusal) {
	out := redirect{at: b.at(r.Pos()), fd: -1}
	if r.Word == nil {
		return out, b.refuse("redirect-without-target", r.Pos())
	}
	n := ""
	if r.N != nil {
		n = r.N.Value
	}
	switch r.Op {
	case syntax.RdrIn:
		out.op, out.fd = readFrom, map[string]int{"": 0, "0": 0}[n]
		if n != "" && n != "0" {
			return out, b.refuse("unsupported-descriptor", r.Pos())
		}
	case syntax.RdrOut, syntax.AppOut:
		out.op = truncate
		if r.Op == syntax.AppOut {
			out.op = appendTo
		}
		switch n {
		case "", "1":
			out.fd = 1
		case "2":
			out.fd = 2
		default:
			return out, b.refuse("unsupported-descriptor", r.Pos())
		}
	case syntax.DplOut:
		if n != "2" || r.Word.Lit() != "1" {
			return out, b.refuse("descriptor-duplication", r.Pos())
		}
		out.op, out.fd = joinErrors, 2
		return out, nil
	case syntax.RdrInOut:
		return out, b.refuse("read-write-redirect", r.Pos())
	case syntax.DplIn:
		return out, b.refuse("input-duplication", r.Pos())
	case syntax.RdrClob, syntax.AppClob:
		return out, b.refuse("clobber-redirect", r.Pos())
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		return out, b.refuse("here-document", r.Pos())
	default:
		return out, b.node(r)
	}
	var err *shellRefusal
	out.target, err = b.word(r.Word)
	if err == nil && out.target == "" {
		err = b.refuse("redirect-without-target", r.Pos())
	}
	return out, err
}

// word is the text that a word stands for: quotes and escapes taken away, and
// nothing else, since there is nothing to expand.
func (b *listBuilder) word(w *syntax.Word) (string, *shellRefusal) {
	var s strings.Builder
	for _, part := range w.Parts {
		switch part := part.(type) {
		case *syntax.Lit:
			s.WriteString(unescape(part.Value, ""))
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", b.refuse("parameter-expansion", part.Pos())
			}
			s.WriteString(part.Value)
		case *syntax.DblQuoted:
			if part.Dollar {
				return "", b.refuse("parameter-expansion", part.Pos())
			}
			for _, in := range part.Parts {
				lit, ok := in.(*syntax.Lit)
				if !ok {
					return "", b.refuse("expansion-in-double-quotes", in.Pos())
				}
				s.WriteString(unescape(lit.Value, "\"\\$`"))
			}
		default:
			return "", b.node(part)
		}
	}
	return s.String(), nil
}

// unescape takes away the backslashes that quote the character behind them: any
// character, or with only, one of those.
func unescape(s, only string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && (only == "" || strings.IndexByte(only, s[i+1]) >= 0) {
			i++
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// node refuses a part of the syntax tree that is not on the list, by its name.
func (b *listBuilder) node(n syntax.Node) *shellRefusal {
	name := "syntax-error"
	switch n := n.(type) {
	case *syntax.Subshell:
		name = "subshell"
	case *syntax.Block:
		name = "brace"
	case *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.FuncDecl:
		name = "keyword"
	case *syntax.ParamExp:
		name = "parameter-expansion"
	case *syntax.CmdSubst:
		name = "command-substitution"
	case *syntax.ArithmExp, *syntax.ArithmCmd:
		name = "arithmetic-expansion"
	case *syntax.ProcSubst:
		name = "process-substitution"
	case *syntax.ExtGlob:
		name = "glob"
	case *syntax.BraceExp:
		name = "brace"
	default:
		r := b.refuse(name, n.Pos())
		r.reason = strings.TrimPrefix(fmt.Sprintf("%T", n), "*syntax.") + " is not admitted; " + r.reason
		return r
	}
	return b.refuse(name, n.Pos())
}
