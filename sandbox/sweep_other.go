//go:build !linux

package sandbox

import (
	"os"
	"strconv"
)

// tempOwner names this process. What a killed one leaves is not swept here.
func tempOwner() string { return strconv.Itoa(os.Getpid()) }
