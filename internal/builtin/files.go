package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/tool"
	"github.com/initorigin/io-harness-go/trace"
	"github.com/initorigin/io-harness-go/workspace"
)

type readArgs struct {
	Path   string `json:"path"`
	Offset *int64 `json:"offset"`
	Limit  *int64 `json:"limit"`
}

func readFile(e *Env) tool.Tool {
	return &act{
		spec: tool.Spec{
			Name:   "read_file",
			Origin: trace.OriginFile,
			Description: "Read a text file of the workspace, whole or a range of lines. A text that is too large is refused, never cut: the refusal says how many lines there are, " +
				"and offset and limit then bring a part. A file that does not exist reads as empty. Images and documents (spreadsheets, Word, slides, PDF) have tools of their own.",
			Schema: schema([]string{"path"},
				"path", property("string", "file relative to the workspace root"),
				"offset", property("integer", "first line to return, counted from 1"),
				"limit", property("integer", "how many lines to return")),
			Effect: tool.ReadOnly,
		},
		needs: func(c tool.Call) ([]policy.Need, error) {
			in, err := decode[readArgs](c)
			if err != nil {
				return nil, err
			}
			return needPath(c, in.Path, policy.Read)
		},
		call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
			in, err := decode[readArgs](c)
			if err != nil {
				return tool.Result{}, err
			}
			offset, err := count("offset", in.Offset)
			if err != nil {
				return failed("read error", "read error", err.Error()), nil
			}
			limit, err := count("limit", in.Limit)
			if err != nil {
				return failed("read error", "read error", err.Error()), nil
			}
			s, err := c.Workspace.ReadLines(ctx, in.Path, offset, limit, e.readCeiling(in.Path))
			if err := ended(ctx); err != nil {
				return tool.Result{}, err
			}
			switch {
			case isRefusal(err):
				return tool.Result{}, err
			case err != nil:
				return e.readFailed(in, err), nil
			}
			return readResult(in.Path, s, offset, limit), nil
		},
	}
}

// needPath is the needs of a tool that does these acts on one file.
func needPath(c tool.Call, path string, acts ...policy.Act) ([]policy.Need, error) {
	if path == "" {
		return nil, missing("path", "a file relative to the workspace root")
	}
	var needs []policy.Need
	for _, what := range acts {
		n, err := pathNeed(c.Workspace, what, path)
		if err != nil {
			return nil, err
		}
		if what == policy.Write {
			if err := gitFile(c.Workspace, n); err != nil {
				return nil, err
			}
		}
		needs = append(needs, n)
	}
	return needs, nil
}

// gitFile refuses to write a file called .git in the root. Git's tools ask to write
// .git, so the gate may let it pass; a file of that name is never written, whoever
// agrees.
func gitFile(w *workspace.Workspace, n policy.Need) error {
	if clean, err := w.Resolve(n.Target); err == nil && clean == ".git" {
		return byRule(workspace.GitFile).Refusal(n)
	}
	return nil
}

// readHead is the room that the head of a read takes beside its path.
const readHead = 100

// readCeiling is how many characters of text a read may bring: the lower of the
// operator's bound and what an observation has room for.
func (e *Env) readCeiling(path string) int {
	room := max(e.entryCap()-runes(path)-readHead, 1)
	if e.MaxReadChars > 0 {
		room = min(room, e.MaxReadChars)
	}
	return room
}

func readResult(path string, s workspace.Slice, offset, limit int) tool.Result {
	head := "read " + printable(path)
	if s.Encoding != workspace.UTF8 {
		head += " (" + string(s.Encoding) + ")"
	}
	ranged := offset > 0 || limit > 0
	if ranged && !s.Missing {
		of := fmt.Sprint(s.Total)
		if s.AtLeast {
			of = "at least " + of
		}
		head += fmt.Sprintf(" lines %d-%d of %s", s.From, s.To, of)
	}
	body := s.Text
	switch {
	case s.Missing:
		head += ": does not exist yet"
	case body == "":
		head += ": empty"
	}
	r := tool.Result{
		Text: observation(head, body), Decision: "read " + printable(path),
		Kind: trace.ObsRead, Target: s.Path, Digest: s.Digest,
	}
	if ranged {
		r.First, r.Count = s.From, s.To-s.From+1
	}
	return r
}

func (e *Env) readFailed(in readArgs, err error) tool.Result {
	name := printable(in.Path)
	head, decision := "read "+name+" error", "read error"
	var big *workspace.TooLargeError
	var kind *workspace.NotTextError
	switch {
	case errors.As(err, &big):
		return failed("read "+name+" refused", "read "+name+" refused", e.tooLarge(in, big))
	case errors.As(err, &kind):
		return failed("read "+name+" refused", "read "+name+" refused", e.notText(kind))
	}
	return failed(decision, head, err.Error())
}

// tooLarge says which ceiling a read hit and what can be done about it. It offers
// nothing that the next call would refuse as well.
func (e *Env) tooLarge(in readArgs, big *workspace.TooLargeError) string {
	name := printable(in.Path)
	ranged := in.Offset != nil || in.Limit != nil
	grep := big.FileSize <= workspace.MaxGrepFile // larger files are not searched
	if big.Which != workspace.CeilingChars {
		s := fmt.Sprintf("%s has %s bytes and at most %s can be read at once. Nothing was returned", name, commas(big.Size), commas(big.Limit))
		switch {
		case big.Size > workspace.MaxRange:
			return fmt.Sprintf("%s has %s bytes. Of a file over %s no range can be read, and grep does not search it. Nothing was returned: a command that prints a part of it can help, where commands are allowed.",
				name, commas(big.Size), commas(int64(workspace.MaxRange)))
		case ranged: // of UTF-16 the lines are not known before all of it is read
			return s + ", and no range of a text that is not UTF-8 can be read over that: a command that converts it can help, where commands are allowed."
		}
		return s + ": ask for a range with offset and limit."
	}
	what := name
	if ranged {
		what = "the range of " + name
	}
	own := e.MaxReadChars > 0 && big.Size > int64(e.MaxReadChars)
	s := fmt.Sprintf("%s has %s characters", what, commas(big.Size))
	if big.Lines > 0 {
		s += fmt.Sprintf(" (the file has %s)", plural(big.Lines, "line", "lines"))
	}
	if own {
		s += fmt.Sprintf(" and the operator of this agent lets one read show %s (MaxReadChars of its contract). Nothing was returned.", commas(e.MaxReadChars))
	} else {
		s += fmt.Sprintf(" and one observation has room for %s at this point of the run. Nothing was returned.", commas(big.Limit))
	}
	switch {
	case big.LongLine > 0 && grep:
		s += fmt.Sprintf(" Line %d alone is over that, so a range with it cannot be read: use grep, which shows the part of a line around a match.", big.LongLine)
	case big.LongLine > 0:
		s += fmt.Sprintf(" Line %d alone is over that, so a range with it cannot be read, and grep does not search a file of this size: a command that prints a part of the line can help, where commands are allowed.", big.LongLine)
	case ranged:
		s += " Ask for fewer lines."
	case grep:
		s += " Ask for a range with offset and limit, or search it with grep."
	default:
		s += " Ask for a range with offset and limit."
	}
	if own {
		s += " The operator can raise it."
	}
	return s
}

func (e *Env) notText(err *workspace.NotTextError) string {
	c := err.Content
	s := fmt.Sprintf("%s is %s, not text. Nothing was returned.", printable(err.Path), c.Describe())
	switch {
	case c.Reader == "":
	case e.Has != nil && e.Has(c.Reader):
		s += " Use " + c.Reader + "."
	default:
		s += fmt.Sprintf(" The tool for it, %s, is not part of this run.", c.Reader)
	}
	return s
}

func writeFile(e *Env) tool.Tool {
	type args struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	return &shown{
		act: act{
			spec: tool.Spec{
				Name:   "write_file",
				Origin: trace.OriginFile,
				Description: "Write a whole file: create it, with its directories, or replace everything in it. Content is written as it is, in UTF-8. " +
					"To change part of an existing file use edit_file or patch_file. A file that changed since you last read it is not overwritten: read it again first.",
				Schema: schema([]string{"path", "content"},
					"path", property("string", "file relative to the workspace root"),
					"content", property("string", "everything that the file is to hold")),
			},
			needs: func(c tool.Call) ([]policy.Need, error) {
				in, err := decode[args](c)
				if err != nil {
					return nil, err
				}
				if n := len(in.Content); n > workspace.MaxWrite {
					return nil, &tool.ArgsError{Field: "content", Reason: fmt.Sprintf("has %s bytes and at most %s can be written: write it in parts, or with a command", commas(n), commas(workspace.MaxWrite))}
				}
				return needPath(c, in.Path, policy.Write)
			},
			call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
				in, err := decode[args](c)
				if err != nil {
					return tool.Result{}, err
				}
				change, err := c.Workspace.WriteFile(ctx, in.Path, in.Content)
				if err := ended(ctx); err != nil && !change.Moved() {
					return tool.Result{}, err
				}
				if err != nil {
					return e.writeFailed("write", in.Path, err)
				}
				return e.wrote(ctx, c, change, "wrote "+printable(in.Path), fmt.Sprintf("(%s)", plural(runes(in.Content), "char", "chars"))), nil
			},
		},
		preview: func(c tool.Call) string {
			in, _ := decode[args](c)
			return in.Content
		},
	}
}

func editFile(e *Env) tool.Tool {
	type args struct {
		Path    string `json:"path"`
		Search  string `json:"search"`
		Replace string `json:"replace"`
	}
	return &shown{
		act: act{
			spec: tool.Spec{
				Name:   "edit_file",
				Origin: trace.OriginFile,
				Description: "Replace one piece of text in an existing file; prefer it to write_file there. search must occur exactly once, character for character, line endings and indentation included, " +
					"or nothing is changed and you are told how often it occurs. Both texts are literal. An empty replace deletes.",
				Schema: schema([]string{"path", "search", "replace"},
					"path", property("string", "file relative to the workspace root"),
					"search", property("string", "the text to replace, copied from the file, with enough around it to be unique"),
					"replace", property("string", "what to put in its place; may be empty")),
			},
			needs: func(c tool.Call) ([]policy.Need, error) {
				in, err := decode[args](c)
				if err != nil {
					return nil, err
				}
				if in.Search == "" {
					return nil, &tool.ArgsError{Field: "search", Reason: "is empty: it must be the text to replace"}
				}
				return needPath(c, in.Path, policy.Read, policy.Write) // what it answers tells what is there
			},
			call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
				in, err := decode[args](c)
				if err != nil {
					return tool.Result{}, err
				}
				change, err := c.Workspace.EditFile(ctx, in.Path, in.Search, in.Replace)
				if err := ended(ctx); err != nil && !change.Moved() {
					return tool.Result{}, err
				}
				if err != nil {
					return e.writeFailed("edit", in.Path, err)
				}
				return e.wrote(ctx, c, change, "edited "+printable(in.Path),
					fmt.Sprintf("replaced %s with %d", plural(runes(in.Search), "char", "chars"), runes(in.Replace))), nil
			},
		},
		preview: func(c tool.Call) string {
			in, _ := decode[args](c)
			diff, err := c.Workspace.PreviewEdit(context.Background(), in.Path, in.Search, in.Replace)
			if err != nil {
				return workspace.Diff(in.Search, in.Replace)
			}
			return diff
		},
	}
}

func patchFile(e *Env) tool.Tool {
	type args struct {
		Path  string `json:"path"`
		Patch string `json:"patch"`
	}
	return &shown{
		act: act{
			spec: tool.Spec{
				Name:   "patch_file",
				Origin: trace.OriginFile,
				Description: "Apply a unified diff to one existing file, all hunks or nothing. Each hunk must match exactly at the line numbers of its header, counted in the file as it is now. " +
					"File headers in the patch are ignored: path says which file is meant. It cannot create a file; use write_file for that.",
				Schema: schema([]string{"path", "patch"},
					"path", property("string", "file relative to the workspace root"),
					"patch", property("string", "hunks: @@ -START,COUNT +START,COUNT @@, then lines that begin with a space, - or +")),
			},
			needs: func(c tool.Call) ([]policy.Need, error) {
				in, err := decode[args](c)
				if err != nil {
					return nil, err
				}
				if in.Patch == "" {
					return nil, &tool.ArgsError{Field: "patch", Reason: "is empty: it must be a unified diff"}
				}
				return needPath(c, in.Path, policy.Read, policy.Write)
			},
			call: func(ctx context.Context, c tool.Call) (tool.Result, error) {
				in, err := decode[args](c)
				if err != nil {
					return tool.Result{}, err
				}
				change, hunks, err := c.Workspace.PatchFile(ctx, in.Path, in.Patch)
				if err := ended(ctx); err != nil && !change.Moved() {
					return tool.Result{}, err
				}
				if err != nil {
					return e.writeFailed("patch", in.Path, err)
				}
				return e.wrote(ctx, c, change, "patched "+printable(in.Path), "applied "+plural(hunks, "hunk", "hunks")), nil
			},
		},
		preview: func(c tool.Call) string {
			in, _ := decode[args](c)
			return in.Patch
		},
	}
}

// writeFailed is the end of a call that wrote nothing.
func (e *Env) writeFailed(verb, path string, err error) (tool.Result, error) {
	if isRefusal(err) {
		return tool.Result{}, err
	}
	var kind *workspace.NotTextError
	if errors.As(err, &kind) {
		return failed(verb+" error", verb+" error", e.notText(kind)+" It was not changed."), nil
	}
	var partly *workspace.PartlyWrittenError
	if errors.As(err, &partly) {
		return failed(verb+" error", verb+" error", err.Error()+". Read it before you go on."), nil
	}
	return failed(verb+" error", verb+" error", err.Error()+". "+printable(path)+" was not changed."), nil
}

// wrote is the result of a write: what was done, what is worth knowing about it,
// and what the project's checker says of the workspace now.
func (e *Env) wrote(ctx context.Context, c tool.Call, change workspace.Change, head, did string) tool.Result {
	lines := []string{"\n[" + head + "] " + did}
	if !change.Moved() {
		lines[0] = "\n[" + head + ": no change] " + did + "; the file already had this content, so the workspace did not change"
	}
	lines = append(lines, writeNotes(c, change)...)
	text := strings.Join(lines, "\n") + "\n"
	if change.Moved() {
		text += e.afterWrite(ctx, c, e.entryCap()-runes(text))
	}
	return tool.Result{
		Text: text, Decision: head, Changed: change.Moved(),
		Kind: trace.ObsWrite, Target: change.Path,
	}
}

// writeNotes are the things about a write that a model cannot see from what it
// sent. Nothing is told of the old content of a file that may not be read.
func writeNotes(c tool.Call, change workspace.Change) []string {
	var notes []string
	if c.Workspace.CheckPath(policy.Read, change.Path).Effect != policy.Deny {
		switch {
		case change.WasBinary:
			notes = append(notes, "the old file was not UTF-8 text")
		case change.OldEncoding != "" && change.NewEncoding != change.OldEncoding:
			notes = append(notes, fmt.Sprintf("the old file was %s, now %s", change.OldEncoding, change.NewEncoding))
		}
		if change.EndingsChanged() {
			notes = append(notes, fmt.Sprintf("line endings were %s, now %s", change.Old, change.New))
		}
		if change.Unread >= 0 && change.Moved() {
			notes = append(notes, fmt.Sprintf("it replaced %s that you had not read", plural(int(change.Unread), "byte", "bytes")))
		}
	}
	if change.Unlinked {
		notes = append(notes, "the file had other names (hard links); they keep the old content")
	}
	if change.Unrecorded != nil {
		notes = append(notes, "the change could not be recorded, so it cannot be undone by itself")
	}
	if change.Unflushed != nil {
		notes = append(notes, "the change is made, and may be lost with the power: its directory could not be written out")
	}
	return notes
}
