package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/trace"
)

// MaxNameLength is the longest tool name that every vendor accepts.
const MaxNameLength = 64

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Toolbox is an ordered set of tools. It is plain data: the order is the order
// in which the model is offered the tools.
type Toolbox []Tool

// With returns a toolbox that also holds tools; t is not changed.
func (t Toolbox) With(tools ...Tool) Toolbox {
	return append(slices.Clip(slices.Clone(t)), tools...)
}

// Names lists the names of the tools, in order.
func (t Toolbox) Names() []string {
	names := make([]string, 0, len(t))
	for _, tl := range t {
		if tl != nil {
			names = append(names, tl.Spec().Name)
		}
	}
	return names
}

// specOf asks a tool for its spec. A set is checked before anything runs, so a tool
// that panics here is a mistake to report and no reason to end the program.
func specOf(t Tool) (s Spec, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its Spec panicked: %v", p)
		}
	}()
	return t.Spec(), nil
}

// Validate reports everything that is wrong with the set at once: a nil tool,
// a name that is empty, too long, taken twice or reserved, a schema that is
// not an object's, an effect, a recovery or an origin that does not exist, and an
// origin that no tool has.
func (t Toolbox) Validate() error {
	var errs []error
	seen := map[string]bool{}
	for i, tl := range t {
		if tl == nil {
			errs = append(errs, fmt.Errorf("tool %d is nil", i))
			continue
		}
		s, err := specOf(tl)
		if err != nil {
			errs = append(errs, fmt.Errorf("tool %d: %w", i, err))
			continue
		}
		switch {
		case s.Name == "":
			errs = append(errs, fmt.Errorf("tool %d has no name", i))
			continue
		case !validName.MatchString(s.Name):
			errs = append(errs, fmt.Errorf("tool %q: a name is 1 to %d of the characters A-Z a-z 0-9 _ -", s.Name, MaxNameLength))
		case IsReserved(s.Name):
			errs = append(errs, fmt.Errorf("tool %q: the name is reserved for a tool of the library: choose another", s.Name))
		case strings.HasPrefix(s.Name, "mcp__"):
			errs = append(errs, fmt.Errorf("tool %q: the prefix mcp__ is reserved for tools of MCP servers", s.Name))
		}
		if seen[s.Name] {
			errs = append(errs, fmt.Errorf("tool %q is there twice", s.Name))
		}
		seen[s.Name] = true
		if err := validSchema(s.Schema); err != nil {
			errs = append(errs, fmt.Errorf("tool %q: %w", s.Name, err))
		}
		if s.Effect != "" && s.Effect != Mutating && s.Effect != ReadOnly {
			errs = append(errs, fmt.Errorf("tool %q: effect %q is neither %q nor %q", s.Name, s.Effect, ReadOnly, Mutating))
		}
		if s.Recovery != "" && s.Recovery != Replayable && s.Recovery != Indeterminate {
			errs = append(errs, fmt.Errorf("tool %q: recovery %q is neither %q nor %q", s.Name, s.Recovery, Replayable, Indeterminate))
		}
		switch s.Origin {
		case trace.OriginAgent, trace.OriginOperator, trace.OriginProse:
			errs = append(errs, fmt.Errorf("tool %q: origin %q cannot be a tool's", s.Name, s.Origin))
		default:
			if s.Origin != "" && !s.Origin.Known() {
				errs = append(errs, fmt.Errorf("tool %q: origin %q does not exist", s.Name, s.Origin))
			}
		}
		if s.Timeout < 0 {
			errs = append(errs, fmt.Errorf("tool %q: timeout %s is negative", s.Name, s.Timeout))
		}
	}
	return errors.Join(errs...)
}

func validSchema(schema json.RawMessage) error {
	if len(schema) == 0 {
		return nil
	}
	var s struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(schema, &s); err != nil {
		return fmt.Errorf("schema of the arguments is not a JSON object: %w", err)
	}
	if s.Type != "object" {
		return fmt.Errorf("schema of the arguments has type %v: vendors accept only \"object\"", s.Type)
	}
	return nil
}
