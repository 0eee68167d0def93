package httpx

import (
	"net/http"
	"net/url"
	"time"
)

// SetErrorPatience changes how long the body of a failure may take, and returns
// what changes it back.
func SetErrorPatience(d time.Duration) (restore func()) {
	old := errorPatience
	errorPatience = d
	return func() { errorPatience = old }
}

// SetProxy changes what is asked for the proxy of a request.
func SetProxy(f func(*http.Request) (*url.URL, error)) (restore func()) {
	old := proxyFor
	proxyFor = f
	return func() { proxyFor = old }
}
