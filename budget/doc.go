// Package budget holds what a run may spend: steps, wall clock, tokens and
// retries. It is pure: it reads no clock and keeps no rows.
package budget
