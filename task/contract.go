package task

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/verify"
)

// Defaults of a contract, each behind the zero value of its field.
const (
	// ExecTimeout bounds one command: long enough for the test suite of a
	// middle-sized project.
	ExecTimeout = 900 * time.Second
	// MaxKillGrace bounds Contract.KillGrace: a run's end waits for as long.
	MaxKillGrace = time.Minute
	// LeaseTTL is how long a driver that stopped renewing keeps its run: twice
	// ExecTimeout, so that no command outlasts it.
	LeaseTTL = 1800 * time.Second
	// MaxParallelReads is how many read-only calls of one completion run together.
	MaxParallelReads = 10
	// ContextTokens is the size of the observation section of a request.
	ContextTokens = 24_000
	// ContextShare is the share of the remaining token budget that one request's
	// observations may take.
	ContextShare = 0.5
	// CompactionShare is how full that section may get before the older part of
	// it is folded into a paragraph: late enough that a short run never pays for
	// one, early enough that asking for it still fits.
	CompactionShare = 0.8
	// CompactionKeep is how many of the newest observations a fold leaves whole.
	CompactionKeep = 8
	// StallWindow is how many equal or fruitless steps in a row are a stall.
	StallWindow = 3
	// StallReplans is how often a stalled run is told to change its approach
	// before it is stopped.
	StallReplans = 1
)

// Contract states one piece of work. Only Goal and Root are needed; the zero
// value of every other field is a useful default.
type Contract struct {
	// Goal is what is wanted, in plain words.
	Goal string
	// Root is the directory to work in. A relative path is taken from the
	// working directory when the run starts and kept as an absolute one.
	Root string
	// Constraints are told to the model verbatim beside the goal.
	Constraints []string

	// Verify decides when the work is done. Nil: when the model answers
	// without calling a tool.
	Verify verify.Criterion
	// Output demands the shape of the final answer. Nil demands none.
	Output *verify.Schema
	// OutputAttempts is how many answers out of the demanded shape end the run. It
	// is 2 where one may be corrected once; 1 means that the first counts. Zero
	// means Budget.Retries, and one at the least.
	OutputAttempts int
	// Budget bounds steps, time, tokens and retries.
	Budget budget.Limits

	// Tools are offered beside the built-in ones.
	Tools tool.Toolbox
	// ToolMask names tools that are withheld: the model is offered them as ever,
	// so that the bytes of its requests stay what a vendor's cache knows, and every
	// call of one is refused before anything of it starts. A mask is no policy: it
	// permits nothing, and no approval crosses it. It can name built-in tools and
	// those in Tools.
	ToolMask []string

	// Sandbox is the boundary around every command. The zero value lets
	// commands write in Root, a private temporary directory and the caches of
	// the project's toolchain, scrubs the environment and denies the network.
	// Workspace, Temp and the toolchain's caches are filled in by the run. What
	// commands may reach follows from the policy: the hosts that its rules name,
	// through a proxy of the run; Egress.Open counts for the commands of the gate
	// alone.
	Sandbox sandbox.Profile
	// GateSandbox is the boundary around the commands of the gate, where it is to
	// be another than Sandbox: its mode, its ceilings, its environment and its
	// network. Nil takes those of Sandbox. In both, a ceiling that is not stated is
	// that of sandbox.DefaultLimits: a gate is to end soon, and ExecTimeout, which
	// is for the model's commands, does not count.
	GateSandbox *sandbox.Profile
	// ExecTimeout bounds one command of the model. Zero means the constant
	// ExecTimeout.
	ExecTimeout time.Duration
	// KillGrace is how long a line that was left running may take to end by itself
	// when it is to be killed, by shell_kill or at the end of the run: it gets SIGTERM
	// first, where the system has that. Zero kills at once. At most MaxKillGrace.
	KillGrace time.Duration

	// Toolchain changes the commands of the project's toolchain, by ecosystem
	// ("go", "node", …): only those of the one that is detected apply, and a name
	// that is not among toolchain.Ecosystems is kept without effect.
	Toolchain toolchain.Overrides
	// Identity is who commits made by the git tools are by. The zero value is the
	// library's own name at a domain that can receive no mail.
	Identity Identity
	// ParentRepository lets the git tools that change something work in a
	// repository whose top lies above Root. Without it they refuse there. What is
	// named, shown and staged stays below Root; a commit takes all that is staged.
	ParentRepository bool

	// Prompt changes the system block.
	Prompt Prompt
	// Retry is how long to wait between attempts at a completion.
	Retry provider.RetryPolicy
	// Stall is when a run that gets nowhere is told so, and then stopped.
	Stall Stall
	// Context sizes what the model is shown of earlier steps.
	Context Context
	// Compaction is when the older part of what the model is shown becomes one
	// paragraph, written by the model itself.
	Compaction Compaction
	// Memory bounds what the agent keeps for later runs.
	Memory Memory
	// Images ride every request of the run. A provider that takes none refuses
	// the contract before anything is billed.
	Images []provider.Media
	// Effort is how hard the model should think. Empty leaves it to the vendor.
	Effort provider.Effort
	// Model overrides the provider's own model.
	Model string
	// Routing moves the run to another model while it works.
	Routing Routing
	// Web is what the provider may look up by itself, stated with every request.
	// The vendor dials then and not this process: no rule of the policy is asked.
	// Policy.DomainFilter turns the network rules into its two lists.
	Web provider.WebAccess
	// MaxParallelReads is how many read-only calls of one completion may run
	// together. Zero means the constant MaxParallelReads; 1 means one by one.
	MaxParallelReads int
	// MaxReadChars is the most characters that one file read may show, beside
	// the cap that follows from the context budget. Zero means only that cap.
	MaxReadChars int
	// LeaseTTL is how long a crashed driver keeps its run from others. Zero
	// means the constant LeaseTTL. A live driver renews it on its own.
	LeaseTTL time.Duration

	// Conversational says whether a session's turn may be answered without any
	// work. The zero value infers it: yes when nothing checks the work.
	Conversational Conversational
}

// Identity is an author of commits. It is handed to git with each commit; the
// repository's own configuration is not changed.
type Identity struct {
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// Conversational says whether a turn may be answered without any work.
type Conversational string

// The three states. Infer is not a spelling of Forbid.
const (
	Infer  Conversational = ""       // allowed when Verify is nil
	Allow  Conversational = "allow"  // always allowed
	Forbid Conversational = "forbid" // every turn is work
)

// Answers reports whether a turn under c may be answered without any work.
func (c Contract) Answers() bool {
	switch c.Conversational {
	case Allow:
		return true
	case Forbid:
		return false
	}
	return c.Verify == nil
}

// Prompt changes the system block that the library composes. It never changes
// what is enforced.
type Prompt struct {
	// Preset adds a manner: PresetConcise or PresetCareful.
	Preset Preset
	// Replace takes the place of the library's description of the agent. The
	// boundary and the closing instruction are still added.
	Replace string
	// Append is added after the description.
	Append string
	// Instructions are texts found in the repository, shown to the model as
	// untrusted guidance.
	Instructions []string
}

// Preset is a manner added to the description of the agent.
type Preset string

// The presets.
const (
	PresetConcise Preset = "concise"
	PresetCareful Preset = "careful"
)

// Stall is when a run that gets nowhere is told so, and then stopped. The zero
// value is StallWindow and StallReplans.
type Stall struct {
	// Window is how many equal steps, or steps that changed nothing and were
	// seen before, make a stall. Zero means StallWindow; negative never stalls.
	Window int
	// Replans is how often the run is told before it is stopped. Zero means
	// StallReplans; negative stops at the first stall.
	Replans int
}

// Limits returns the window, zero when the policy is off, and the replans.
func (s Stall) Limits() (window, replans int) {
	window, replans = s.Window, s.Replans
	switch {
	case window == 0:
		window = StallWindow
	case window < 0:
		window = 0
	}
	switch {
	case replans == 0:
		replans = StallReplans
	case replans < 0:
		replans = 0
	}
	return window, replans
}

// Context sizes the observation section of a request. The zero value is
// ContextTokens and ContextShare.
type Context struct {
	// MaxTokens caps the section. Zero means ContextTokens.
	MaxTokens int
	// Share is the part of the remaining token budget that it may take, above 0
	// and at most 1. Zero means ContextShare. Without a token budget it has no
	// effect.
	Share float64
}

// Compaction is when the older part of what the model is shown becomes one
// paragraph. What it replaces stays in the store, and what a person said during
// the run stays in view word for word. The zero value is CompactionShare and
// CompactionKeep.
type Compaction struct {
	// Share is how much of the observation section the ledger must fill, above 0.
	// Zero means CompactionShare; NoCompaction, and anything above, never folds,
	// also not when a request outgrew the model's window.
	Share float64
	// Keep is how many of the newest observations stay whole, at least 1. Zero
	// means CompactionKeep.
	Keep int
	// Now folds before the first request of a run or turn as well, full or not:
	// what stands in the ledger then is the conversation before it. It changes
	// nothing where Share is NoCompaction or there is nothing to fold, and a
	// resume does not fold again. A contract that serves many turns folds in each
	// of them: for one turn use session.WithFoldNow.
	Now bool
}

// NoCompaction is the Compaction.Share that never folds.
const NoCompaction = 1.0

// Memory bounds the notes that an agent keeps for later runs, for each workspace
// and for the notes that hold everywhere. A zero field means the store's constant
// of the same name; a bound of math.MaxInt64 evicts nothing. What is there already
// is never shortened: the next note that is kept evicts what no longer fits, the
// least recalled first.
type Memory struct {
	MaxEntries    int64 // store.MemoryMaxEntries
	MaxChars      int64 // store.MemoryMaxChars, over all values of a workspace
	MaxEntryChars int64 // store.MemoryMaxEntryChars; a longer value is cut, visibly
}

// New returns a contract for goal in the directory root, with every default.
func New(goal, root string) Contract { return Contract{Goal: goal, Root: root} }

// Clone returns a copy that shares nothing with c that can be changed: of what
// stands in Tools, Verify and Output, which are values of their own, the same is in
// both.
func (c Contract) Clone() Contract {
	c.Constraints = slices.Clone(c.Constraints)
	c.Tools = slices.Clone(c.Tools)
	c.ToolMask = slices.Clone(c.ToolMask)
	c.Toolchain = cloneOverrides(c.Toolchain)
	c.Prompt.Instructions = slices.Clone(c.Prompt.Instructions)
	c.Images = slices.Clone(c.Images)
	c.Web.AllowedDomains = slices.Clone(c.Web.AllowedDomains)
	c.Web.BlockedDomains = slices.Clone(c.Web.BlockedDomains)
	c.Sandbox = cloneProfile(c.Sandbox)
	if c.GateSandbox != nil {
		c.GateSandbox = new(cloneProfile(*c.GateSandbox))
	}
	return c
}

func cloneProfile(p sandbox.Profile) sandbox.Profile {
	p.Writable, p.Vars, p.Protect = slices.Clone(p.Writable), slices.Clone(p.Vars), slices.Clone(p.Protect)
	p.Programs = slices.Clone(p.Programs)
	p.Env.Keep, p.Env.Drop, p.Env.Secrets = slices.Clone(p.Env.Keep), slices.Clone(p.Env.Drop), slices.Clone(p.Env.Secrets)
	p.Reads.Deny = slices.Clone(p.Reads.Deny)
	return p
}

func cloneOverrides(o toolchain.Overrides) toolchain.Overrides {
	o = maps.Clone(o)
	for name, one := range o {
		for _, list := range []*[]string{&one.Install, &one.Build, &one.Test, &one.Lint, &one.Format, &one.Run, &one.Check, &one.CacheDirs} {
			*list = slices.Clone(*list)
		}
		if one.Manager != nil {
			one.Manager = new(*one.Manager)
		}
		o[name] = one
	}
	return o
}

// ParallelReads is MaxParallelReads with its default.
func (c Contract) ParallelReads() int {
	if c.MaxParallelReads == 0 {
		return MaxParallelReads
	}
	return max(c.MaxParallelReads, 1)
}

// OutputCap is how many answers out of the demanded shape end the run.
func (c Contract) OutputCap() int {
	if c.OutputAttempts > 0 {
		return c.OutputAttempts
	}
	return max(c.Budget.RetryCap(), 1)
}

// GateLimits are the ceilings of the gate's commands.
func (c Contract) GateLimits() sandbox.Limits {
	l, d := c.Sandbox.Limits, sandbox.DefaultLimits()
	if c.GateSandbox != nil {
		l = c.GateSandbox.Limits
	}
	l.CPU, l.Wall = cmp.Or(l.CPU, d.CPU), cmp.Or(l.Wall, d.Wall)
	l.Memory, l.OpenFiles = cmp.Or(l.Memory, d.Memory), cmp.Or(l.OpenFiles, d.OpenFiles)
	return l
}

// CommandTimeout is ExecTimeout with its default.
func (c Contract) CommandTimeout() time.Duration {
	if c.ExecTimeout == 0 {
		return ExecTimeout
	}
	return c.ExecTimeout
}

// Lease is LeaseTTL with its default.
func (c Contract) Lease() time.Duration {
	if c.LeaseTTL == 0 {
		return LeaseTTL
	}
	return c.LeaseTTL
}
