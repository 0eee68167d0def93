//go:build !linux && !darwin && !windows

package store

// processState cannot tell here, so that only a lease's time decides.
func processState(int) (liveness, string) { return unknown, "" }

func bootID() string { return "" }

func pidNamespace() string { return "" }
