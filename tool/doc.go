// Package tool defines what a model may call: Tool, the Toolbox that a contract
// carries, and New, which makes a typed tool of a Go function.
//
// A tool states what it needs and does one thing. It never asks for permission,
// never bounds its own output and never writes to the trace: the pipeline of
// the loop does that for every tool alike, whether it is built in, registered
// by the program, or brought by a Source.
package tool
