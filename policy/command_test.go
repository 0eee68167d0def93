package policy

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

type commandCase struct {
	name     string
	on       platform
	policy   Policy
	argv     []string
	target   string // used where argv is nil
	resolved string
	want     Effect
	rule     string
}

func runCommands(t *testing.T, cases []commandCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := tc.policy.on(tc.on).checkOn(Need{Act: Exec, Argv: tc.argv, Target: tc.target, Resolved: tc.resolved}, tc.on)
			if got.Effect != tc.want || got.Rule != tc.rule || got.Matched != (tc.rule != "") {
				t.Errorf("%q%s = %+v, want %s by %q", tc.argv, tc.target, got, tc.want, tc.rule)
			}
		})
	}
}

func argv(words ...string) []string { return words }

func TestCommandLines(t *testing.T) {
	p := Default().Layer("ops").DenyExec("git push*").AllowExec("cargo", "cargo test*")
	logs := Default().Layer("ops").AllowExec("git", "git log*")
	denyGit := Permissive().Layer("ops").DenyExec("git")
	goTest := Default().Layer("ops").AllowExec("go test*")
	runCommands(t, []commandCase{
		{name: "a denied command line", policy: p, argv: argv("git", "push"), want: Deny, rule: "git push*"},
		{name: "a denied command line by the path of its program", policy: p, argv: argv("/usr/bin/git", "push", "origin", "main"), want: Deny, rule: "git push*"},
		{name: "a slash in an argument does not hide the program", policy: p, argv: argv("/usr/bin/git", "push", "origin", "feature/x"), want: Deny, rule: "git push*"},
		{name: "control: another git command asks by default", policy: p, argv: argv("git", "status"), want: Ask},
		{name: "control: the allowed line runs", policy: p, argv: argv("cargo", "test", "--all"), want: Allow, rule: "cargo test*"},
		{name: "an allow of the bare word allows the bare word", policy: p, argv: argv("cargo"), want: Allow, rule: "cargo"},
		{name: "an allow of the bare word allows no arguments", policy: p, argv: argv("cargo", "publish"), want: Ask},
		{name: "an allow of the line is enough without one of the program", policy: goTest, argv: argv("go", "test", "./..."), want: Allow, rule: "go test*"},
		{name: "an allow of the line does not allow the program alone", policy: goTest, argv: argv("go"), want: Ask},
		{name: "a program that the repository ships is not the allowed one", policy: p, argv: argv("./cargo", "test"), want: Ask},
		{name: "a program that was just built is not the allowed one", policy: p, argv: argv("target/debug/cargo", "test"), want: Ask},
		{name: "an allow does not match by the last part of a program", policy: logs, argv: argv("./git log"), want: Ask},
		{name: "an allow does not match by the last part of an argument", policy: logs, argv: argv("git", "push", "origin", "x/git log"), want: Ask},
		{name: "an allowed line with a file below a directory of that name", policy: goTest, argv: argv("go test/evil"), want: Ask},
		{name: "an open word does not reach a program in a directory of that name", policy: Default().Layer("ops").AllowExec("go*"), argv: argv("go/evil"), want: Ask},
		{name: "an open word does not reach it by a backslash", policy: Default().Layer("ops").AllowExec("go*"), argv: argv(`go\evil`), want: Ask},
		{name: "control: an open word matches a longer name", policy: Default().Layer("ops").AllowExec("go*"), argv: argv("gofmt", "-l", "."), want: Allow, rule: "go*"},
		{name: "control: a pattern with a path reaches a program by path", policy: Default().Layer("ops").AllowExec("./scripts/*"), argv: argv("./scripts/ci/build.sh", "-v"), want: Allow, rule: "./scripts/*"},
		{name: "control: a star reaches everything", policy: Default().Layer("ops").AllowExec("*"), argv: argv("./x", "y"), want: Allow, rule: "*"},
		{name: "options before the command are not the denied line", policy: p, argv: argv("git", "-c", "alias.x=!cmd", "x"), want: Ask},
		{name: "a wider rule catches options before the command", policy: p.DenyExec("git* push*"), argv: argv("git", "--no-pager", "push"), want: Deny, rule: "git* push*"},
		{name: "a wrapper is another program", policy: p, argv: argv("env", "A=1", "git", "push"), want: Ask},
		{name: "a shell is another program", policy: p, argv: argv("sh", "-c", "git push"), want: Ask},
		{name: "find that runs a command", policy: p, argv: argv("find", ".", "-exec", "rm", "{}", ";"), want: Ask},
		{name: "tar that runs a command", policy: p, argv: argv("tar", "--to-command=x", "-xf", "a"), want: Ask},
		{name: "make, npm run and a diff driver are not known to be safe", policy: p, argv: argv("git", "diff", "--ext-diff"), want: Ask},
		{name: "one element that reads like a line is denied as one", policy: p, argv: argv("git push"), want: Deny, rule: "git push*"},
		{name: "an empty argument does not hide a denied line", policy: p, argv: argv("git", "", "push"), want: Deny, rule: "git push*"},
		{name: "an empty argument is not skipped for an allow", policy: p, argv: argv("cargo", "", "test"), want: Ask},
		{name: "another case is the denied program", policy: p, argv: argv("GIT", "push"), want: Deny, rule: "git push*"},
		{name: "another case in the arguments is the denied line", policy: p, argv: argv("Git", "PUSH"), want: Deny, rule: "git push*"},
		{name: "another case is not the allowed program", policy: Default(), argv: argv("RUSTC"), want: Ask},
		{name: "control: the built-in allow", policy: Default(), argv: argv("rustc"), want: Allow, rule: "rustc"},
		{name: "a denied program with any arguments", policy: denyGit, argv: argv("git", "status"), want: Deny, rule: "git"},
		{name: "a denied program by path with any arguments", policy: denyGit, argv: argv("/usr/bin/git", "status"), want: Deny, rule: "git"},
		{name: "a denied program by a windows path anywhere", policy: Permissive().Layer("ops").DenyExec("kubectl.exe"), argv: argv(`C:\k\kubectl.exe`, "get"), want: Deny, rule: "kubectl.exe"},
		{name: "a denied program behind another name", policy: denyGit, argv: argv("g", "status"), resolved: "/usr/bin/git", want: Deny, rule: "git"},
		{name: "a denied line behind another name", policy: Permissive().Layer("ops").DenyExec("git push*"), argv: argv("g", "push"), resolved: "/usr/bin/git", want: Deny, rule: "git push*"},
		{name: "a denied absolute program behind a bare name", policy: Permissive().Layer("ops").DenyExec("/opt/bad/*"), argv: argv("x"), resolved: "/opt/bad/x", want: Deny, rule: "/opt/bad/*"},
		{name: "what a program resolves to allows nothing", policy: Default().Layer("ops").AllowExec("/usr/bin/git status"), argv: argv("git", "status"), resolved: "/usr/bin/git", want: Ask},
		{name: "an ask of a program beats an allow of its line", policy: goTest.AskExec("go"), argv: argv("go", "test", "./..."), want: Ask, rule: "go"},
		{name: "control: an extension is part of the name on linux", on: linux, policy: denyGit, argv: argv("git.exe", "push"), want: Allow},
		{name: "an extension is not part of the name on windows", on: windows, policy: denyGit, argv: argv("GIT.EXE", "push"), want: Deny, rule: "git"},
		{name: "a script extension is not part of the name on windows", on: windows, policy: p, argv: argv("git.cmd", "push"), want: Deny, rule: "git push*"},
		{name: "a path with an extension on windows", on: windows, policy: p, argv: argv(`C:\bin\git.exe`, "push"), want: Deny, rule: "git push*"},
		{name: "a resolved extension on windows", on: windows, policy: p, argv: argv("g", "push"), resolved: `C:\bin\git.exe`, want: Deny, rule: "git push*"},
		{name: "metacharacters inside an argument are bytes", policy: Default().Layer("ops").AllowExec("echo a;b"), argv: argv("echo", "a;b"), want: Allow, rule: "echo a;b"},
		{name: "a longer word by the letter of the glob", policy: Default().Layer("ops").AllowExec("mkdir*"), argv: argv("mkdirs-evil"), want: Allow, rule: "mkdir*"},
		{name: "a longer argument by the letter of the glob", policy: logs, argv: argv("git", "log-helper"), want: Allow, rule: "git log*"},
		{name: "an option of an allowed line passes", policy: logs, argv: argv("git", "log", "--output=../o"), want: Allow, rule: "git log*"},
		{name: "a tool is called by its name", policy: Default().Layer("ops").AllowExec("lookup_order"), target: "lookup_order", want: Allow, rule: "lookup_order"},
		{name: "all tools of a server are denied by a prefix", policy: Permissive().Layer("ops").DenyExec("mcp__files__*"), target: "mcp__files__delete", want: Deny, rule: "mcp__files__*"},
		{name: "a server is denied by its program's name", policy: denyGit, target: "/usr/local/bin/git", want: Deny, rule: "git"},
		{name: "a name that nobody mentioned asks", policy: Default(), target: "mcp__files__read", want: Ask},
	})
}

// The programs that look as if they only read and do not. Nothing is known to be safe
// by its name, and the opt-in layer asks even where everything is allowed.
func TestLaunchersAsk(t *testing.T) {
	open := Permissive().Layer("ops").AllowExec("*").WithLauncherAsk()
	for _, args := range [][]string{
		argv("git", "-c", "core.pager=./p", "log"),
		argv("git", "--exec-path=.", "log"),
		argv("git", "-p", "status"),
		argv("git", "log", "--output=../o"),
		argv("find", ".", "-fprintf", "../o", "x"),
		argv("find", ".", "-execdir", "./p", ";"),
		argv("find", ".", "-delete"),
		argv("rg", "--pre", "./p", "q"),
		argv("sed", "-n", "1w ../o", "a"),
		argv("sed", "1e", "a"),
		argv("tar", "-cf", "x", "--checkpoint=1", "--checkpoint-action=exec=./p", "a"),
		argv("xargs", "-a", "l", "./p"),
		argv("go", "build", "-toolexec", "./p", "./..."),
		argv("ssh", "-o", "ProxyCommand=./p", "h"),
		argv("awk", `BEGIN{system("./p")}`),
		argv("npm", "run", "x"),
		argv("make"),
		argv("/bin/sh", "-c", "git push"),
		argv("python3", "-c", "import os"),
		argv("node", "-e", "1"),
		argv("timeout", "5", "git", "push"),
		argv("sudo", "ls"),
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			if got := Default().Check(Need{Act: Exec, Argv: args}); got.Effect != Ask || got.Matched {
				t.Errorf("under the default policy %q = %+v, want ask by default", args, got)
			}
			if got := open.Check(Need{Act: Exec, Argv: args}); got.Effect != Ask || got.Layer != LayerLaunchers {
				t.Errorf("with everything allowed %q = %+v, want ask by the launcher layer", args, got)
			}
		})
	}
	for _, args := range [][]string{argv("go", "test", "./..."), argv("git", "status"), argv("ls", "-l"), argv("cargo", "build")} {
		if got := open.Check(Need{Act: Exec, Argv: args}); got.Effect != Allow {
			t.Errorf("control %q = %+v, want allow", args, got)
		}
	}
}

func drawRules(t *rapid.T, acts ...Act) []Rule {
	pattern := rapid.SampledFrom([]string{"*", "a", "a*", "a b*", "*b", "b", "a/b", "a/*", "./a", "a/", "b *", "?", "A", "a.com", "*.com", "a.com:80", "/x/a", ""})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rule {
		return Rule{
			Act:     rapid.SampledFrom(acts).Draw(t, "act"),
			Effect:  rapid.SampledFrom(Effects()).Draw(t, "effect"),
			Pattern: pattern.Draw(t, "pattern"),
		}
	}), 0, 6).Draw(t, "rules")
}

func drawPolicy(t *rapid.T, acts ...Act) Policy {
	effect := rapid.SampledFrom(Effects())
	p := Policy{}.WithDefaults(Defaults{effect.Draw(t, "read"), effect.Draw(t, "write"), effect.Draw(t, "exec"), effect.Draw(t, "net")})
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"one", "two", "three"}), 0, 3).Draw(t, "layers") {
		p = p.Layer(name).With(drawRules(t, acts...)...)
	}
	return p
}

func drawNeed(t *rapid.T, acts ...Act) Need {
	n := Need{Act: rapid.SampledFrom(acts).Draw(t, "act")}
	switch n.Act {
	case Exec:
		words := rapid.SampledFrom([]string{"a", "b", "", "A", "./a", "/x/a", "a b", "x/b", `c\a`})
		n.Argv = rapid.SliceOfN(words, 1, 4).Draw(t, "argv")
		n.Resolved = rapid.SampledFrom([]string{"", "/x/a", "/y/b"}).Draw(t, "resolved")
	case Net:
		n.Target = rapid.SampledFrom([]string{"a.com:80", "A.com.", "b.a.com:443", "x.org", "[::1]:80", "a b"}).Draw(t, "host")
	default:
		parts := rapid.SampledFrom([]string{"a", "b", ".", "..", "", "A"})
		n.Target = strings.Join(rapid.SliceOfN(parts, 0, 4).Draw(t, "parts"), "/")
		n.Resolved = rapid.SampledFrom([]string{"", "/x/a", "/x/a/b"}).Draw(t, "resolved")
		n.FoldCase = rapid.Bool().Draw(t, "fold")
	}
	return n
}

func TestACommandIsNeverLooserThanTheRulesOnItsParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := drawPolicy(t, Exec), drawNeed(t, Exec)
		whole := p.Check(n)
		for _, part := range []string{n.Argv[0], n.Resolved} {
			if part == "" {
				continue
			}
			v := p.Check(Need{Act: Exec, Target: part})
			if v.Matched && v.Effect != Allow && Stricter(whole.Effect, v.Effect) != whole.Effect {
				t.Fatalf("%q is %s and its part %q is %s by %q", n.Argv, whole.Effect, part, v.Effect, v.Rule)
			}
		}
		joined := strings.Join(n.Argv, " ")
		if whole.Effect == Allow && whole.Matched && !matchSlowly([]rune(whole.Rule), []rune(joined)) {
			t.Fatalf("%q is allowed by %q, which does not match the joined line", n.Argv, whole.Rule)
		}
	})
}

func TestSayingWhatATargetResolvesToNeverLoosens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := drawPolicy(t, Acts()...), drawNeed(t, Acts()...)
		plain := n
		plain.Resolved, plain.FoldCase = "", false
		with, without := p.Check(n).Effect, p.Check(plain).Effect
		if Stricter(with, without) != with {
			t.Fatalf("%+v is %s with what is known about it and %s without", n, with, without)
		}
	})
}
