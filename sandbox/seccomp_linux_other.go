//go:build linux && !amd64 && !arm64

package sandbox

// hostCalls is empty: an architecture without a table runs without the filter,
// and so gets no rung that relies on it.
var hostCalls callTable
