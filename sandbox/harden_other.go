//go:build !linux

package sandbox

import "errors"

// HardenHostProcess does nothing on this system and returns errors.ErrUnsupported. On
// Linux it keeps other processes of the same user from reading the environment and the
// memory of this one.
func HardenHostProcess() error { return errors.ErrUnsupported }

func hardened() bool { return false }
