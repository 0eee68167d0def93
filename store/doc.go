// Package store keeps everything that a run did, cost, asked, refused, changed
// and learned in one SQLite file, so that a run outlives its process, continues
// without repeating committed work, and can be audited, undone, archived and
// deleted later. Where a run stands is decided by this file alone.
//
// It is the only package that speaks SQL, and no SQL, cursor or driver error
// leaves it. It does not decide what a run does next, does not price what a run
// spent, and does not touch the files of a workspace.
package store
