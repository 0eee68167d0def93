// Package prompt composes what a model is sent: the system block, the user text
// of a step, the section of observations with its budget, the transcript that
// pairs calls with results, the summary that takes the place of old
// observations, and every sentence that the loop itself adds to a ledger.
//
// Everything here is a function of its arguments. Nothing reads a file, a clock
// or a store, nothing decides what is allowed, and the same arguments give the
// same bytes. Who needs a file read again is told which one (Reads) and hands
// the result in.
package prompt
