package policy

import "strings"

// checkExec decides a command line, or the name of a tool.
//
// The whole joined line decides. The name of the program, in whatever spelling, can
// only make it stricter, so allowing "go test*" is enough to run go test ./..., and
// denying "git" covers /usr/bin/git status.
func (p Policy) checkExec(n Need, on platform) Verdict {
	var stack [2048]byte // longer lines are assembled on the heap
	argv := n.Argv
	buf := stack[:0]
	var line []byte
	program := n.Target
	if len(argv) > 0 {
		program = argv[0]
		buf = appendLine(buf, program, argv[1:], false)
	} else {
		buf = append(buf, program...)
	}
	line = buf

	var room [20][]byte
	forms := append(room[:0], line)
	add := func(prog string, args []string, collapse bool) {
		start := len(buf)
		buf = appendLine(buf, prog, args, collapse)
		forms = appendProgramForms(forms, buf[start:], len(prog))
	}
	forms = appendProgramForms(forms, line, len(program))
	var args []string
	if len(argv) > 0 {
		args = argv[1:]
		if n.Target != "" && n.Target != program {
			add(n.Target, nil, false)
		}
	}
	if hasEmpty(args) {
		add(program, args, true)
	}
	if n.Resolved != "" && n.Resolved != program {
		add(n.Resolved, args, hasEmpty(args))
	}
	if on.windows {
		if short := trimExecutableSuffix(program); short != program {
			add(short, args, hasEmpty(args))
		}
		if short := trimExecutableSuffix(n.Resolved); short != n.Resolved {
			add(short, args, hasEmpty(args))
		}
	}
	separator := strings.IndexAny(program, `/\`)
	return p.decide(Exec, func(r *rule) bool {
		if r.Effect == Allow {
			return r.reaches(separator) && match(r.toks, line, false)
		}
		for _, form := range forms {
			if match(r.toks, form, true) {
				return true
			}
		}
		return false
	})
}

// reaches reports whether an allow rule may speak about a program whose first path
// separator is at the given byte, -1 for a bare name. A pattern that begins with
// plain text must name the path down to there: "go*" would otherwise allow go/x, a
// file that the agent has just put into a directory called go.
func (r *rule) reaches(separator int) bool {
	return separator < 0 || r.head == 0 || r.head > separator
}

// appendLine joins a command line with single spaces and no quoting, as it is shown
// and decided. With collapse, empty arguments leave no space behind.
func appendLine(buf []byte, program string, args []string, collapse bool) []byte {
	buf = append(buf, program...)
	for _, a := range args {
		if collapse && a == "" {
			continue
		}
		buf = append(buf, ' ')
		buf = append(buf, a...)
	}
	return buf
}

// appendProgramForms adds what a deny or ask rule is tested on for one line: the
// line, its program, and both with the program by base name. They are parts of the
// line, so nothing is copied.
func appendProgramForms(forms [][]byte, line []byte, program int) [][]byte {
	base := 0
	for i, c := range line[:program] {
		if c == '/' || c == '\\' {
			base = i + 1
		}
	}
	return append(forms, line, line[:program], line[base:], line[base:program])
}

func hasEmpty(args []string) bool {
	for _, a := range args {
		if a == "" {
			return true
		}
	}
	return false
}

// trimExecutableSuffix removes one of the extensions that Windows adds by itself when
// it looks for a program: its default PATHEXT, and the one of PowerShell scripts. The
// variable is not read, because a verdict depends on nothing but its arguments.
func trimExecutableSuffix(program string) string {
	dot := strings.LastIndexByte(program, '.')
	if dot < 0 {
		return program
	}
	switch strings.ToLower(program[dot:]) {
	case ".com", ".exe", ".bat", ".cmd", ".vbs", ".vbe", ".js", ".jse", ".wsf", ".wsh", ".msc", ".ps1":
		return program[:dot]
	}
	return program
}
