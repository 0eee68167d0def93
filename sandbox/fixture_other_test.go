//go:build !linux && !windows

package sandbox

func fixtures() map[string]func(args []string) int { return nil }
