package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// An error that refuses says what helps, and names no run or process that it does
// not know.
func TestARefusalSaysWhatHelps(t *testing.T) {
	st := newFile(t)
	_, noQuestion := st.Question(t.Context(), 77)
	_, noPlan := st.Plan(t.Context(), 77)
	for _, tc := range []struct {
		err       error
		says, not string
	}{
		{noQuestion, "there is no question 77", "run 0"},
		{noPlan, "there is no plan 77", "run 0"},
		{&ConflictError{SessionID: 3, Expected: 1, Head: 2}, "refresh the handle", ""},
		{&ConflictError{RunID: 3, Owner: "vm pid 1 drive x"}, "let it end, or stop it, and try again", "resume"},
	} {
		if text := tc.err.Error(); !strings.Contains(text, tc.says) || tc.not != "" && strings.Contains(text, tc.not) {
			t.Errorf("%q does not say %q, or says %q", text, tc.says, tc.not)
		}
	}
	var refused *ResumeError
	if !errors.As(noQuestion, &refused) || refused.Reason != NoSuchQuestion || refused.RunID != trace.RunID(0) {
		t.Errorf("no question: %#v", noQuestion)
	}
}
