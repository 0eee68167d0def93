// Package session is a durable conversation about one directory. A turn is a
// run: it has its own steps, budgets, boundary and trace, and the session adds
// only the tree that links turns to one another.
//
// It decides nothing about a run; package loop does.
package session
