package task

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/tool"
)

// ErrInvalid is the family of everything that is wrong with a contract.
var ErrInvalid = errors.New("invalid contract")

// InvalidError says which field of a contract can never work, and why.
type InvalidError struct {
	Field  string
	Reason string
	Err    error // the cause, when there is one
}

func (e *InvalidError) Error() string { return fmt.Sprintf("contract: %s: %s", e.Field, e.Reason) }

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Err }

// Is reports whether target is ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

func invalid(field string, err error) error {
	if err == nil {
		return nil
	}
	return &InvalidError{Field: field, Reason: err.Error(), Err: err}
}

// Validate reports everything that can never work, all at once, as joined
// *InvalidError. It is called by every entry point before anything is written
// or billed. It looks at the root directory and at nothing else outside c.
func (c Contract) Validate() error {
	var goal error
	if strings.TrimSpace(c.Goal) == "" {
		goal = &InvalidError{Field: "Goal", Reason: "is empty: say what is wanted"}
	}
	return errors.Join(goal, c.validateRoot(), c.ValidateDefaults())
}

// ValidateDefaults is Validate for a contract without goal and root, as a
// program binds it for all its turns.
func (c Contract) ValidateDefaults() error {
	bad := func(field, format string, args ...any) error {
		return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
	}
	errs := []error{invalid("Budget", c.Budget.Validate()), invalid("Tools", c.Tools.Validate())}
	if c.Verify != nil {
		errs = append(errs, invalid("Verify", c.Verify.Validate()))
	}
	if c.Output != nil {
		errs = append(errs, invalid("Output", c.Output.Validate()))
	}
	// The workspace of the profile is the root, which is checked by itself.
	profile := c.Sandbox
	profile.Workspace = os.TempDir()
	errs = append(errs, invalid("Sandbox", profile.Validate()))
	if c.GateSandbox != nil {
		gate := *c.GateSandbox
		gate.Workspace = os.TempDir()
		errs = append(errs, invalid("GateSandbox", gate.Validate()))
	}
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"ExecTimeout", int64(c.ExecTimeout)}, {"KillGrace", int64(c.KillGrace)}, {"LeaseTTL", int64(c.LeaseTTL)},
		{"MaxReadChars", int64(c.MaxReadChars)}, {"OutputAttempts", int64(c.OutputAttempts)}, {"MaxParallelReads", int64(c.MaxParallelReads)},
		{"Context.MaxTokens", int64(c.Context.MaxTokens)}, {"Compaction.Keep", int64(c.Compaction.Keep)},
		{"Memory.MaxEntries", c.Memory.MaxEntries}, {"Memory.MaxChars", c.Memory.MaxChars}, {"Memory.MaxEntryChars", c.Memory.MaxEntryChars},
	} {
		if f.value < 0 {
			errs = append(errs, bad(f.name, "is negative: zero means the default"))
		}
	}
	if c.KillGrace > MaxKillGrace {
		errs = append(errs, bad("KillGrace", "is %v, more than %v", c.KillGrace, MaxKillGrace))
	}
	if s := c.Context.Share; math.IsNaN(s) || s < 0 || s > 1 {
		errs = append(errs, bad("Context.Share", "is %v: it must be above 0 and at most 1, or zero for the default", s))
	}
	if s := c.Compaction.Share; math.IsNaN(s) || s < 0 {
		errs = append(errs, bad("Compaction.Share", "is %v: it must be above 0, or zero for the default, or NoCompaction", s))
	}
	for i, name := range c.ToolMask {
		known := tool.IsReserved(name) || slices.ContainsFunc(c.Tools, func(t tool.Tool) bool { return t != nil && t.Spec().Name == name })
		if !known {
			errs = append(errs, bad(fmt.Sprintf("ToolMask[%d]", i), "is %q: there is no such tool to withhold", name))
		}
	}
	errs = append(errs, c.validateImages(), c.Routing.validate(), validateWeb(c.Web))
	switch tier, err := provider.ParseEffort(string(c.Effort)); {
	case err != nil:
		errs = append(errs, invalid("Effort", err))
	case tier != c.Effort: // every provider would refuse it
		errs = append(errs, bad("Effort", "is %q: write %q", c.Effort, tier))
	}
	switch c.Prompt.Preset {
	case "", PresetConcise, PresetCareful:
	default:
		errs = append(errs, bad("Prompt.Preset", "is %q: write %q or %q", c.Prompt.Preset, PresetConcise, PresetCareful))
	}
	switch c.Conversational {
	case Infer, Allow, Forbid:
	default:
		errs = append(errs, bad("Conversational", "is %q: write %q or %q, or leave it empty", c.Conversational, Allow, Forbid))
	}
	return errors.Join(errs...)
}

// validateImages holds the images to what every vendor takes in one request.
func (c Contract) validateImages() error {
	total := 0
	for i, m := range c.Images {
		if err := m.Validate(); err != nil {
			return &InvalidError{Field: fmt.Sprintf("Images[%d]", i), Reason: err.Error(), Err: err}
		}
		total += m.ByteLen()
	}
	if total > provider.MaxRequestImageBytes {
		return &InvalidError{Field: "Images", Reason: fmt.Sprintf("have %d bytes together: a request takes %d", total, provider.MaxRequestImageBytes)}
	}
	return nil
}

func (c Contract) validateRoot() error {
	if c.Root == "" {
		return &InvalidError{Field: "Root", Reason: "is empty: name the directory to work in"}
	}
	switch info, err := os.Stat(c.Root); {
	case err != nil:
		return &InvalidError{Field: "Root", Reason: err.Error(), Err: err}
	case !info.IsDir():
		return &InvalidError{Field: "Root", Reason: fmt.Sprintf("%s is not a directory", c.Root)}
	}
	return nil
}
