// Package sse reads server-sent events as model vendors and the proxies before
// them really send them: bytes cut anywhere, any line end, comments, missing
// blank lines, missing last lines. It knows that payloads are JSON documents or
// the word [DONE], and nothing else about them.
package sse
