// Package task holds everything that a caller states about one piece of work:
// the contract of a run. It is plain data; copying it and changing a field
// affects nobody else, and nothing in it runs.
package task
