// Package memory decides which notes of earlier runs a request carries: those
// that share most words with what the run is about, and among equals those that
// most runs have drawn on.
//
// It is pure. The notes, the limits on them and the evidence for them are in
// package store; how they are printed is decided where requests are written.
package memory
