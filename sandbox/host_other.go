//go:build !linux

package sandbox

import "runtime"

func probeNamespaces(*Host) Feature { return Feature{Why: "not on " + runtime.GOOS} }
