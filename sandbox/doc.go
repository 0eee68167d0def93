// Package sandbox starts every command of a run. One function, [Start], takes
// an argv and a [Profile], picks the strongest mechanism the host was seen to
// have (a rung), and reports in [Applied] what really holds: where the command
// may write, what it may reach, how it will be killed, and why a stronger rung
// was passed over. [Run] is Start followed by Wait.
//
// On Linux the first rung needs no helper program: a scratch thread of this
// process drops its capabilities, restricts itself with Landlock and seccomp,
// starts the child and is thrown away; no other thread is touched. Where no
// rung can be had the portable floor still gives a process tree of its own, a
// scrubbed environment, bounded output and a wall clock, and says that files
// and network are open.
//
// The package does not decide whether a command may run (package policy does),
// parses no shell text, and never opens a file on behalf of the model.
package sandbox
