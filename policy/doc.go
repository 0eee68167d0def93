// Package policy decides what an agent may read, write, execute and connect to.
//
// A [Policy] is an immutable value made of named layers of rules and one default
// per act. A deny anywhere beats an ask anywhere, an ask beats an allow, and a
// target that no rule names falls to the default of its act. [Default] and
// [Permissive] are different things: Default reads freely, asks before writes and
// commands, refuses the network and keeps secrets closed; Permissive has no rule
// and allows everything.
//
// The package is pure: it opens no file, resolves no name, reads no clock and no
// environment. Whoever can look at the world (a workspace, a dialler, an exec
// tool) says what a target leads to in [Need].Resolved, and that can only make the
// verdict stricter.
//
// It is not a sandbox. A rule about a command line is a fence: a program that may
// run does what it likes until the operating system stops it. Allow few commands,
// and run them contained.
package policy
