// Package record keeps completions in a file and serves them again, so that a
// run can be repeated without a network, a key or a bill.
//
// A recording is looked up by what was asked, never by how many questions came
// before: a run that was killed and resumed, or that asks in another order, is
// served right. It is no cache for live use: a question that was not recorded
// is an error, and said so.
//
// Recordings hold whole prompts and answers. They never hold a key.
package record
