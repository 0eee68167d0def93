package loop

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/store"
)

// maxBound is the largest file that an approval is bound to: hashing it takes a
// tenth of a second. A larger one is known by its size and its last change.
const maxBound = 64 << 20

// binding is what an approval is about beside its words: the program that a
// command would start, the files that its arguments name, and what a write would
// replace, each by its content. Keys are absolute paths; an empty value is a
// file that is not there. A key behind linkKey is a name, and its value the path
// that it leads to.
type binding map[string]string

// bind looks at what the needs of a call name, at the moment of the question. A
// commit is about what is staged.
func (d *drive) bind(c *call, needs []policy.Need) binding {
	b := binding{}
	if c.name == "git_commit" && d.catalogue.byName[c.name].builtin {
		b.addStaged(indexOf(d.workspace.Root(), d.contract.ParentRepository))
	}
	starts := slices.ContainsFunc(needs, func(n policy.Need) bool { return n.Act == policy.Exec })
	for _, n := range needs {
		switch n.Act {
		case policy.Write:
			if real, err := d.workspace.Canonical(n.Target); err == nil {
				b.add(d.absolute(real), true)
				if named, err := d.workspace.Resolve(n.Target); err == nil {
					b.addLink(d.absolute(named))
				}
			}
		case policy.Exec:
			if n.Resolved != "" {
				b.add(n.Resolved, true)
			}
			for _, arg := range n.Argv {
				d.bindArgument(b, n.Dir, arg)
			}
		case policy.Read:
			if starts { // what a command is fed
				d.bindArgument(b, "", n.Target)
			}
		}
	}
	return b
}

// bindArgument keeps the file of the workspace that an argument names from the
// directory dir, if it names one.
func (d *drive) bindArgument(b binding, dir, arg string) {
	rel, ok := d.workspace.Relative(arg)
	if !ok {
		if filepath.IsAbs(arg) {
			return
		}
		rel = path.Join(dir, filepath.ToSlash(arg))
	}
	real, err := d.workspace.Canonical(rel)
	if err != nil || real == "" {
		return
	}
	b.add(d.absolute(real), false)
	if named, err := d.workspace.Resolve(rel); err == nil && named != real {
		b.addLink(d.absolute(named))
	}
}

// absolute is a path of the workspace as the operating system knows it.
func (d *drive) absolute(rel string) string {
	return filepath.Join(d.workspace.Root(), filepath.FromSlash(rel))
}

// linkKey marks a name in a binding: a link can be turned to another file, and one
// can take the place of what was none.
const linkKey = "link "

// addLink keeps where a name leads.
func (b binding) addLink(name string) {
	if to, err := leadsTo(name); err == nil {
		b[linkKey+name] = to
	}
}

// maxLinks is how many links that lead to nothing are followed one after the other.
const maxLinks = 40

// leadsTo follows every link on the way to a path, also when nothing is there yet.
func leadsTo(path string) (string, error) {
	rest, links := "", 0
	for {
		real, err := filepath.EvalSymlinks(path)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if to, err := os.Readlink(path); err == nil {
			if links++; links > maxLinks {
				return "", fmt.Errorf("%s: too many links", path)
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			path = to
			continue
		}
		above := filepath.Dir(path)
		if above == path {
			return "", err
		}
		path, rest = above, filepath.Join(filepath.Base(path), rest)
	}
}

// add keeps the content of the file at path. A path where nothing is, or no
// regular file, counts only when it is wanted: most arguments name no file.
func (b binding) add(file string, wanted bool) {
	sum, err := contentOf(file)
	if err == nil || wanted && errors.Is(err, fs.ErrNotExist) {
		b[file] = sum
	}
}

func contentOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	if info.Size() > maxBound {
		return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano()), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// changed names the first file that is not any more what it was when the question
// was put, or nothing.
func (b binding) changed() string {
	for _, path := range slices.Sorted(maps.Keys(b)) {
		was := b[path]
		if path == unreadable {
			return path
		}
		if name, ok := strings.CutPrefix(path, linkKey); ok {
			if now, err := leadsTo(name); err != nil || now != was {
				return name
			}
			continue
		}
		look, none := contentOf, ""
		if strings.HasPrefix(was, stagedPrefix) {
			look, none = stagedIn, stagedPrefix
		}
		now, err := look(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			now = none
		case err != nil:
			now = "unreadable"
		}
		if now != was {
			return path
		}
	}
	return ""
}

// askedAct is one act that a question stood for.
type askedAct struct {
	Act    policy.Act `json:"act"`
	Target string     `json:"target"`
}

// about is what is stored with a question: the files that its answer is bound to,
// and all acts that the answer decides, of which people saw the last.
type about struct {
	Files binding    `json:"files,omitempty"`
	Asked []askedAct `json:"asked"`
}

// marshal is the binding as it is stored with the question.
func (b binding) marshal(acts []askedAct) (json.RawMessage, error) {
	return json.Marshal(about{b, acts})
}

// unreadable stands in a binding for files that it does not name any more.
const unreadable = "the record of what it was about"

// boundTo reads a stored binding. What cannot be read binds to something that
// can never hold: an approval that nobody can check is not used.
func boundTo(raw json.RawMessage) binding {
	a, err := readAbout(raw)
	if err != nil {
		return binding{unreadable: unreadable}
	}
	return a.Files
}

func readAbout(raw json.RawMessage) (about, error) {
	var a about
	if len(raw) == 0 {
		return a, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	err := dec.Decode(&a)
	return a, err
}

// begun is the binding of an approved call of which a dead drive may have made a
// part: what the call itself has changed is no reason to refuse it.
func (d *drive) begun(p store.PendingApproval) binding {
	b := boundTo(p.Bound)
	for _, w := range d.writes {
		path := d.absolute(w.Path)
		if _, ok := b[path]; !ok || w.Step != p.Step || w.CallIndex != p.CallIndex {
			continue
		}
		if now, err := contentOf(path); now == w.After && (err == nil || errors.Is(err, fs.ErrNotExist)) {
			b[path] = w.After
		}
	}
	return b
}

// isDue reports whether an approved call waits to be carried out.
func (d *drive) isDue(step, index int) bool {
	return slices.ContainsFunc(d.due, func(p store.PendingApproval) bool {
		return p.RunID == d.runID() && p.Step == step && p.CallIndex == index
	})
}

// Who takes an approval back that was not carried out.
const (
	overruledByPolicy = "policy"       // which forbids it now
	overruledByChange = "binding"      // to what it was for, which has changed
	overruledByAsking = "new question" // which stands for more than it
	overruledByResume = "resume"       // under which the call is not made
	overruledByLoss   = "archive"      // which emptied what the call asks for

	withdrawnByReplay = "replay" // of the step, which did not put the request again
	notPutAgain       = "the step was made again, and did not ask it"
)

// saidByPeople leaves out the decisions that no person has made: those by which the
// run itself took a request or a yes back. Whoever asks for the same again is asked
// about it.
func saidByPeople(rows []store.PendingApproval) []store.PendingApproval {
	return slices.DeleteFunc(rows, func(p store.PendingApproval) bool {
		switch p.DecidedBy {
		case overruledByPolicy, overruledByChange, overruledByAsking, overruledByResume, overruledByLoss, withdrawnByReplay, store.Withdrawn:
			return p.Verdict == store.Deny
		}
		return false
	})
}

// stale refuses a call whose approval was for something that has changed since,
// and says what; "" when nothing has.
func (d *drive) stale(st *step, c *call, act, target string, b binding) string {
	path := b.changed()
	if path == "" {
		return ""
	}
	if rel, err := filepath.Rel(d.workspace.Root(), path); err == nil && filepath.IsLocal(rel) {
		path = filepath.ToSlash(rel)
	}
	c.refuse(st.n, act+" denied", prompt.ApprovedBefore(act, target, path))
	return path + " has changed since it was asked"
}
