package testkit

// DSN names the file of a store to the driver "sqlite" for a connection behind the
// store's back. Such a connection waits for its turn, as the store's own do: evidence
// and leases are written at times of their own.
func DSN(path string) string { return path + "?_pragma=busy_timeout(10000)" }
