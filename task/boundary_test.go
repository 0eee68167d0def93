package task

import (
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/sandbox"
)

// A contract that says nothing of commands has a boundary and no ceilings, and its
// gate has ceilings.
func TestTheBoundaryOfAContractThatSaysNothing(t *testing.T) {
	c := New("goal", t.TempDir())
	if !c.Sandbox.Mode.Contained() || c.Sandbox.Mode.Narrower(sandbox.FullAccess) != sandbox.WorkspaceWrite {
		t.Errorf("the mode is %q", c.Sandbox.Mode)
	}
	if c.Sandbox.Limits != (sandbox.Limits{}) || c.Sandbox.Egress.Open || c.Sandbox.ForceFloor || c.Sandbox.SharedTemp {
		t.Errorf("the boundary is %+v", c.Sandbox)
	}
	if got := c.CommandTimeout(); got != 15*time.Minute {
		t.Errorf("one command has %s", got)
	}
	if got := c.GateLimits(); got.Wall != 2*time.Minute || got != sandbox.DefaultLimits() {
		t.Errorf("the gate has %+v", got)
	}
	// Full access changes the mode alone.
	c.Sandbox.Limits.CPU = time.Second
	c.Sandbox.Mode = sandbox.FullAccess
	raw, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	back, err := New("goal", c.Root).Restore(raw)
	if err != nil || back.Sandbox.Mode != sandbox.FullAccess || back.Sandbox.Limits != (sandbox.Limits{CPU: time.Second}) {
		t.Errorf("stored and read: %+v, %v", back.Sandbox, err)
	}
}
