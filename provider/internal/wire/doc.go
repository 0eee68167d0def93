// Package wire is what the module's wires share: the transcript in a form that
// every vendor accepts, the assembling of tool calls from fragments, and the
// reading of failures. It knows no vendor's body and opens no connection.
package wire
