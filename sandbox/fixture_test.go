package sandbox

// fixture runs one of the small programs that the tests start: this test binary
// with a first argument that names it. done is false for an ordinary test run.
func fixture(args []string) (code int, done bool) {
	if len(args) < 2 {
		return 0, false
	}
	f, ok := fixtures()[args[1]]
	if !ok {
		return 0, false
	}
	return f(args[2:]), true
}
