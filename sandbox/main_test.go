package sandbox

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if code, done := fixture(os.Args); done {
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}
