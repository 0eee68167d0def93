package policy

import "testing"

// on recompiles a policy as another platform would have built it.
func (p Policy) on(host platform) Policy {
	out := Policy{defaults: p.defaults, faults: p.faults}
	for _, l := range p.layers {
		next := layer{name: l.name}
		for _, r := range l.rules {
			next.rules = append(next.rules, newRule(r.Rule, host))
		}
		out.layers = append(out.layers, next)
	}
	return out
}

var (
	linux   = platform{}
	mac     = platform{folds: true}
	windows = platform{windows: true, folds: true}
)

// ops is the policy of the adversarial tables.
func ops() Policy {
	return Default().Layer("ops").AllowRead("*").AllowWrite("src/*").DenyRead("secrets/*").DenyWrite("secrets/*")
}

type pathCase struct {
	name     string
	on       platform
	policy   Policy
	act      Act
	target   string
	resolved string
	fold     bool
	want     Effect
	rule     string // the rule that must decide; empty: the default
	layer    string
}

func runPaths(t *testing.T, cases []pathCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.policy.on(tc.on).checkOn(Need{Act: tc.act, Target: tc.target, Resolved: tc.resolved, FoldCase: tc.fold}, tc.on)
			want := Verdict{Effect: tc.want, Rule: tc.rule, Layer: tc.layer, Matched: tc.rule != "" || tc.layer != ""}
			if got != want {
				t.Errorf("%s %q = %+v, want %+v", tc.act, tc.target, got, want)
			}
		})
	}
}

func TestPathSpellings(t *testing.T) {
	p := ops()
	runPaths(t, []pathCase{
		{name: "control: an ordinary file is read", policy: p, act: Read, target: "src/a.go", want: Allow, rule: "*", layer: "ops"},
		{name: "control: an ordinary file below src is written", policy: p, act: Write, target: "src/a/b.go", want: Allow, rule: "src/*", layer: "ops"},
		{name: "control: a file elsewhere asks by default", policy: p, act: Write, target: "doc/a.md", want: Ask},
		{name: "a denied file through a sibling", policy: p, act: Read, target: "src/../secrets/key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "a denied file with a leading dot", policy: p, act: Read, target: "./secrets/key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "a denied file with a doubled slash", policy: p, act: Read, target: "secrets//key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "a denied file with a dot inside", policy: p, act: Read, target: "secrets/./key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "an allowed tree does not cover what climbs out of it", policy: p, act: Write, target: "src/../doc/a.md", want: Ask},
		{name: "a path that stays inside is its normal form", policy: p, act: Write, target: "x/../src/a", want: Allow, rule: "src/*", layer: "ops"},
		{name: "a climb above the root", policy: p, act: Read, target: "../outside", want: Deny, rule: OutsideRoot},
		{name: "the parent of the root itself", policy: p, act: Read, target: "..", want: Deny, rule: OutsideRoot},
		{name: "a climb hidden behind a directory", policy: p, act: Read, target: "src/../../etc/passwd", want: Deny, rule: OutsideRoot},
		{name: "a climb under the permissive policy", policy: Permissive(), act: Write, target: "../x", want: Deny, rule: OutsideRoot},
		{name: "a name that begins with two dots does not climb", policy: p, act: Read, target: "..notes", want: Allow, rule: "*", layer: "ops"},
		{name: "the root is the empty path", policy: p, act: Read, target: "", want: Allow, rule: "*", layer: "ops"},
		{name: "a dot is the root", policy: Permissive().Layer("l").DenyRead(""), act: Read, target: ".", want: Deny, layer: "l"},
		{name: "a pattern for what is in a directory leaves the directory open", policy: p, act: Read, target: "secrets", want: Allow, rule: "*", layer: "ops"},
		{name: "a bare directory covers what is in it", policy: Permissive().Layer("l").DenyRead("secrets"), act: Read, target: "secrets/key", want: Deny, rule: "secrets", layer: "l"},
		{name: "a bare directory covers what is deep in it", policy: Permissive().Layer("l").DenyRead("secrets"), act: Read, target: "a/secrets/b/key", want: Deny, rule: "secrets", layer: "l"},
		{name: "control: a bare directory does not cover its neighbour", policy: Permissive().Layer("l").DenyRead("secrets"), act: Read, target: "secrets-public/key", want: Allow},
		{name: "an .env that is a directory", policy: p, act: Read, target: ".env/prod", want: Deny, rule: ".env", layer: LayerSecrets},
		{name: "an .env at any depth", policy: p, act: Read, target: "config/.env", want: Deny, rule: ".env", layer: LayerSecrets},
		{name: "a key at any depth", policy: p, act: Write, target: "src/tls/server.key", want: Deny, rule: "*.key", layer: LayerSecrets},
		{name: "variants of .env are open by default", policy: p, act: Read, target: ".env.local", want: Allow, rule: "*", layer: "ops"},
		{name: "credential files are open by default", policy: p, act: Read, target: ".aws/credentials", want: Allow, rule: "*", layer: "ops"},
		{name: "the opt-in layer closes variants of .env", policy: p.WithMoreSecrets(), act: Read, target: ".env.local", want: Deny, rule: ".env.*", layer: LayerMoreSecret},
		{name: "the opt-in layer closes credential directories", policy: p.WithMoreSecrets(), act: Read, target: "home/.aws/credentials", want: Deny, rule: ".aws", layer: LayerMoreSecret},
		{name: "the opt-in layer closes newer key files", policy: p.WithMoreSecrets(), act: Read, target: "id_ecdsa", want: Deny, rule: "id_ecdsa", layer: LayerMoreSecret},
		{name: "a deny with a leading dot works", policy: Permissive().Layer("l").DenyRead("./secrets/*"), act: Read, target: "secrets/key", want: Deny, rule: "./secrets/*", layer: "l"},
		{name: "a deny with a closing slash covers what is in it", policy: Permissive().Layer("l").DenyRead("secrets/"), act: Read, target: "secrets/a/key", want: Deny, rule: "secrets/", layer: "l"},
		{name: "a deny with a closing slash covers the directory", policy: Permissive().Layer("l").DenyRead("secrets/"), act: Read, target: "secrets", want: Deny, rule: "secrets/", layer: "l"},
		{name: "a deny with a doubled slash works", policy: Permissive().Layer("l").DenyRead("a//b"), act: Read, target: "a/b", want: Deny, rule: "a//b", layer: "l"},
		{name: "an ask with a leading dot works", policy: Permissive().Layer("l").AskWrite("./src/*"), act: Write, target: "src/a", want: Ask, rule: "./src/*", layer: "l"},
		{name: "a deny of ./ is a deny of everything", policy: Permissive().Layer("l").DenyWrite("./"), act: Write, target: "a/b", want: Deny, rule: "./", layer: "l"},
		{name: "an allow with a leading dot stays inert", policy: Default().Layer("l").AllowWrite("./src/*"), act: Write, target: "src/a", want: Ask},
		{name: "a deny with the absolute path works on what was resolved", policy: Permissive().Layer("l").DenyRead("/abs/root/secrets/*"), act: Read, target: "secrets/key", resolved: "/abs/root/secrets/key", want: Deny, rule: "/abs/root/secrets/*", layer: "l"},
		{name: "a deny of an absolute directory covers what was resolved below it", policy: Permissive().Layer("l").DenyRead("/abs/root/secrets"), act: Read, target: "link", resolved: "/abs/root/secrets/key", want: Deny, rule: "/abs/root/secrets", layer: "l"},
		{name: "control: an allow never looks at what was resolved", policy: Default().Layer("l").AllowWrite("/abs/root/*"), act: Write, target: "a", resolved: "/abs/root/a", want: Ask},
		{name: "a directory above the workspace is not named by a bare word", policy: Permissive().Layer("l").DenyRead("build"), act: Read, target: "a", resolved: "/home/u/build/project/a", want: Allow},
		{name: "an absolute path is decided on its text", policy: Permissive().Layer("l").DenyRead(".ssh"), act: Read, target: "/home/u/.ssh/skill.md", want: Deny, rule: ".ssh", layer: "l"},
		{name: "a git hook", policy: p, act: Write, target: ".git/hooks/pre-commit", want: Deny, rule: ".git/*", layer: LayerConfig},
		{name: "the git configuration", policy: p, act: Write, target: ".git/config", want: Deny, rule: ".git/*", layer: LayerConfig},
		{name: "the git configuration of a nested repository", policy: p, act: Write, target: "sub/.git/config", want: Deny, rule: "*/.git/*", layer: LayerConfig},
		{name: "the harness's configuration", policy: p, act: Write, target: "io.toml", want: Deny, rule: "io.toml", layer: LayerConfig},
		{name: "the harness's configuration further down", policy: p, act: Write, target: "sub/io.toml", want: Deny, rule: "io.toml", layer: LayerConfig},
		{name: "the harness's local configuration", policy: p, act: Write, target: "io.local.toml", want: Deny, rule: "io.local.toml", layer: LayerConfig},
		{name: "an added allow does not open the configuration", policy: p.AllowWrite("io.toml", "*"), act: Write, target: "io.toml", want: Deny, rule: "io.toml", layer: LayerConfig},
		{name: "control: the configuration can be read", policy: p, act: Read, target: "io.toml", want: Allow, rule: "*", layer: "ops"},
		{name: "control: .gitignore is an ordinary file", policy: p, act: Write, target: ".gitignore", want: Ask},
		{name: "the .git directory itself is left to whoever opens it", policy: p, act: Write, target: ".git", want: Ask},
		{name: "files that other programs obey ask by default", policy: p, act: Write, target: ".github/workflows/x.yml", want: Ask},
		{name: "files that other programs obey ask where writes are allowed", policy: p.AllowWrite("*").WithControlFiles(), act: Write, target: ".github/workflows/x.yml", want: Ask, rule: ".github", layer: LayerControl},
		{name: "a build file asks where writes are allowed", policy: p.AllowWrite("*").WithControlFiles(), act: Write, target: "sub/Makefile", want: Ask, rule: "Makefile", layer: LayerControl},
		{name: "an allow matches the whole path", policy: Default().Layer("l").AllowWrite("out.txt"), act: Write, target: "out.txt", want: Allow, rule: "out.txt", layer: "l"},
		{name: "an allow does not match by the last part", policy: Default().Layer("l").AllowWrite("out.txt"), act: Write, target: "logs/out.txt", want: Ask},
		{name: "a read rule says nothing about writes", policy: Default().Layer("l").DenyRead("a"), act: Write, target: "a", want: Ask},
	})
}

func TestPathNames(t *testing.T) {
	p := ops()
	deny := func(glob string) Policy { return Permissive().Layer("l").DenyRead(glob).DenyWrite(glob) }
	runPaths(t, []pathCase{
		{name: "another case is another file on linux", on: linux, policy: p, act: Read, target: "SECRETS/key", want: Allow, rule: "*", layer: "ops"},
		{name: "another case is the same file where names fold", on: linux, fold: true, policy: p, act: Read, target: "SECRETS/key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "another case is the same file on a mac", on: mac, policy: p, act: Read, target: "SECRETS/key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "another case is the same file on windows", on: windows, policy: p, act: Read, target: "SECRETS/key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "an .ENV on a mac", on: mac, policy: p, act: Read, target: "conf/.ENV", want: Deny, rule: ".env", layer: LayerSecrets},
		{name: "an allow keeps its case where names fold", on: mac, policy: p, act: Write, target: "SRC/a", want: Ask},
		{name: "a decomposed spelling of a composed name on a mac", on: mac, policy: deny("caf\u00e9/*"), act: Read, target: "cafe\u0301/x", want: Deny, rule: "caf\u00e9/*", layer: "l"},
		{name: "a composed spelling of a decomposed name on a mac", on: mac, policy: deny("cafe\u0301"), act: Read, target: "caf\u00e9/x", want: Deny, rule: "cafe\u0301", layer: "l"},
		{name: "a decomposed spelling is another file on linux", on: linux, policy: deny("caf\u00e9/*"), act: Read, target: "cafe\u0301/x", want: Allow},
		{name: "a resolved name folds as well", on: mac, policy: deny("/r/secrets/*"), act: Read, target: "l", resolved: "/R/Secrets/k", want: Deny, rule: "/r/secrets/*", layer: "l"},
		{name: "a look-alike letter is another file", on: mac, policy: deny("secret"), act: Read, target: "ѕecret", want: Allow},
		{name: "a fullwidth letter is another file", on: mac, policy: deny("secret"), act: Read, target: "ｓecret", want: Allow},
		{name: "a joiner inside a name is another file on linux", on: linux, policy: p, act: Write, target: ".g\u200cit/config", want: Ask},
		{name: "a joiner inside a name is skipped where names fold", on: mac, policy: p, act: Write, target: ".g\u200cit/config", want: Deny, rule: ".git/*", layer: LayerConfig},
		{name: "an upper-case .GIT where names fold", on: mac, policy: p, act: Write, target: ".GIT/config", want: Deny, rule: ".git/*", layer: LayerConfig},
		{name: "an upper-case .GIT is another file on linux", on: linux, policy: p, act: Write, target: ".GIT/config", want: Ask},
		{name: "a closing dot on windows", on: windows, policy: p, act: Write, target: ".git./config", want: Deny, rule: ".git/*", layer: LayerConfig},
		{name: "closing blanks on windows", on: windows, policy: p, act: Read, target: "secrets /key", want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "a short name of .git on windows", on: windows, policy: p, act: Write, target: "GIT~1/config", want: Deny, rule: ".git/*", layer: LayerConfig},
		{name: "a stream suffix on windows", on: windows, policy: p, act: Write, target: "io.toml::$DATA", want: Deny, rule: "io.toml", layer: LayerConfig},
		{name: "the long name behind a short one on windows", on: windows, policy: deny("C:/r/secrets/*"), act: Read, target: "SECRET~1/k", resolved: `C:\r\secrets\k`, want: Deny, rule: "C:/r/secrets/*", layer: "l"},
		{name: "control: an ordinary name with dots on windows", on: windows, policy: p, act: Read, target: "src/a.b.c", want: Allow, rule: "*", layer: "ops"},
		{name: "backslashes separate on windows", on: windows, policy: p, act: Read, target: `secrets\key`, want: Deny, rule: "secrets/*", layer: "ops"},
		{name: "a climb with backslashes on windows", on: windows, policy: p, act: Read, target: `src\..\..\x`, want: Deny, rule: OutsideRoot},
		{name: "a backslash is a plain character on linux", on: linux, policy: deny("a/b.txt"), act: Read, target: `a\b.txt`, want: Allow},
		{name: "a rule with a backslash matches that name on linux", on: linux, policy: deny(`a\b.txt`), act: Read, target: `a\b.txt`, want: Deny, rule: `a\b.txt`, layer: "l"},
		{name: "a newline in a name is matched as it is", on: linux, policy: deny("a\nb"), act: Read, target: "a\nb", want: Deny, rule: "a\nb", layer: "l"},
	})
}

func TestWindowsPaths(t *testing.T) {
	share := Permissive().Layer("l").DenyRead(`C:\secrets\*`, `\\srv\share\private\*`)
	var cases []pathCase
	for _, target := range []string{`C:/secrets/t`, `C:\secrets\t`, `\\?\C:\secrets\t`, `c:\SECRETS\t`} {
		cases = append(cases, pathCase{name: "denied " + target, on: windows, policy: share, act: Read, target: target, want: Deny, rule: `C:\secrets\*`, layer: "l"})
	}
	for _, target := range []string{`\\srv\share\private\k`, `\\?\UNC\srv\share\private\k`, `//srv/share/private/k`} {
		cases = append(cases, pathCase{name: "denied " + target, on: windows, policy: share, act: Read, target: target, want: Deny, rule: `\\srv\share\private\*`, layer: "l"})
	}
	for _, target := range []string{`D:\secrets\k`, `C:\secrets-public\k`, `C:\a\b.txt.bak`, `\\srv\share\public\k`} {
		cases = append(cases, pathCase{name: "open " + target, on: windows, policy: share, act: Read, target: target, want: Allow})
	}
	runPaths(t, cases)
}
