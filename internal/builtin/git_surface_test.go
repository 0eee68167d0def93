package builtin

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/tool"
)

func TestEveryCommandLineOfGit(t *testing.T) {
	var lines [][]string
	var envs [][]string
	var b *bench
	b = newBench(t, policy.Permissive(), func(e *Env) {
		e.RunNarrowed = nil
		e.Run = func(_ context.Context, _ tool.Call, cmd sandbox.Cmd) (*sandbox.Result, error) {
			lines, envs = append(lines, cmd.Argv), append(envs, cmd.Env)
			at := filepath.ToSlash(filepath.Join(b.root, ".git"))
			out := "\n" + at + "\n" + at + "\n"
			if slices.Contains(cmd.Argv, "--name-only") || slices.Contains(cmd.Argv, "ls-files") {
				out = "a\x00b\x00"
			}
			if slices.Contains(cmd.Argv, "--name-status") {
				out = "M\x00a\x00"
			}
			if cmd.Stdout != nil {
				_, _ = cmd.Stdout.Write([]byte(out))
			}
			return &sandbox.Result{Stdout: sandbox.Output{Head: out}}, nil
		}
	})
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	evil := []string{"push", "./--force", "reset", "--hard; rm", "$(x)", "a b"}
	for _, call := range [][2]string{
		{"git_status", `{}`}, {"git_status", args("paths", evil[:1])}, {"git_diff", args("staged", true, "paths", evil)}, {"git_diff", `{}`},
		{"git_log", args("max_count", 100000, "paths", evil[:3])}, {"git_log", args("max_count", -3)}, {"git_add", args("paths", []string{"push", "a b"})},
		{"git_commit", args("message", "--amend")}, {"git_branch", args("name", "push")}, {"git_worktree", args("name", "reset", "path", "checkout")},
	} {
		b.call(call[0], call[1])
	}
	subcommands := []string{"rev-parse", "config", "status", "diff", "log", "ls-files", "ls-tree", "add", "commit", "switch", "worktree"}
	forbidden := []string{"push", "fetch", "pull", "clone", "remote", "reset", "checkout", "restore", "rebase", "merge", "stash", "clean", "gc", "prune",
		"filter-branch", "remove", "rm", "mv", "branch", "tag", "update-ref", "apply", "am", "revert", "cherry-pick", "-D", "-f", "--force", "-A", "--amend", "--exec-path"}
	used := map[string]bool{}
	for i, argv := range lines {
		if !filepath.IsAbs(argv[0]) || !strings.HasPrefix(strings.TrimSuffix(filepath.Base(argv[0]), ".exe"), "git") || argv[1] != "--no-pager" {
			t.Fatalf("command line %q", argv)
		}
		j := 2
		if argv[j] == "--no-optional-locks" {
			j++
		}
		settings := map[string]bool{}
		for argv[j] == "-c" {
			settings[argv[j+1]] = true
			j += 2
		}
		for _, want := range []string{"core.hooksPath=" + os.DevNull, "core.fsmonitor=false", "commit.gpgSign=false", "core.editor=true", "diff.ignoreSubmodules=dirty", "status.submoduleSummary=false", "submodule.recurse=false"} {
			if !settings[want] {
				t.Errorf("%q lacks -c %s", argv, want)
			}
		}
		sub := argv[j]
		used[sub] = true
		if !slices.Contains(subcommands, sub) {
			t.Errorf("subcommand %q in %q", sub, argv)
		}
		rest := argv[j+1:]
		if sub == "commit" {
			if strings.Join(rest, " ") != "--no-verify --quiet -m --amend" {
				t.Errorf("commit has the arguments %q", rest)
			}
			rest = rest[:3]
		}
		if sub == "diff" {
			for _, want := range []string{"--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=dirty", "--submodule=short"} {
				if !slices.Contains(rest, want) {
					t.Errorf("%q lacks %s", argv, want)
				}
			}
		}
		if sub == "worktree" {
			if strings.Join(rest, " ") != "add -b reset -- ./checkout" {
				t.Errorf("worktree has the arguments %q", rest)
			}
			rest = nil
		}
		if sub == "ls-tree" {
			if strings.Join(rest, " ") != "-r -z --name-only HEAD" {
				t.Errorf("ls-tree has the arguments %q", rest)
			}
			rest = nil
		}
		if end := slices.Index(rest, "--"); end >= 0 {
			if slices.Contains(rest[end+1:], "--") || end == len(rest)-1 {
				t.Errorf("%q has -- in a wrong place", argv)
			}
			rest = rest[:end]
		}
		for _, a := range rest {
			if slices.Contains(forbidden, a) || !strings.HasPrefix(a, "-") {
				t.Errorf("%q stands before the paths of %q", a, argv)
			}
		}
		for _, want := range []string{"GIT_PAGER=cat", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
			"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "GIT_LITERAL_PATHSPECS=1", "GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "LC_ALL=C"} {
			if !slices.Contains(envs[i], want) {
				t.Errorf("the environment of %q lacks %s", argv, want)
			}
		}
	}
	for _, s := range subcommands {
		if !used[s] {
			t.Errorf("no call used git %s, so its command line was not seen", s)
		}
	}
	all := ""
	for _, l := range lines {
		all += strings.Join(l, " ") + "\n"
	}
	for _, want := range []string{"--max-count=200", "--max-count=1\n", "--no-ext-diff --no-textconv", "status --porcelain=v1 --untracked-files=normal --ignore-submodules=dirty", "switch --create=push --quiet"} {
		if !strings.Contains(all, want) {
			t.Errorf("no command line has %q in\n%s", want, all)
		}
	}
}
