package verify

import (
	"context"

	"github.com/initorigin/io-harness-go/provider"
)

// Reviewer judges a run's change. Review is called by one gate at a time for one
// run, and by several at once when the reviewer serves several runs. It must
// return soon after ctx ends. An error means that there is no verdict, which is
// not a refusal. A Reviewer that asks a model should have a method Model() string
// that names it, so that no model is set to judge its own work.
type Reviewer interface {
	Review(ctx context.Context, r ReviewRequest) (ReviewResult, error)
}

// ReviewRequest is what a reviewer sees: never the run's conversation, nor the
// author's own account of the work.
type ReviewRequest struct {
	Goal    string
	Rubric  string
	Changes []FileChange // in the order of the first write; empty: nothing changed
}

// FileChange is one file that the run wrote.
type FileChange struct {
	Path string // relative to the workspace root, with "/"
	// Before is the file as it was when the run first wrote it. It is empty when
	// Created is set or Unkept says why it is not known.
	Before string
	// After is the file as it is now; empty when Deleted.
	After   string
	Created bool   // there was no such file before
	Deleted bool   // there is no such file now
	Unkept  string // why Before is not known, "" when it is
}

// ReviewResult is a reviewer's verdict.
type ReviewResult struct {
	Passed  bool
	Reasons []string
	Usage   provider.Usage // what the verdict used; zero when it cost nothing
}
