//go:build !linux && !darwin

package store

// networkFileSystem cannot tell here.
func networkFileSystem(string) string { return "" }
