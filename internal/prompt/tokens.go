package prompt

import (
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Defaults of the observation section.
const (
	// DefaultMaxTokens is the size of the section when nothing else bounds it.
	// Every current model's window holds several of it beside the system block.
	DefaultMaxTokens = 24_000
	// DefaultShare is the part of the remaining token budget that one request's
	// observations may take: half, so that a run near its end still gets a
	// second request.
	DefaultShare = 0.5
	// MinTokens is the floor under the share. Below it a model cannot see one
	// whole file of ordinary size and only repeats itself.
	MinTokens = 2_000
	// minEntryChars is the floor under the cap of one observation.
	minEntryChars = 2_000
	// charsPerToken is the estimate's only constant. English prose and source
	// code lie between 3 and 4.5 characters per token with today's vocabularies.
	charsPerToken = 4
)

// EstimateTokens guesses the tokens of s: a quarter of its characters, rounded
// up. Characters are Unicode code points; an invalid byte counts as one.
func EstimateTokens(s string) int {
	return (utf8.RuneCountInString(s) + charsPerToken - 1) / charsPerToken
}

// Budget bounds the observation section of a request. The zero value means the
// defaults.
type Budget struct {
	// MaxTokens caps the section, in estimated tokens. Zero means
	// DefaultMaxTokens.
	MaxTokens int
	// Share is the part of the run's remaining tokens that the section may
	// take, above 0 and at most 1. Zero means DefaultShare.
	Share float64
}

// Validate reports every value that can never be meant.
func (b Budget) Validate() error {
	var errs []error
	if b.MaxTokens < 0 {
		errs = append(errs, fmt.Errorf("context tokens is %d: give a positive number, or zero for %d", b.MaxTokens, DefaultMaxTokens))
	}
	if !(b.Share >= 0 && b.Share <= 1) {
		errs = append(errs, fmt.Errorf("context share is %v: give a number above 0 and at most 1, or zero for %v", b.Share, DefaultShare))
	}
	return errors.Join(errs...)
}

// Effective is the section's size for one step. remaining is what the run may
// still spend; limited is false for a run without a token budget. The floor
// MinTokens never lifts a smaller MaxTokens.
func (b Budget) Effective(remaining int64, limited bool) int {
	most, share := b.MaxTokens, b.Share
	if most <= 0 {
		most = DefaultMaxTokens
	}
	if !(share > 0 && share <= 1) {
		share = DefaultShare
	}
	if !limited {
		return most
	}
	part := math.Floor(float64(max(remaining, 0)) * share)
	if part >= float64(most) {
		return most
	}
	return min(most, max(MinTokens, int(part)))
}

// EntryCap is the most characters of one observation under a section of
// effective tokens: an eighth of the section, and never under 2,000.
func EntryCap(effective int) int {
	return max(minEntryChars, max(effective, 0)*charsPerToken/8)
}
