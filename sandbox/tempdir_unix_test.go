//go:build !windows

package sandbox

import "testing"

func tempDir(t *testing.T) string { return t.TempDir() }
