package task

import (
	"fmt"

	"github.com/initorigin/io-harness-go/provider"
)

// Routing moves a run to another model of the same provider while it works. The
// zero value stays with the run's own: Contract.Model, else the provider's. It is
// decided anew before every step, and EscalateAfter wins over DownshiftUnder.
type Routing struct {
	EscalateAfter  EscalateAfter
	DownshiftUnder DownshiftUnder
	// RequirePrimary refuses to start, with an *InvalidError and before anything
	// is billed, while the provider says that it would not answer. Of a chain
	// its first is asked. A provider that cannot say counts as reachable.
	RequirePrimary bool
}

// EscalateAfter asks Model once the gate has not passed Failures times in a row;
// an evaluation that could not judge counts too. It holds for the rest of the run.
type EscalateAfter struct {
	Failures int // at least 1
	Model    string
}

// DownshiftUnder asks Model for as long as the files that the run has written
// have fewer than Bytes bytes together. A file counts once, as large as it is
// now; one that is gone, or whose changes were all taken back, does not.
type DownshiftUnder struct {
	Bytes int64 // at least 1
	Model string
}

// ModelFor returns the model for a run whose gate did not pass failures times in
// a row, and that has written that many bytes. It is false where no rule holds.
func (r Routing) ModelFor(failures int, written int64) (string, bool) {
	switch e, u := r.EscalateAfter, r.DownshiftUnder; {
	case e.Model != "" && e.Failures > 0 && failures >= e.Failures:
		return e.Model, true
	case u.Model != "" && written < u.Bytes:
		return u.Model, true
	}
	return "", false
}

// Models are the models that a rule may move the run to.
func (r Routing) Models() []string {
	var models []string
	for _, m := range []string{r.EscalateAfter.Model, r.DownshiftUnder.Model} {
		if m != "" {
			models = append(models, m)
		}
	}
	return models
}

func (r Routing) validate() error {
	bad := func(field, format string, args ...any) error {
		return &InvalidError{Field: "Routing." + field, Reason: fmt.Sprintf(format, args...)}
	}
	switch e, u := r.EscalateAfter, r.DownshiftUnder; {
	case e.Model == "" && e.Failures != 0:
		return bad("EscalateAfter", "names no model: say which one to ask, or leave the rule out")
	case e.Model != "" && e.Failures < 1:
		return bad("EscalateAfter", "has %d failures: a rule needs at least 1", e.Failures)
	case u.Model == "" && u.Bytes != 0:
		return bad("DownshiftUnder", "names no model: say which one to ask, or leave the rule out")
	case u.Model != "" && u.Bytes < 1:
		return bad("DownshiftUnder", "has %d bytes: a rule needs at least 1", u.Bytes)
	}
	return nil
}

// validateWeb reports what no vendor can do with a declaration of web access.
func validateWeb(w provider.WebAccess) error {
	if w.MaxUses < 0 {
		return &InvalidError{Field: "Web.MaxUses", Reason: "is negative: zero leaves it to the vendor"}
	}
	for field, domains := range map[string][]string{"AllowedDomains": w.AllowedDomains, "BlockedDomains": w.BlockedDomains} {
		for i, d := range domains {
			if d == "" {
				return &InvalidError{Field: fmt.Sprintf("Web.%s[%d]", field, i), Reason: "is empty: name a domain"}
			}
		}
	}
	if _, _, err := w.Filter(); err != nil && w.Enabled() {
		return invalid("Web", err)
	}
	return nil
}
