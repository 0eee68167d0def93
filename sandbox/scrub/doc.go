// Package scrub removes credentials from the environment that a command gets.
// It is pure: it reads no environment by itself and records names, never
// values. It does not hide the environment of the host process; the sandbox
// does that, and says where it cannot.
package scrub
