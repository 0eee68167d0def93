// Package trace holds the plain data that a run leaves behind and the watch
// over a run while it happens: typed ids, outcomes, observations, events, the
// observer and the summaries.
//
// It decides nothing and writes nothing. The rows behind these types belong to
// package store, and the order in which they come about to the loop.
package trace
