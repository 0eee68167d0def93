//go:build unix

package loop

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/sandbox"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/trace"
)

// What lies below secrets, and the names that nobody asks for.
const (
	secretWord = "CANARY-4711"
	secretName = "unguessable-name"
)

// spellings are ways to name a path below the workspace's root, all of which mean
// the path itself, something else, or nothing.
func spellings(root, rel string) []string {
	dir, name, _ := strings.Cut(rel, "/")
	abs := filepath.Join(root, filepath.FromSlash(rel))
	return []string{
		rel, "./" + rel, ".//./" + rel, dir + "//" + name, dir + "/./" + name, "src/../" + rel, "src/../../" + filepath.Base(root) + "/" + rel,
		dir + "/x/../" + name, dir + "/../" + rel, rel + "/", rel + "/.", rel + "/..", rel + ".", rel + " ", " " + rel, dir + "/" + name + "...", dir + "./" + name, dir + " /" + name,
		abs, "/" + abs, "//" + strings.TrimPrefix(abs, "/"), "/proc/self/cwd/" + rel, "/proc/self/root" + abs, "file://" + abs, "~/" + rel, "$PWD/" + rel,
		strings.ToUpper(rel), strings.ToUpper(dir) + "/" + name, strings.ToUpper(dir[:1]) + rel[1:],
		dir + `\` + name, `.\` + dir + `\` + name, `\\?\` + abs, rel + "::$DATA", rel + ":x", rel + "\x00", rel + "\x00.txt", rel + "\n", rel + "\u200b", "\u202e" + rel,
		"ｓecrets/" + name, "se\u0301crets/" + name, "sеcrets/" + name, "%73ecrets/" + name, "..%2f" + rel, "secret?/" + name, "secrets/*", "{secrets}/" + name,
		":(top)" + rel, ":/" + rel, ":(glob)**/" + name, ":!x",
		"link", "chain", "dirlink/" + name, "dirlink/./" + name, "src/dirlink2/" + name, "dirlink/../" + rel, "src/dirlink2/../" + rel, "abslink", "loop/" + rel, "dangling",
	}
}

// attempts are the calls of every tool that names a path, for one spelling of a
// denied one. Programs are started only with what means something on disk.
func attempts(s string, exists, commands bool) []provider.ToolCall {
	type args = map[string]any
	calls := []provider.ToolCall{
		scripted.Tool("read_file", args{"path": s}), scripted.Tool("read_file", args{"path": s, "offset": 1, "limit": 1}),
		scripted.Tool("list_dir", args{"path": s}), scripted.Tool("list_dir", args{"path": filepath.ToSlash(filepath.Dir(s))}),
		scripted.Tool("grep", args{"pattern": `CANARY-\d+`, "path_glob": s}), scripted.Tool("find", args{"name_glob": s}),
		scripted.Tool("edit_file", args{"path": s, "search": "CANARY", "replace": "x"}),
		scripted.Tool("edit_file", args{"path": s, "search": "A", "replace": "x"}),
		scripted.Tool("patch_file", args{"path": s, "patch": "@@ -1 +1 @@\n-guess\n+x\n"}),
		scripted.Tool("write_file", args{"path": s, "content": "overwritten"}), scripted.Tool("write_file", args{"path": s + "/new", "content": "made"}),
	}
	if !exists && !strings.ContainsAny(s, ":*?") {
		return calls
	}
	calls = append(calls,
		scripted.Tool("git_status", args{"paths": []string{s}}), scripted.Tool("git_diff", args{"paths": []string{s}}), scripted.Tool("git_diff", args{"paths": []string{s}, "staged": true}),
		scripted.Tool("git_log", args{"paths": []string{s}}), scripted.Tool("git_add", args{"paths": []string{s}}),
		scripted.Tool("git_worktree", args{"name": "b", "path": s}),
		scripted.Tool("shell", args{"line": "echo overwritten > '" + s + "'"}), scripted.Tool("shell", args{"line": "cat < '" + s + "'"}),
	)
	if exists && commands {
		calls = append(calls,
			scripted.Tool("exec", args{"argv": []string{"cat", s}}), scripted.Tool("exec", args{"argv": []string{"sh", "-c", `cat "$1"; cp "$1" out; echo overwritten > "$1"`, "sh", s}}),
			scripted.Tool("exec", args{"argv": []string{"grep", "-r", "CANARY-", s}}), scripted.Tool("exec", args{"argv": []string{"ln", s, "hard"}}),
			scripted.Tool("shell", args{"line": "cat '" + s + "' > out2"}), scripted.Tool("shell", args{"line": "cd '" + filepath.ToSlash(filepath.Dir(s)) + "'; cat key"}),
		)
	}
	return calls
}

// everywhere are calls that name nothing and see all.
func everywhere(commands bool) []provider.ToolCall {
	type args = map[string]any
	calls := []provider.ToolCall{
		scripted.Tool("grep", args{"pattern": `CANARY-\d+`}), scripted.Tool("grep", args{"pattern": "."}), scripted.Tool("find", args{"name_glob": "*"}),
		scripted.Tool("find", args{"name_glob": "*unguess*"}), scripted.Tool("list_dir", args{}), scripted.Tool("list_dir", args{"path": "secrets"}), scripted.Tool("list_dir", args{"path": "dirlink"}),
		scripted.Tool("git_status", args{}), scripted.Tool("git_diff", args{}), scripted.Tool("git_diff", args{"staged": true}), scripted.Tool("git_log", args{}),
		scripted.Tool("git_add", args{"paths": []string{"."}}), scripted.Tool("git_add", args{"paths": []string{"secrets"}}), scripted.Tool("git_add", args{"paths": []string{"-A"}}),
		scripted.Tool("git_commit", args{"message": "all"}), scripted.Tool("git_branch", args{"name": "secrets/key"}),
	}
	if commands {
		for _, line := range [][]string{{"sh", "-c", "cat secrets/* dirlink/*"}, {"grep", "-r", "CANARY-", "."}, {"find", "."}, {"ls", "-R"}, {"tar", "-cf", "-", "."}, {"sh", "-c", "mv secrets moved; cat moved/key"}} {
			calls = append(calls, scripted.Tool("exec", args{"argv": line}))
		}
	}
	return calls
}

func TestNothingGetsThroughToWhatIsDenied(t *testing.T) {
	f := newFixture(t)
	f.git(".", "init", "-q", "-b", "main")
	for name, text := range map[string]string{"secrets/key": secretWord + "\n", "secrets/" + secretName: secretWord + "\n", "secrets/deep/k": secretWord + "\n", "src/a.txt": "fine\n", "README": "fine\n"} {
		f.write(name, text)
	}
	f.git(".", "add", "README", "secrets/key") // a tracked secret, changed since
	f.git(".", "commit", "-qm", "by a person")
	f.write("secrets/key", secretWord+" and more\n")
	staged := f.git(".", "ls-files", "-s")
	for link, to := range map[string]string{
		"link": "secrets/key", "chain": "link", "dirlink": "secrets", "src/dirlink2": "../secrets", "abslink": filepath.Join(f.dir, "secrets", "key"), "loop": ".", "dangling": "secrets/new",
	} {
		if err := os.Symlink(to, filepath.Join(f.dir, link)); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
	}
	applied, err := sandbox.Plan(context.Background(), sandbox.Profile{Workspace: f.dir, Reads: sandbox.Reads{Deny: []string{filepath.Join(f.dir, "secrets")}}})
	if err != nil {
		t.Fatal(err)
	}
	commands := applied.Reads
	var turns []scripted.Turn
	tried := 0
	add := func(calls []provider.ToolCall) {
		tried += len(calls)
		turns = append(turns, scripted.Calls(calls...))
	}
	var calls []provider.ToolCall
	for _, s := range spellings(f.dir, "secrets/key") {
		_, err := os.Stat(filepath.Join(f.dir, s))
		calls = append(calls, attempts(s, err == nil, commands)...)
	}
	for _, s := range spellings(f.dir, "secrets/deep") {
		calls = append(calls, scripted.Tool("list_dir", map[string]any{"path": s}), scripted.Tool("read_file", map[string]any{"path": s + "/k"}))
	}
	for c := range slices.Chunk(calls, 100) {
		add(c)
	}
	add(everywhere(commands))
	m := f.script(append(turns, scripted.Say("done"))...)
	f.host.Policy = policy.Permissive().Layer("ops").DenyRead("secrets/**", "secrets").DenyWrite("secrets/**", "secrets")
	res := f.must(trace.Finished, withSteps(len(turns)+1), func(c *task.Contract) { c.Stall = task.Stall{Window: -1} })

	through := 0
	got := func(format string, a ...any) {
		through++
		if through <= 20 {
			t.Errorf(format, a...)
		}
	}
	for i, row := range f.steps(res.RunID) {
		for _, word := range []string{secretWord, secretName} {
			if at := strings.Index(row.Result, word); at >= 0 {
				got("step %d shows %q: …%s…", i+1, word, row.Result[max(0, at-200):min(len(row.Result), at+100)])
			}
		}
	}
	for _, req := range m.Requests() {
		raw, err := json.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), secretWord) || strings.Contains(string(raw), secretName) {
			got("a request holds what is denied")
		}
	}
	// Neither does a watcher hear of it, nor does the store keep it: not in a row, an
	// error, a restore point or a prompt.
	for _, ev := range f.seen.all {
		raw, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), secretWord) || strings.Contains(string(raw), secretName) {
			got("an event %s holds what is denied", ev.Kind())
		}
	}
	kept := 0
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(f.store.Path() + suffix)
		if err != nil {
			t.Fatal(err)
		}
		kept += len(raw)
		for _, word := range []string{secretWord, secretName} {
			if bytes.Contains(raw, []byte(word)) {
				got("the store%s holds %q", suffix, word)
			}
		}
	}
	if kept < 100_000 {
		t.Errorf("the store holds %d bytes only", kept)
	}
	if now := f.read("secrets/key"); now != secretWord+" and more\n" {
		got("secrets/key is %q", now)
	}
	_ = filepath.WalkDir(f.dir, func(p string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(f.dir, p)
		switch {
		case err != nil:
			return err
		case e.IsDir() && rel == ".git":
			return filepath.SkipDir
		case rel == "secrets" || strings.HasPrefix(rel, "secrets/"):
			if !e.IsDir() && rel != "secrets/key" && rel != "secrets/"+secretName && rel != "secrets/deep/k" {
				got("%s was made", rel)
			}
		case e.Type().IsRegular():
			if data, err := os.ReadFile(p); err == nil && strings.Contains(string(data), secretWord) {
				got("%s holds a copy of what is denied", rel)
			}
		}
		return nil
	})
	for line := range strings.SplitSeq(f.git(".", "ls-files", "-s"), "\n") {
		if strings.Contains(line, "\tsecrets/") && !strings.Contains(staged, line) {
			got("the index holds %q", line)
		}
	}
	if log := f.git(".", "log", "--format=%s", "--", "secrets"); log != "by a person\n" {
		got("commits of the denied files: %q", log)
	}
	t.Logf("tried %d, got through %d", tried, through)
	if !commands {
		t.Logf("commands were left out: %s hides no path from them here", applied.Rung)
	}
	// The control: the same step, and nothing denied, is found out.
	f.script(turns[0], scripted.Say("done"))
	f.host.Policy = policy.Permissive()
	if res := f.must(trace.Finished); strings.Count(f.steps(res.RunID)[0].Result, secretWord) < 5 {
		t.Error("where nothing is denied the word is not found either, so nothing was shown")
	}
	if tried < 1000 {
		t.Errorf("only %d were tried", tried)
	}
}
