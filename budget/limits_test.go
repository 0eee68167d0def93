package budget

import (
	"testing"
	"time"
)

func TestZeroLimitsMeanTheDefaults(t *testing.T) {
	var l Limits
	if l.StepCap() != 12 || l.RetryCap() != 2 || DefaultSteps != 12 || DefaultRetries != 2 { // as CONTRACT.md has them
		t.Errorf("got %d steps and %d retries", l.StepCap(), l.RetryCap())
	}
	if l.TokensExceeded(1<<62) || l.TimeExceeded(1<<62) {
		t.Error("no bound was stated")
	}
	if _, ok := l.Deadline(time.Now()); ok {
		t.Error("no deadline was stated")
	}
}

func TestNegativeLimitsMeanNone(t *testing.T) {
	l := Limits{Steps: -1, Retries: -1}
	if l.StepCap() != 0 || l.RetryCap() != 0 {
		t.Errorf("got %d steps and %d retries, want 0 and 0", l.StepCap(), l.RetryCap())
	}
}

func TestSpendingExactlyTheBoundIsAllowed(t *testing.T) {
	l := Limits{Tokens: 150, Duration: time.Minute}
	if l.TokensExceeded(150) || !l.TokensExceeded(151) {
		t.Error("tokens: the bound itself is allowed, one more is not")
	}
	if l.TimeExceeded(time.Minute) || !l.TimeExceeded(time.Minute+1) {
		t.Error("time: the bound itself is allowed, more is not")
	}
	start := time.Unix(100, 0)
	if at, ok := l.Deadline(start); !ok || !at.Equal(start.Add(time.Minute)) {
		t.Errorf("deadline %v %v", at, ok)
	}
}

func TestImpossibleLimitsAreRefused(t *testing.T) {
	for _, l := range []Limits{{Duration: -1}, {Tokens: -1}, {Duration: -1, Tokens: -1}} {
		if err := l.Validate(); err == nil {
			t.Errorf("negative bounds passed: %+v", l)
		}
	}
	if err := (Limits{Steps: -1, Retries: -1}).Validate(); err != nil {
		t.Errorf("none is a choice: %v", err)
	}
}
