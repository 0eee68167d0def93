// Package chat is the Chat Completions wire: bodies, streams and what both of
// the module's wires share about tool calls. It opens no connection; every
// function works on bytes, so that the wire is tested without a socket.
package chat
