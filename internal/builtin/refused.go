package builtin

import (
	"errors"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
)

// Refused is a refusal that a tool makes itself, behind the gate or before it:
// the error is what is recorded of it, and Text what the model is told.
type Refused struct {
	*policy.RefusedError
	Text     string
	Decision string // the line of the trace
}

func (r *Refused) Unwrap() error { return r.RefusedError }

// refuse is a refusal by the tool of the given name, in its own words.
func refuse(name string, n policy.Need, v policy.Verdict, words string) error {
	v.Effect = policy.Deny
	head := name + " refused"
	return &Refused{RefusedError: v.Refusal(n), Decision: head, Text: "\n[" + head + "] " + strings.TrimSpace(words) + "\n"}
}

// byRule is the verdict of a rule that is none of the policy's.
func byRule(rule string) policy.Verdict {
	return policy.Verdict{Effect: policy.Deny, Rule: rule, Matched: true}
}

// isRefusal reports that an error of the workspace is a refusal. It goes to the
// run as it is, to be recorded and worded like every other.
func isRefusal(err error) bool { return errors.Is(err, policy.ErrRefused) }
