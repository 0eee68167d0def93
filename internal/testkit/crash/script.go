package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/initorigin/io-harness-go/budget"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/task"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/verify"
)

// profile is one shape of run.
type profile string

const (
	oneShot  profile = "one-shot" // ended by its gate
	session  profile = "session"  // the second turn of a conversation, ended by its answer
	approval profile = "approval" // one-shot, and pauses for a person before it notes and before it writes some files
	pausing  profile = "pausing"  // session, with the pauses of approval
	handles  profile = "handles"  // one-shot, and leaves commands running between its steps
)

var profiles = []profile{oneShot, session, approval, pausing, handles}

// conversation says whether the work is a turn.
func (p profile) conversation() bool { return p == session || p == pausing }

// asks says whether a person is asked.
func (p profile) asks() bool { return p == approval || p == pausing }

const (
	goal     = "write the parts and note every entry"
	greeting = "hello"
	secret   = "secrets/key.txt"
	marker   = "done.txt" // what the gate waits for
)

// prepare makes the directory of a trial: the workspace and nothing else.
func prepare(dir string) error {
	work := filepath.Join(dir, "work")
	for _, d := range []string{"src", "secrets"} {
		if err := os.MkdirAll(filepath.Join(work, d), 0o755); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(work, secret), []byte("a key\n"), 0o600)
}

// rules allow what the script does, or ask about some of it, and forbid one read.
func rules(p profile) policy.Policy {
	pol := policy.Default().Layer("crash").
		AllowWrite("*").DenyRead("secrets/*").AllowExec("cat *", "sleep *", "lookup")
	if p.asks() {
		return pol.AskExec("note").AskWrite("src/extra*", "src/part1*")
	}
	return pol.AllowExec("note")
}

// contract is the work of the script: the gate fails until the last step has
// written its marker.
func contract(p profile, dir string, steps int) task.Contract {
	c := task.New(goal, filepath.Join(dir, "work"))
	c.Budget = budget.Limits{Steps: steps + 2}
	c.Context.MaxTokens = 200_000 // nothing is folded away, so that the model can count
	if !p.conversation() {
		c.Verify = verify.Command("cat", marker)
	}
	return c
}

// model is a pure function of the request: it knows its step by its own earlier
// calls in it, so that a resumed process gets the answer that the dead one got.
func model(p profile, steps int, asked func()) provider.Provider {
	return scripted.Func(func(ctx context.Context, req *provider.Request) (*provider.Response, error) {
		asked()
		done, replied := 0, false
		for _, m := range req.Messages {
			if m.Role != provider.RoleAssistant {
				continue
			}
			if len(m.Calls) > 0 {
				done++
			} else {
				replied = true
			}
		}
		switch {
		case p.conversation() && !replied && !strings.Contains(req.User, goal):
			return scripted.Say("Hello. What is to be done?")(ctx, req)
		case done >= steps:
			return scripted.Say("Every part is written.")(ctx, req)
		}
		if p == handles {
			if c, ok := background(done, steps, req); ok {
				return scripted.Calls(c)(ctx, req)
			}
		}
		return scripted.Calls(calls(done, steps)...)(ctx, req)
	})
}

// background are the steps of the handles profile that replace others: a command
// is left running over two steps and then ended. Its number is what the library
// told, because a command that died with its process gets a new one.
func background(i, steps int, req *provider.Request) (provider.ToolCall, bool) {
	if i == steps-1 {
		return provider.ToolCall{}, false
	}
	tool := ""
	switch i % 10 {
	case 3, 7:
		return scripted.Tool("shell_start", map[string]any{"line": left}), true
	case 4:
		tool = "shell_poll"
	case 5:
		tool = "shell_kill"
	default:
		return provider.ToolCall{}, false
	}
	n := 0
	if text, ok := scripted.LastResult(req, "shell_start"); ok {
		if _, after, ok := strings.Cut(text, "handle "); ok {
			_, _ = fmt.Sscanf(after, "%d", &n)
		}
	}
	return scripted.Tool(tool, map[string]any{"handle": max(n, 1)}), true
}

// left is the command that is left running: over soon by itself, should its
// process die.
const left = "sleep 2"

// calls are what the model asks for in step i, from 0.
func calls(i, steps int) []provider.ToolCall {
	if i == steps-1 {
		return []provider.ToolCall{file("write_file", marker, "content", "ready\n")}
	}
	b := i / 10
	part, extra := fmt.Sprintf("src/part%d.txt", b), fmt.Sprintf("src/extra%d.txt", b)
	switch i % 10 {
	case 0:
		return []provider.ToolCall{file("write_file", part, "content", fmt.Sprintf("alpha %d\nbeta\ngamma\n", b))}
	case 1:
		return []provider.ToolCall{file("edit_file", part, "search", "beta", "replace", "beta, edited")}
	case 2:
		return []provider.ToolCall{file("patch_file", part, "patch", fmt.Sprintf("@@ -1,1 +1,2 @@\n alpha %d\n+inserted\n", b))}
	case 3:
		return []provider.ToolCall{file("read_file", part), file("list_dir", "src")}
	case 4:
		return []provider.ToolCall{
			scripted.Tool("grep", map[string]any{"pattern": "alpha"}), scripted.Tool("find", map[string]any{"name_glob": "*.txt"}),
			scripted.Tool("lookup", map[string]any{"entry": i}),
		}
	case 5:
		return []provider.ToolCall{scripted.Tool("exec", map[string]any{"argv": []string{"cat", part}})}
	case 6:
		return []provider.ToolCall{note(i)}
	case 7:
		return []provider.ToolCall{file("read_file", secret)}
	case 8:
		return []provider.ToolCall{
			file("write_file", extra, "content", "first\n"), note(1000 + i), file("edit_file", extra, "search", "first", "replace", "second"),
		}
	}
	return []provider.ToolCall{note(2000 + i), note(3000 + i)}
}

// file is a call about a path with further arguments in pairs.
func file(name, path string, pairs ...string) provider.ToolCall {
	args := map[string]any{"path": path}
	for i := 0; i+1 < len(pairs); i += 2 {
		args[pairs[i]] = pairs[i+1]
	}
	return scripted.Tool(name, args)
}

func note(entry int) provider.ToolCall {
	return scripted.Tool("note", map[string]any{"entry": entry})
}

// entry is the argument of both registered tools.
type entry struct {
	Entry int `json:"entry"`
}

// noted is what the tool note brings.
func noted(n int) string { return fmt.Sprintf("entry %d is noted", n) }

// tools are the registered ones: lookup reads, and note has an effect that
// nothing of the library knows of. Each call waits a moment before and behind
// its effect, so that a kill at a random moment finds it there.
func tools(dir string, at func(string), pause func()) tool.Toolbox {
	lookup := tool.New("lookup", "Looks an entry up.", func(_ context.Context, in entry) (string, error) {
		pause()
		return fmt.Sprintf("entry %d: nothing of note", in.Entry), nil
	}, tool.ReadOnly)
	noteTool := tool.NewCall("note", "Notes an entry in a ledger.", func(_ context.Context, c tool.Call, in entry) (string, error) {
		pause()
		at("note begins")
		if err := appendLedger(dir, fmt.Sprintf("%s %d\n", c.Key, in.Entry)); err != nil {
			return "", err
		}
		at("note is done")
		pause()
		return noted(in.Entry), nil
	})
	return tool.Toolbox{lookup, noteTool}
}

func ledgerPath(dir string) string { return filepath.Join(dir, "ledger") }

// appendLedger writes one line at once, so that a kill leaves all of it or nothing.
func appendLedger(dir, line string) error {
	f, err := os.OpenFile(ledgerPath(dir), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// readLedger returns the entries that were noted, by the key of their call. A
// key that is there twice has its entries joined.
func readLedger(dir string) (map[string][]string, error) {
	f, err := os.Open(ledgerPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][]string{}
	for sc := bufio.NewScanner(f); sc.Scan(); {
		key, entry, _ := strings.Cut(sc.Text(), " ")
		out[key] = append(out[key], entry)
	}
	return out, nil
}

// breath is how long a registered tool waits around its effect: long enough that
// a random kill meets it, and short against a trial.
const breath = time.Millisecond
