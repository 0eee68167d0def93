package policy

import (
	"slices"
	"strings"
)

// commandSpellings is how many ways of writing one command refusing rules are tested
// on: as asked, without empty arguments, as resolved, and on Windows the first and the
// resolved one without the extension.
const commandSpellings = 5

// spelling is one way of writing a command.
type spelling struct {
	program string
	args    []string
	compact bool // empty arguments leave no space behind
}

// span is a part of the buffer in which the spellings are written out. Offsets and
// not slices, because a slice of slices would move the buffer to the heap.
type span struct{ from, to int }

// checkExec decides a command line, or the name of a tool.
//
// The whole joined line decides. The name of the program, in whatever spelling, can
// only make it stricter, so allowing "go test*" is enough to run go test ./..., and
// denying "git" covers /usr/bin/git status.
func (p Policy) checkExec(n Need, on platform) Verdict {
	program, args := n.Target, n.Argv
	if len(n.Argv) > 0 {
		program, args = n.Argv[0], n.Argv[1:]
	}
	var list [commandSpellings]spelling
	spellings := spell(list[:0], n, program, args, on)

	var stack [2048]byte // longer commands are written out on the heap
	buf := stack[:0]
	var spans [4 * commandSpellings]span
	for i, s := range spellings {
		start := len(buf)
		buf = appendLine(buf, s)
		end := len(buf)
		programEnd := start + len(s.program)
		base := start + baseName(s.program)
		spans[4*i] = span{start, end}
		spans[4*i+1] = span{base, end}
		spans[4*i+2] = span{start, programEnd}
		spans[4*i+3] = span{base, programEnd}
	}
	line := buf[spans[0].from:spans[0].to]
	separator := strings.IndexAny(program, `/\`)
	apart := separable(n.Argv)
	return p.decide(Exec, func(r *rule, known bool) bool {
		if r.Effect == Allow {
			return r.reaches(separator) && (apart || !r.words) && match(r.toks, line, false)
		}
		if !known {
			return match(r.toks, line, true)
		}
		for _, at := range spans[:4*len(spellings)] {
			if match(r.toks, buf[at.from:at.to], true) {
				return true
			}
		}
		return false
	})
}

// spell lists the spellings of a command, the one as asked first. It is the only one
// that allow rules see.
func spell(out []spelling, n Need, program string, args []string, on platform) []spelling {
	gaps := slices.Contains(args, "")
	out = append(out, spelling{program: program, args: args})
	if gaps {
		out = append(out, spelling{program, args, true})
	}
	if n.Resolved != "" && n.Resolved != program {
		out = append(out, spelling{n.Resolved, args, gaps})
	}
	if on.windows {
		if short := trimExecutableSuffix(program); short != program {
			out = append(out, spelling{short, args, gaps})
		}
		if short := trimExecutableSuffix(n.Resolved); short != n.Resolved {
			out = append(out, spelling{short, args, gaps})
		}
	}
	return out
}

// separable reports whether joining a command line with spaces loses nothing: the
// line "rm a b" is that of two other commands as well.
func separable(argv []string) bool {
	for _, a := range argv {
		if a == "" || strings.Contains(a, " ") {
			return false
		}
	}
	return true
}

// reaches reports whether an allow rule may speak about a program whose first path
// separator is at the given byte, -1 for a bare name. A pattern that begins with
// plain text must name the path down to there: "go*" would otherwise allow go/x, a
// file that the agent has just put into a directory called go.
func (r *rule) reaches(separator int) bool {
	return separator < 0 || r.head == 0 || r.head > separator
}

// appendLine joins a command with single spaces and no quoting, as it is shown and
// decided.
func appendLine(buf []byte, s spelling) []byte {
	buf = append(buf, s.program...)
	for _, a := range s.args {
		if s.compact && a == "" {
			continue
		}
		buf = append(buf, ' ')
		buf = append(buf, a...)
	}
	return buf
}

// baseName returns where the last part of a program's path begins, after a slash or,
// on any system, a backslash.
func baseName(program string) int { return strings.LastIndexAny(program, `/\`) + 1 }

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
