package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/provider"
)

// Reviewer judges a run's change. Review is called by one gate at a time for one
// run, and by several at once when the reviewer serves several runs. It must
// return soon after ctx ends. An error means that there is no verdict, which is
// not a refusal. A Reviewer that asks a model should also have a method
// Model() string that names it, so that no model is set to judge its own work.
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

// FileChange is one file that the run wrote. A renamed file is one deleted and
// one created.
type FileChange struct {
	Path string // relative to the workspace root, with "/"
	// Before is the file as it was when the run first wrote it. It is empty when
	// Created is set or Unkept says why it is not known.
	Before string
	// After is the file as it is now. It is empty when Deleted is set or Unread says why
	// it is not known.
	After   string
	Created bool   // there was no such file before
	Deleted bool   // there is no such file now
	Unkept  string // why Before is not known, "" when it is
	Unread  string // why After is not known, "" when it is
}

// ReviewResult is a reviewer's verdict.
type ReviewResult struct {
	Passed  bool
	Reasons []string
	Usage   provider.Usage // what the verdict used; zero when it cost nothing

	// Calls are the completions that it was bought with, also where there is no
	// verdict. Without any, Usage is that of one completion of the reviewer's model;
	// with some it is not looked at.
	Calls []ReviewCall
}

// ReviewCall is one completion that a reviewer paid for.
type ReviewCall struct {
	Provider string
	Model    string          // as the provider reported it, else as it was asked for
	Usage    *provider.Usage // nil: the provider did not say
	Took     time.Duration
	Failure  string // the kind of failure if there was no answer, such as "Server (HTTP 503)"; never a message
}

// ReviewerFunc makes a Reviewer of a function. It names no model.
type ReviewerFunc func(ctx context.Context, r ReviewRequest) (ReviewResult, error)

// Review calls f.
func (f ReviewerFunc) Review(ctx context.Context, r ReviewRequest) (ReviewResult, error) {
	return f(ctx, r)
}

// ReviewCriterion has the change read by somebody else. [Review] makes one.
type ReviewCriterion struct {
	rubric            string
	by                Reviewer
	self, tell, every bool
}

// Review passes when the reviewer, given the goal, the rubric and every file that
// the run wrote as it was before and is now, says that the rubric is met. A
// reviewer that fails, or whose verdict cannot be read, is an error. A nil
// reviewer means Env.Reviewer.
func Review(rubric string, by Reviewer) ReviewCriterion {
	return ReviewCriterion{rubric: rubric, by: by}
}

// AllowSelfReview returns a copy of c that lets a model judge its own work.
func (c ReviewCriterion) AllowSelfReview() ReviewCriterion {
	c.self = true
	return c
}

// TellModel returns a copy of c whose reasons are told to the model under review.
// By default they are not: a judge whose remarks are fed back is optimised
// against.
func (c ReviewCriterion) TellModel() ReviewCriterion {
	c.tell = true
	return c
}

// EveryStep returns a copy of c whose reviewer is asked at every evaluation, also
// when nothing has changed since its last verdict. By default that verdict is used
// again, since the reviewer would be paid to see what it has seen.
func (c ReviewCriterion) EveryStep() ReviewCriterion {
	c.every = true
	return c
}

// Describe gives the rubric and says who judges.
func (c ReviewCriterion) Describe() string {
	return "Someone else, another model as a rule, will read the change with nothing but the goal and this rubric, and must find the rubric met: " + c.rubric
}

// Phase is PhaseReview.
func (c ReviewCriterion) Phase() Phase { return PhaseReview }

// Validate demands a rubric.
func (c ReviewCriterion) Validate() error {
	if strings.TrimSpace(c.rubric) == "" {
		return &InvalidError{"rubric", "is empty: say what a good change does"}
	}
	return nil
}

func (c ReviewCriterion) parts() []Criterion                              { return nil }
func (c ReviewCriterion) prepare(context.Context, Env) (Criterion, error) { return c, nil }

// Credentials are those of the reviewer that c carries.
func (c ReviewCriterion) Credentials() provider.Credentials { return provider.CredentialsOf(c.by) }

func (c ReviewCriterion) reviewer(env Env) Reviewer {
	if c.by != nil {
		return c.by
	}
	return env.Reviewer
}

func (c ReviewCriterion) evaluate(ctx context.Context, env Env) (Verdict, error) {
	by := c.reviewer(env)
	if by == nil {
		return Verdict{}, missing(PhaseReview, "Reviewer, and the criterion carries none")
	}
	if env.Reviewed != nil && !c.every {
		if passed, holds := env.Reviewed(c.rubric); holds {
			return Verdict{Passed: passed, Reused: true}, nil
		}
	}
	if env.Changes == nil {
		return Verdict{}, missing(PhaseReview, "Changes")
	}
	changes, err := env.Changes(ctx)
	if err != nil {
		return Verdict{}, fail(PhaseReview, "collect the change", err)
	}
	began := time.Now()
	res, err := ask(ctx, by, ReviewRequest{Goal: env.Goal, Rubric: c.rubric, Changes: changes})
	var used provider.Usage
	for _, call := range callsOf(by, res, err, time.Since(began)) {
		if call.Usage != nil {
			used = used.Add(*call.Usage)
		}
		if env.ReportCall != nil {
			env.ReportCall(call)
		}
	}
	v := Verdict{Tokens: used.TotalTokens}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	if err != nil {
		return v, fail(PhaseReview, "ask the reviewer", err)
	}
	if env.ReportReview != nil {
		env.ReportReview(c.rubric, res)
	}
	v.Passed, v.Reasons = res.Passed, res.Reasons
	v.Detail = strings.Join(res.Reasons, "; ")
	v.TellModel = c.tell && !v.Passed
	return v, nil
}

// callsOf are the completions of a review. A reviewer that names none has made one
// if it used anything.
func callsOf(by Reviewer, res ReviewResult, err error, took time.Duration) []ReviewCall {
	if len(res.Calls) > 0 {
		return res.Calls
	}
	used := res.Usage
	if u := provider.UsageOf(err); u != nil && used == (provider.Usage{}) {
		used = *u
	}
	if used == (provider.Usage{}) {
		return nil
	}
	return []ReviewCall{{Provider: "reviewer", Model: reviewModel(by), Usage: &used, Took: took, Failure: failureOf(err)}}
}

// failureOf is a failure in one word, "" for none: the accounts hold no message of
// a vendor.
func failureOf(err error) string {
	e, ok := provider.AsError(err)
	switch {
	case err == nil:
		return ""
	case ok:
		return e.Text()
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "Cancelled"
	}
	return "Error"
}

// ask turns a panic of the reviewer into a failure: an embedded library must not
// take its program down.
func ask(ctx context.Context, by Reviewer, r ReviewRequest) (res ReviewResult, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = ReviewResult{}, fmt.Errorf("it panicked: %v", p)
		}
	}()
	return by.Review(ctx, r)
}

// ErrSelfReview is matched by the error of Preflight for a model that would judge
// its own work.
var ErrSelfReview = errors.New("a model would review its own work")

// SelfReviewError names the model that would judge its own work.
type SelfReviewError struct{ Model string }

func (e *SelfReviewError) Error() string {
	return fmt.Sprintf("verify: model %q would review its own work: name another reviewer, or allow it with AllowSelfReview", e.Model)
}

// Is reports whether target is ErrSelfReview.
func (e *SelfReviewError) Is(target error) bool { return target == ErrSelfReview }

// Preflight reports what would make c fail at its first evaluation and can be
// known before anything is billed: an invalid criterion, a review without a
// reviewer, or one whose reviewer asks a model of models, which are all the models
// that the run may write with (the provider's own, those of a fallback chain, those
// of the routing). Names are compared as they are; an empty name says nothing. A
// reviewer that does not say which model it asks cannot be compared and passes.
func Preflight(c Criterion, env Env, models []string) error {
	if c == nil {
		return nil
	}
	if err := c.Validate(); err != nil {
		return err
	}
	return walk(c, func(c Criterion) error {
		r, ok := c.(ReviewCriterion)
		if !ok {
			return nil
		}
		by := r.reviewer(env)
		if by == nil {
			return &InvalidError{"reviewer", "is not set: a review needs somebody who reads the change"}
		}
		name := reviewModel(by)
		if r.self || name == "" {
			return nil
		}
		for _, m := range models {
			if m == name {
				return &SelfReviewError{name}
			}
		}
		return nil
	})
}

// Unverifiable says why Preflight cannot tell whether a model would judge its own
// work: a reviewer of c, or the run, names no model. It is empty where every name
// is known, where no review is made, and where a review of one's own work is
// allowed. models is what Preflight is given.
func Unverifiable(c Criterion, env Env, models []string) (why string) {
	_ = walk(c, func(c Criterion) error { // fn does not fail
		r, ok := c.(ReviewCriterion)
		switch {
		case !ok || r.self || why != "":
		case reviewModel(r.reviewer(env)) == "":
			why = "the reviewer names no model"
		case !slices.ContainsFunc(models, func(m string) bool { return m != "" }):
			why = "the provider names no model"
		}
		return nil
	})
	return why
}

// reviewModel is the model that by asks, "" when it does not say.
func reviewModel(by Reviewer) string {
	if m, ok := by.(interface{ Model() string }); ok {
		return m.Model()
	}
	return ""
}
