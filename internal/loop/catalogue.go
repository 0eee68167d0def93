package loop

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
)

// catalogue is what the model is offered. It is made once for a drive, so that
// the bytes that describe the tools never change between two requests.
type catalogue struct {
	specs  []provider.ToolSpec
	names  []string
	extra  []string // names of the tools that are not built in
	byName map[string]*offered
}

// offered is one tool with its specification as it was when the drive began.
type offered struct {
	tool    tool.Tool
	spec    tool.Spec
	mode    sandbox.Mode // that it needs; empty: whatever the run has
	builtin bool
}

// offer asks a tool once for what it is, before anything depends on the answer.
func offer(t tool.Tool, builtin bool) *offered {
	o := &offered{tool: t, spec: t.Spec(), builtin: builtin}
	if len(o.spec.Schema) == 0 {
		o.spec.Schema = noArguments
	}
	if !builtin {
		o.spec.Origin = cmp.Or(o.spec.Origin, trace.OriginTool)
	}
	if n, ok := t.(tool.ModeNeeder); ok {
		o.mode = n.NeedsMode()
	}
	return o
}

var noArguments = json.RawMessage(`{"type":"object","properties":{}}`)

func newCatalogue(builtin, registered []tool.Tool) *catalogue {
	c := &catalogue{byName: map[string]*offered{}}
	add := func(t tool.Tool, builtin bool) {
		o := offer(t, builtin)
		spec := o.spec
		c.byName[spec.Name] = o
		c.names = append(c.names, spec.Name)
		c.specs = append(c.specs, provider.ToolSpec{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
		if !builtin {
			c.extra = append(c.extra, spec.Name)
		}
	}
	for _, t := range builtin {
		add(t, true)
	}
	for _, t := range registered {
		add(t, false)
	}
	return c
}

// with returns the catalogue with one more tool of the library, offered last.
func (c *catalogue) with(t tool.Tool) *catalogue {
	o := offer(t, true)
	spec := o.spec
	out := &catalogue{extra: c.extra, byName: maps.Clone(c.byName)}
	out.specs = append(slices.Clone(c.specs), provider.ToolSpec{Name: spec.Name, Description: spec.Description, Schema: spec.Schema})
	out.names = append(slices.Clone(c.names), spec.Name)
	out.byName[spec.Name] = o
	return out
}

// without returns the catalogue without one tool of the library.
func (c *catalogue) without(name string) *catalogue {
	out := &catalogue{extra: c.extra, byName: maps.Clone(c.byName)}
	out.specs = slices.DeleteFunc(slices.Clone(c.specs), func(s provider.ToolSpec) bool { return s.Name == name })
	out.names = slices.DeleteFunc(slices.Clone(c.names), func(n string) bool { return n == name })
	delete(out.byName, name)
	return out
}

// overlaps reports whether calls of the named tool may run beside others, and before
// their completion has ended. Of those that only read, one that starts commands may
// not: they are told of as they run, and nothing that anybody can read may tell how
// many calls ran at once.
func (c *catalogue) overlaps(name string) bool {
	o, ok := c.byName[name]
	return ok && o.spec.IsReadOnly() && o.mode == ""
}
