// Package builtin holds the tools that every run has: the files of the
// workspace, searching them, commands, the project's checker and git.
//
// Each is a tool.Tool like any other. It says what it needs, does one thing and
// says what happened. Permission, journal, bounding of the output and the trace
// are the pipeline's work; what a path or a process may do is decided in
// packages workspace and sandbox. Tools that act on the run itself (notes,
// questions, plans, agents) are not here.
package builtin
