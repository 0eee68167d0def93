package sandbox

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if code, done := fixture(os.Args); done {
		os.Exit(code)
	}
	// Test programs that were built with the race detector would each wait a
	// second at their end.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		fmt.Print(report())
		os.Exit(code)
	}))
}
