package loop

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/internal/builtin"
	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/sandbox/scrub"
	"github.com/initorigin/io-harness-go/store"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/toolchain"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/verify"
)

// prepareCommands decides once what surrounds every command of the run: the
// toolchain found in the workspace, its caches, a private temporary directory,
// and what the policy denies to read.
func (d *drive) prepareCommands(ctx context.Context) error {
	root := d.workspace.Root()
	d.profile = d.contract.Sandbox
	d.profile.Workspace = root
	d.profile.Protect = append(slices.Clip(d.profile.Protect), sandbox.ProtectedPaths(root)...)
	d.guarded.root = root
	d.hideCredentials()
	if d.profile.AccessConfinement {
		d.profile.Programs = append(slices.Clip(d.profile.Programs), toolchain.LauncherHomes()...)
	}
	if chain, ok := toolchain.Detect(root); ok {
		chain = d.contract.Toolchain.Apply(chain)
		d.toolchain, d.project = chain, chain.Describe()
		caches := chain.Caches()
		var missing []string
		if d.profile, missing = d.profile.Grant(caches.Dirs, caches.Env); len(missing) > 0 {
			d.log.Warn("caches of the toolchain cannot be made: its commands may be slow or fail", "dirs", missing)
		}
	}
	denied, err := d.workspace.Denied(ctx, policy.Read)
	if err != nil {
		return err
	}
	d.profile.Reads.Deny = append(slices.Clip(d.profile.Reads.Deny), denied...)
	d.hidden.paths = denied
	if d.profile.SharedTemp && d.profile.Mode.Contained() && liesIn(root, os.TempDir()) {
		d.log.Warn("the workspace lies in the temporary directory that its commands share with other programs: they may write what lies beside it, and others may write it", "workspace", root)
	}
	if !d.profile.SharedTemp {
		if d.profile.Temp, d.removeTemp, err = sandbox.NewTemp(); err != nil {
			return err
		}
	}
	if err := d.guardStore(); err != nil {
		return err
	}
	return d.openEgress(ctx)
}

// hideCredentials takes what the run's models are asked with out of the
// environment of its commands, whatever the variables are called.
func (d *drive) hideCredentials() {
	env := &d.profile.Env
	for _, c := range []provider.Credentials{
		provider.CredentialsOf(d.host.Provider, d.host.Approver, d.host.Responder, d.host.PlanGate),
		verify.Credentials(d.contract.Verify),
	} {
		for _, s := range c.Values {
			env.Secrets = append(slices.Clip(env.Secrets), s.Reveal())
		}
		env.Drop = append(slices.Clip(env.Drop), c.Names...)
	}
}

// runCommand runs a command that the model, the project or the contract chose,
// and looks afterwards at the places that it must leave alone.
func (d *drive) runCommand(ctx context.Context, n int, cmd sandbox.Cmd, p sandbox.Profile) (*sandbox.Result, error) {
	d.watchGuarded()
	defer d.noticeGuarded(n)
	return d.spawn(ctx, n, strings.Join(cmd.Argv, " "), cmd, p)
}

// runGate runs a command of the gate, likewise.
func (d *drive) runGate(ctx context.Context, n int, cmd sandbox.Cmd) (*sandbox.Result, error) {
	d.watchGuarded()
	defer d.noticeGuarded(n)
	p := d.gateProfile()
	if !p.Mode.Contained() {
		cmd.Env = append(slices.Clip(cmd.Env), emptied(slices.Concat(os.Environ(), p.Vars, cmd.Env), p.Env)...)
	}
	return d.spawn(ctx, n, strings.Join(cmd.Argv, " "), cmd, p)
}

// emptied are the variables of env that hold credentials, each without its value:
// a gate gets none, also where its commands have no boundary that takes them away.
func emptied(env []string, rules scrub.Rules) (vars []string) {
	_, report := scrub.Apply(env, rules)
	for _, name := range report.Removed {
		vars = append(vars, name+"=")
	}
	return vars
}

// spawn is the one way in which a drive starts a process and waits for it. what
// names it in the trace.
func (d *drive) spawn(ctx context.Context, n int, what string, cmd sandbox.Cmd, p sandbox.Profile) (*sandbox.Result, error) {
	pr, err := d.startCommand(ctx, cmd, p)
	if err != nil {
		return nil, err
	}
	d.commandBegan(n, pr.Applied(), what)
	res, err := pr.Wait()
	if res.Cap != "" {
		d.capHit(n, res.Applied, res.Cap)
	}
	d.commandOver(n, res.Applied, ending(res))
	return res, err
}

// resolve finds the file that a program's name means, in the environment and
// from the directory that commands get.
func (d *drive) resolve(program string) (string, error) {
	env, _ := sandbox.Environ(d.profile)
	return sandbox.Resolve(program, d.workspace.Root(), env)
}

// builtinTools are the tools of the library, bound to this drive.
func (d *drive) builtinTools() []tool.Tool {
	return builtin.Tools(builtin.Env{
		Run: func(ctx context.Context, c tool.Call, cmd sandbox.Cmd) (*sandbox.Result, error) {
			d.command(c)
			return d.runCommand(ctx, c.Step, cmd, d.profile)
		},
		RunNarrowed: func(ctx context.Context, c tool.Call, cmd sandbox.Cmd, narrow func(*sandbox.Profile)) (*sandbox.Result, error) {
			p := d.profile
			narrow(&p)
			return d.spawnNarrowed(ctx, c, cmd, p)
		},
		Begin:            d.beginLine,
		LineWall:         d.profile.Limits.Wall,
		ProxyToken:       d.profile.Egress.ProxyToken,
		Mode:             d.profile.Mode,
		Handles:          d.handles,
		Resolve:          d.resolve,
		EntryCap:         func() int { return d.entryCap },
		MaxReadChars:     d.contract.MaxReadChars,
		ExecTimeout:      d.contract.CommandTimeout(),
		Toolchain:        d.toolchain,
		Identity:         builtin.Identity(d.contract.Identity),
		ParentRepository: d.contract.ParentRepository,
		Writable:         append(slices.Clip(d.profile.Writable), d.profile.Temp),
		Has:              func(name string) bool { return d.catalogue.byName[name] != nil },
	})
}

// command notes that a call starts a command, which may change anything that it
// may write.
func (d *drive) command(c tool.Call) {
	if entry, ok := d.catalogue.byName[c.Name]; !ok || !entry.spec.IsReadOnly() {
		d.commanded.Store(true)
	}
}

// composeSystem writes the system block, once: its bytes must stay the same for
// as long as a vendor's cache is to hold. The end of the planning is the one time
// that they change, so the block behind it is written now as well.
func (d *drive) composeSystem(ctx context.Context) error {
	applied, err := sandbox.Plan(ctx, d.profile)
	if err != nil {
		return err
	}
	s := prompt.System{
		Base: prompt.Work, Preset: string(d.contract.Prompt.Preset), Replace: d.contract.Prompt.Replace, Append: d.contract.Prompt.Append,
		ExtraTools: d.catalogue.extra, Instructions: d.contract.Prompt.Instructions,
		Boundary: prompt.Boundary(d.policy, applied), Family: provider.PromptFamily(d.host.Provider), Planning: d.planning,
	}
	composed := s.Compose()
	d.system, d.workSystem = composed.Text, composed.Text
	s.Base = prompt.Conversation
	d.openingSystem = s.Compose().Text
	if d.planning {
		s.Base, s.Planning, s.Boundary = prompt.Work, false, prompt.Boundary(d.withoutStore(d.base.Remember(d.remembered...)), applied)
		d.workSystem = s.Compose().Text
	}
	d.emit(0, trace.PromptComposed{
		Family: string(composed.Family), Bytes: len(composed.Text), Source: composed.Source,
		Boundary: composed.Boundary, Instructions: composed.Instructions,
	})
	// A turn that may be a plain answer selects nothing until it is work.
	if d.selected = applied; !d.classifies || d.settled {
		d.recordContainment(applied)
	}
	d.emit(0, containedEvent(applied))
	return nil
}

// asksOfProvider reports whether a request is about a host of the provider, and no
// call of a step: those may ask about hosts as well.
func asksOfProvider(p store.PendingApproval) bool {
	return p.Act == string(policy.Net) && p.Step == 0
}

// authorise asks the policy about every host that the provider may dial, before
// the first completion. The provider's own host needs no rule; a deny on it
// still holds, and an ask is put to the approver.
func (d *drive) authorise(ctx context.Context) (*trace.Outcome, error) {
	for _, endpoint := range d.host.Provider.Endpoints() {
		st, c := &step{}, &call{name: "provider"}
		target, ok := policy.NetTarget(endpoint)
		j := judged{need: policy.Need{Act: policy.Net, Target: target}}
		switch {
		case !ok:
			j.need.Target = endpoint
			j.verdict = policy.Verdict{Effect: policy.Deny, Rule: policy.UncheckableHost, Matched: true}
		default:
			j.verdict = d.policy.ForProvider(target).Check(j.need)
		}
		switch j.verdict.Effect {
		case policy.Allow:
			d.rec.decision(0, j, "allow", "policy", "", 0)
			continue
		case policy.Ask:
			if d.granted[target] {
				continue
			}
			agreed, err := d.ask(ctx, st, c, nil, []judged{j}, nil)
			if err != nil {
				return nil, err
			}
			if agreed {
				continue
			}
			if st.pause != nil {
				st.pause.Steps = d.last
				return d.finish(ctx, *st.pause)
			}
		default:
			d.refuse(st, c, j)
		}
		out, err := d.finish(ctx, trace.Outcome{Kind: trace.Refused, Steps: d.last})
		if err != nil {
			return out, err
		}
		refusal := j.verdict.Refusal(j.need)
		if p := c.denied; p != nil { // and not the rule that had it asked
			refusal = &policy.RefusedError{Act: j.need.Act, Target: refusal.Target, Denied: true, Reason: p.Reason}
		}
		return out, fmt.Errorf("provider %s cannot be asked: %w", d.host.Provider.Name(), refusal)
	}
	return nil, nil
}
