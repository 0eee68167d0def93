// Package proxy is the one way out for the commands of a run whose policy names
// hosts: an HTTP proxy on the loopback address that asks the policy about every
// single dial, resolves the name itself, and connects to the very address that
// was judged. It forwards CONNECT tunnels and plain requests in absolute form;
// it looks into no tunnel and ends no TLS.
//
// It keeps nobody from dialling past it: that is the sandbox's part, and where
// the sandbox cannot do it, the proxy is advice. Other programs of the same
// host can use the port while the run lasts, unless the proxy wants a login.
package proxy
