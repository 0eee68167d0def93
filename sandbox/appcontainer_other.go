//go:build !windows

package sandbox

import "runtime"

func probeContainer() Feature { return Feature{Why: "not on " + runtime.GOOS} }
