package policy

import (
	"fmt"
	"slices"
	"strings"
)

// WarningKind names what a warning is about.
type WarningKind string

// The kinds of warnings.
const (
	WarnDoubleStar    WarningKind = "double_star"    // ** means what * means, so a/**/b misses a/b
	WarnLiteral       WarningKind = "literal"        // [ { ! are plain characters
	WarnNeverMatches  WarningKind = "never_matches"  // no target has this spelling
	WarnShadowed      WarningKind = "shadowed"       // an allow behind a deny or an ask
	WarnApexMissing   WarningKind = "apex_missing"   // *.example.com misses example.com
	WarnHostPrefix    WarningKind = "host_prefix"    // *example.com also matches evilexample.com
	WarnWordBorder    WarningKind = "word_border"    // mkdir* also matches mkdirs-evil
	WarnAnyArguments  WarningKind = "any_arguments"  // every option passes, whatever it does
	WarnBareProgram   WarningKind = "bare_program"   // go allows go without arguments only
	WarnEverything    WarningKind = "everything"     // allows all commands, hosts or writes
	WarnDirectoryOpen WarningKind = "directory_open" // secrets/* leaves the directory's own name open
	WarnSecretsOpen   WarningKind = "secrets_open"   // usual places of keys that can be read
)

// Warning is something in a policy that may not mean what its author thinks. No
// warning changes a verdict.
type Warning struct {
	Kind    WarningKind
	Layer   string
	Rule    Rule // the zero Rule if the warning is about the whole policy
	Message string
	Instead []string // patterns that probably say what was meant
}

// String is the warning in one line.
func (w Warning) String() string {
	var b strings.Builder
	if w.Rule != (Rule{}) {
		fmt.Fprintf(&b, "layer \"%s\", %s %s \"%s\": ", Escape(w.Layer), w.Rule.Effect, w.Rule.Act, Escape(w.Rule.Pattern))
	}
	b.WriteString(w.Message)
	for i, s := range w.Instead {
		if i == 0 {
			b.WriteString("; write ")
		} else {
			b.WriteString(" and ")
		}
		fmt.Fprintf(&b, "\"%s\"", Escape(s))
	}
	return b.String()
}

// Lint reports what is legal and probably not meant, in the order of layers and rules.
// The layers of the harness itself are not reported on.
func (p Policy) Lint() []Warning {
	var out []Warning
	for _, l := range p.layers {
		if ReservedLayer(l.name) {
			continue
		}
		for _, r := range l.rules {
			add := func(kind WarningKind, message string, instead ...string) {
				out = append(out, Warning{Kind: kind, Layer: l.name, Rule: r.Rule, Message: message, Instead: instead})
			}
			lintPattern(r.Rule, add)
			switch r.Act {
			case Read, Write:
				lintPath(r.Rule, add)
			case Exec:
				p.lintExec(r.Rule, add)
			case Net:
				lintNet(r.Rule, add)
			}
			p.lintShadow(r.Rule, add)
		}
	}
	return append(out, p.lintSecrets()...)
}

type addWarning func(kind WarningKind, message string, instead ...string)

func lintPattern(r Rule, add addWarning) {
	if strings.Contains(r.Pattern, "**") {
		plain := r.Pattern
		for strings.Contains(plain, "**") {
			plain = strings.ReplaceAll(plain, "**", "*")
		}
		instead := []string{plain}
		if strings.Contains(plain, "/*/") {
			instead = append(instead, strings.Replace(plain, "/*/", "/", 1))
		}
		add(WarnDoubleStar, "** is * twice and * crosses / by itself, so a pattern with /**/ needs a directory in between", instead...)
	}
	if r.Act != Exec && r.Act != Net && (strings.ContainsAny(r.Pattern, "[]{}") || strings.HasPrefix(r.Pattern, "!")) {
		add(WarnLiteral, "there are no character classes, braces or negations: these characters match themselves")
	}
}

func lintPath(r Rule, add addWarning) {
	clean := cleanPattern(r.Pattern, thisHost().windows)
	switch parts := strings.Split(r.Pattern, "/"); {
	case slices.Contains(parts, ".."):
		add(WarnNeverMatches, "paths are compared after .. is resolved, and never leave the workspace")
	case r.Effect == Allow && r.Act == Write && strings.HasPrefix(r.Pattern, "/"):
		add(WarnNeverMatches, "an allow is compared with the path relative to the workspace", strings.TrimPrefix(clean, "/"))
	case r.Effect == Allow && r.Pattern != "" && r.Pattern != clean && !strings.HasPrefix(r.Pattern, "/"):
		instead := clean
		if strings.HasSuffix(r.Pattern, "/") && clean != "*" {
			instead += "/*"
		}
		add(WarnNeverMatches, "an allow is compared as written with a path that has no ./, no // and no closing /", instead)
	case r.Effect != Allow && strings.HasSuffix(clean, "/*") && !strings.ContainsAny(strings.TrimSuffix(clean, "/*"), "*?"):
		add(WarnDirectoryOpen, "the rule holds for what is in the directory, not for the directory itself", strings.TrimSuffix(clean, "/*"))
	}
	if r.Effect == Allow && r.Act == Write && clean == "*" {
		add(WarnEverything, "every file may be written, build scripts and CI files too: WithControlFiles asks about those")
	}
}

func (p Policy) lintExec(r Rule, add addWarning) {
	if r.Effect != Allow {
		return
	}
	if strings.Contains(r.Pattern, "__") && !strings.Contains(r.Pattern, " ") {
		return // names of tools: no words, no arguments
	}
	body, open := strings.CutSuffix(r.Pattern, "*")
	switch {
	case strings.Trim(r.Pattern, "*") == "" && r.Pattern != "":
		add(WarnEverything, "every command may run; only containment is left: WithLauncherAsk asks about shells and wrappers")
		return
	case open && body != "" && !strings.HasSuffix(body, " ") && !strings.HasSuffix(body, "*"):
		add(WarnWordBorder, "* does not stop at the end of a word, so longer names match too", body, body+" *")
	case !open && !strings.ContainsAny(r.Pattern, " *?<") && p.defaults.Exec != Allow &&
		p.Check(Need{Act: Exec, Argv: []string{r.Pattern, "x"}}).Effect != Allow:
		add(WarnBareProgram, "a command is compared as a whole, so this allows the name alone (as a tool's name is) and no arguments", r.Pattern, r.Pattern+" *")
	}
	if open {
		add(WarnAnyArguments, "every option passes, also one that writes a file outside or starts another program; what stops that is the sandbox")
	}
}

func lintNet(r Rule, add addWarning) {
	host, _ := splitTarget(r.Pattern)
	canonical := canonicalHostPattern(r.Pattern)
	switch {
	case strings.Contains(r.Pattern, "/"):
		add(WarnNeverMatches, "hosts are compared as host or host:port, without scheme and path")
	case r.Effect == Allow && canonical != r.Pattern:
		add(WarnNeverMatches, "an allow is compared as written with a host in lower case, in ASCII and without a closing dot", canonical)
	case r.Effect == Allow && strings.Trim(host, "*") == "" && r.Pattern != "":
		add(WarnEverything, "every host may be dialled")
	case strings.HasPrefix(host, "*.") && !strings.ContainsAny(host[2:], "*?"):
		add(WarnApexMissing, "this is every name below the domain, and not the domain itself", r.Pattern, strings.TrimPrefix(r.Pattern, "*."))
	case strings.HasPrefix(host, "*") && len(host) > 1 && host[1] != '.' && host[1] != '*':
		name := strings.TrimPrefix(r.Pattern, "*")
		add(WarnHostPrefix, "this also matches other domains that merely end in these letters", name, "*."+name)
	}
}

// lintShadow finds an allow that never gets its turn. Only a pattern that names one
// target can be judged for certain; for one with wildcards, its own text stands in.
func (p Policy) lintShadow(r Rule, add addWarning) {
	if r.Effect != Allow || len(p.faults) > 0 {
		return
	}
	if v := p.judgePattern(r.Act, r.Pattern); v.Matched && v.Effect != Allow && v.Layer != "" {
		add(WarnShadowed, fmt.Sprintf("rule \"%s\" of layer \"%s\" comes first with %s, in whatever order they stand", Escape(v.Rule), Escape(v.Layer), v.Effect))
	}
}

// lintSecrets looks for the places of keys that the policy leaves readable without
// asking. The names in Default are few on purpose.
func (p Policy) lintSecrets() []Warning {
	if p.IsPermissive() || len(p.faults) > 0 {
		return nil
	}
	var open []string
	for _, name := range []string{".env.local", ".netrc", ".npmrc", ".pypirc", "id_ecdsa", ".aws/credentials", ".ssh/config", ".kube/config", "terraform.tfstate"} {
		if p.Check(Need{Act: Read, Target: name}).Effect == Allow {
			open = append(open, name)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return []Warning{{
		Kind:    WarnSecretsOpen,
		Message: "keys are often kept in files that may be read here, such as " + strings.Join(open, ", ") + ": WithMoreSecrets closes the usual ones",
	}}
}
