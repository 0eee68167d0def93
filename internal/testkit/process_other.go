//go:build !linux

package testkit

// EndIn does nothing: here nothing tells whether an id still is the same process's.
func EndIn(int, string) {}
