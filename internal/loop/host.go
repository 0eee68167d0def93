package loop

import (
	"fmt"
	"log/slog"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/initorigin/io-harness-go/approve"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// Host is what a drive works with, bound by the caller. It is copied.
type Host struct {
	Provider provider.Provider
	Store    *store.Store
	Policy   policy.Policy
	Approver approve.Approver
	// Responder answers what the model asks; nil pauses the run instead.
	Responder approve.Responder
	// PlanGate demands a plan before anything writes or runs; nil demands none.
	PlanGate approve.PlanGate
	Observer trace.Observer
	Log      *slog.Logger
	Clock    func() time.Time

	Inbox   Inbox // nil: nobody steers
	Stream  *bool // nil: a turn streams when somebody watches
	FoldNow bool  // fold before the first request, full or not
}

func (h Host) withDefaults() Host {
	if h.Log == nil {
		h.Log = slog.New(slog.DiscardHandler)
	}
	if h.Clock == nil {
		h.Clock = time.Now
	}
	return h
}

// Validate reports what can never work, as a *task.InvalidError.
func (h Host) Validate() error {
	switch {
	case h.Provider == nil || isNil(h.Provider):
		return &task.InvalidError{Field: "Provider", Reason: "is nil: somebody must be asked"}
	case h.Store == nil:
		return &task.InvalidError{Field: "Store", Reason: "is nil: a run must be kept somewhere"}
	}
	if err := h.Policy.Validate(); err != nil {
		return &task.InvalidError{Field: "Policy", Reason: err.Error(), Err: err}
	}
	return nil
}

// isNil reports an interface that holds a nil pointer, the usual slip of a
// constructor whose error was not looked at.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// survive turns a panic on the caller's goroutine into an error: of a provider's
// Endpoints or the host's clock, or of this package. It is called when all that the
// drive held has been given back. d is nil before there was a drive.
func (d *drive) survive(h Host, panicked any, res **trace.Result, err *error) {
	if panicked == nil {
		return
	}
	*res, *err = &trace.Result{}, fmt.Errorf("the drive panicked: %v", panicked)
	if d != nil && d.lease != nil {
		(*res).RunID, (*res).Outcome.Steps = d.runID(), d.last
	}
	h.Log.Error("drive panicked", "run", (*res).RunID, "panic", panicked, "stack", string(debug.Stack()))
}
