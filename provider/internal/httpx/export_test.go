package httpx

import "time"

// SetErrorPatience changes how long the body of a failure may take, and returns
// what changes it back.
func SetErrorPatience(d time.Duration) (restore func()) {
	old := errorPatience
	errorPatience = d
	return func() { errorPatience = old }
}
