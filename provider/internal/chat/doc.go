// Package chat is the Chat Completions wire: the body of a request and the
// reading of its stream, in the dialects that vendors have made of it. It opens
// no connection; every function works on bytes, so that the wire is tested
// without a socket.
package chat
