package task

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/verify"
)

// stored is what the store keeps of a contract: everything that is data. Tools
// are code and must be given again to a resume.
type stored struct {
	Constraints      []string             `json:"constraints,omitempty"`
	Verify           json.RawMessage      `json:"verify,omitempty"`
	Output           json.RawMessage      `json:"output,omitempty"`
	OutputAttempts   int                  `json:"output_attempts,omitempty"`
	Budget           budget.Limits        `json:"budget,omitzero"`
	Sandbox          sandbox.Profile      `json:"sandbox,omitzero"`
	GateSandbox      *sandbox.Profile     `json:"gate_sandbox,omitempty"`
	ExecTimeout      time.Duration        `json:"exec_timeout,omitempty"`
	KillGrace        time.Duration        `json:"kill_grace,omitempty"`
	Toolchain        toolchain.Overrides  `json:"toolchain,omitempty"`
	Identity         Identity             `json:"identity,omitzero"`
	ParentRepository bool                 `json:"parent_repository,omitempty"`
	Prompt           Prompt               `json:"prompt,omitzero"`
	Retry            provider.RetryPolicy `json:"retry,omitzero"`
	Stall            Stall                `json:"stall,omitzero"`
	Context          Context              `json:"context,omitzero"`
	Compaction       Compaction           `json:"compaction,omitzero"`
	Images           []provider.Media     `json:"images,omitempty"`
	Memory           Memory               `json:"memory,omitzero"`
	Effort           provider.Effort      `json:"effort,omitempty"`
	Model            string               `json:"model,omitempty"`
	Routing          Routing              `json:"routing,omitzero"`
	Web              provider.WebAccess   `json:"web,omitzero"`
	MaxParallelReads int                  `json:"max_parallel_reads,omitempty"`
	MaxReadChars     int                  `json:"max_read_chars,omitempty"`
	LeaseTTL         time.Duration        `json:"lease_ttl,omitempty"`
	Conversational   Conversational       `json:"conversational,omitempty"`
	ToolMask         []string             `json:"tool_mask,omitempty"`
}

// Marshal writes what can be stored of c: every field but Goal and Root, which
// the run's row holds, and Tools, which are code.
func (c Contract) Marshal() (json.RawMessage, error) {
	s := stored{
		Constraints: c.Constraints, OutputAttempts: c.OutputAttempts, Budget: c.Budget, Sandbox: c.Sandbox, GateSandbox: c.GateSandbox, ExecTimeout: c.ExecTimeout, KillGrace: c.KillGrace,
		Toolchain: c.Toolchain, Identity: c.Identity, ParentRepository: c.ParentRepository, Prompt: c.Prompt,
		Retry: c.Retry, Stall: c.Stall, Context: c.Context, Compaction: c.Compaction, Images: c.Images, Memory: c.Memory, Effort: c.Effort, Model: c.Model,
		Routing: c.Routing, Web: c.Web,
		MaxParallelReads: c.MaxParallelReads, MaxReadChars: c.MaxReadChars, LeaseTTL: c.LeaseTTL, Conversational: c.Conversational,
		ToolMask: c.ToolMask,
	}
	s.Compaction.Share = min(s.Compaction.Share, NoCompaction) // JSON has no infinity, and all above are one
	if c.Verify != nil {
		v, err := verify.Marshal(c.Verify)
		if err != nil {
			return nil, fmt.Errorf("contract: Verify: %w", err)
		}
		s.Verify = v
	}
	if c.Output != nil {
		s.Output = c.Output.JSON()
	}
	return json.Marshal(s)
}

// Restore returns c with every field that Marshal wrote into raw; Goal, Root and
// Tools are kept. A member that this version does not know is an error: a bound
// that is not understood must not be dropped.
func (c Contract) Restore(raw json.RawMessage) (Contract, error) {
	var s stored
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return c, fmt.Errorf("stored contract cannot be read: %w", err)
	}
	r := Contract{
		Goal: c.Goal, Root: c.Root, Tools: c.Tools,
		Constraints: s.Constraints, OutputAttempts: s.OutputAttempts, Budget: s.Budget, Sandbox: s.Sandbox, GateSandbox: s.GateSandbox, ExecTimeout: s.ExecTimeout, KillGrace: s.KillGrace,
		Toolchain: s.Toolchain, Identity: s.Identity, ParentRepository: s.ParentRepository, Prompt: s.Prompt,
		Retry: s.Retry, Stall: s.Stall, Context: s.Context, Compaction: s.Compaction, Images: s.Images, Memory: s.Memory, Effort: s.Effort, Model: s.Model,
		Routing: s.Routing, Web: s.Web,
		MaxParallelReads: s.MaxParallelReads, MaxReadChars: s.MaxReadChars, LeaseTTL: s.LeaseTTL, Conversational: s.Conversational,
		ToolMask: s.ToolMask,
	}
	if len(s.Verify) > 0 {
		v, err := verify.Unmarshal(s.Verify)
		if err != nil {
			return c, fmt.Errorf("stored contract: Verify: %w", err)
		}
		r.Verify = v
	}
	if len(s.Output) > 0 {
		o, err := verify.ParseSchema(s.Output)
		if err != nil {
			return c, fmt.Errorf("stored contract: Output: %w", err)
		}
		r.Output = o
	}
	return r, nil
}
