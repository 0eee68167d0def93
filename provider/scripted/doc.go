// Package scripted is a model made of Go functions: the way to test an agent,
// its tools and its policy without a network, a key or a recording.
//
// A script is either a list of turns or one function that sees every request:
//
//	m := scripted.New(
//		scripted.Call("lookup_order", map[string]any{"id": 7}),
//		scripted.Say("order 7 has shipped"),
//	)
//
// It streams and reports calls early as a live provider does, counts usage, can
// fail with every typed error, and keeps the requests it was asked, so that a
// test can look at what its agent really sent. It asserts nothing itself.
package scripted
