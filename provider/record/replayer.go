package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/internal/httpx"
)

const replayName = "replay"

// shownUser is how much of a question that was not recorded an error quotes.
const shownUser = 120

// ErrNotRecorded says that a question is not in the recording.
var ErrNotRecorded = errors.New("the recording has no such question")

var (
	_ provider.Provider      = (*Replayer)(nil)
	_ provider.ModelHinter   = (*Replayer)(nil)
	_ provider.ModelNamer    = (*Replayer)(nil)
	_ provider.FamilyHinter  = (*Replayer)(nil)
	_ provider.ImageAccepter = (*Replayer)(nil)
)

// A Replayer serves a recording. It opens no connection and claims the recorded
// model and prompt family, so that it is asked what the recorded provider was
// asked.
//
// A question that was recorded several times is answered in the recorded order,
// the last answer again and again at the end. Asked twice in a row it gives the
// same answer: that is a step which is being repeated after a crash. Both are
// counted for each provider.Scope alone; agents of one scope that ask the same
// question at the same time are served in the order of their arrival. It is
// safe for concurrent use.
type Replayer struct {
	who       identity
	exchanges []exchange // as recorded
	answers   map[string][]*provider.Response

	mu     sync.Mutex
	places map[string]*place // by scope
	served map[*provider.Response]bool
}

// place is how far one scope has come.
type place struct {
	last string
	next map[string]int // how often a key was answered
}

// Open reads a recording. A file that cannot be read is the operating system's
// error; one that is no recording, or of another format, a
// *provider.ConfigError.
func Open(path string) (*Replayer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	r, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("open recording %s: %w", path, err)
	}
	return r, nil
}

// Parse reads a recording from memory, for instance an embedded file.
func Parse(b []byte) (*Replayer, error) {
	f, err := decode(b)
	if err != nil {
		return nil, err
	}
	r := &Replayer{
		who:       f.Provider,
		exchanges: f.Exchanges,
		answers:   map[string][]*provider.Response{},
		places:    map[string]*place{},
		served:    map[*provider.Response]bool{},
	}
	for _, e := range f.Exchanges {
		k, err := key(e.Request)
		if err != nil {
			return nil, err
		}
		r.answers[k] = append(r.answers[k], e.Response)
	}
	return r, nil
}

// Name is "replay".
func (r *Replayer) Name() string { return replayName }

// Endpoints is nil: nothing is dialled.
func (r *Replayer) Endpoints() []string { return nil }

// ModelHint is the recorded provider's.
func (r *Replayer) ModelHint() string { return r.who.ModelHint }

// ModelNames are the recorded provider's, as far as the recording asked for the
// model.
func (r *Replayer) ModelNames(asked string) []string {
	if names, recorded := r.who.Models[asked]; recorded {
		return slices.Clone(names)
	}
	if asked == "" {
		asked = r.who.ModelHint
	}
	if asked == "" {
		return nil
	}
	return []string{asked}
}

// PromptFamily is the recorded provider's.
func (r *Replayer) PromptFamily() provider.Family {
	if r.who.PromptFamily == "" {
		return provider.FamilyOf(r.who.ModelHint)
	}
	return r.who.PromptFamily
}

// AcceptsImages is true: whether an image was accepted is in the recording.
func (r *Replayer) AcceptsImages() bool { return true }

// Unserved is how many recorded answers have not been given. A test that wants
// to know whether a run asked everything looks at it in the end.
func (r *Replayer) Unserved() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, list := range r.answers {
		for _, a := range list {
			if !r.served[a] {
				n++
			}
		}
	}
	return n
}

// Complete serves the recorded answer. A question that was not recorded is a
// terminal *provider.Error that wraps ErrNotRecorded.
func (r *Replayer) Complete(ctx context.Context, req *provider.Request, on provider.Sink) (*provider.Response, error) {
	if ctx.Err() != nil {
		return nil, &provider.Interrupted{Provider: replayName, Err: httpx.Ended(ctx)}
	}
	k, err := key(req)
	if err != nil {
		return nil, err
	}
	answer := r.take(provider.Scope(ctx), k)
	if answer == nil {
		return nil, diverged(req)
	}
	resp := answer.Clone()
	if on.Token != nil && resp.Text != "" {
		on.Token(resp.Text)
	}
	return resp, nil
}

func (r *Replayer) take(scope, k string) *provider.Response {
	list := r.answers[k]
	if len(list) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.places[scope]
	if p == nil {
		p = &place{next: map[string]int{}}
		r.places[scope] = p
	}
	if p.last != k || p.next[k] == 0 {
		p.last = k
		p.next[k]++
	}
	answer := list[min(p.next[k], len(list))-1]
	r.served[answer] = true
	return answer
}

func diverged(req *provider.Request) error {
	user := req.User
	if user == "" {
		for _, m := range req.Messages {
			if m.Role == provider.RoleUser {
				user = m.Text
			}
		}
	}
	if runes := []rune(user); len(runes) > shownUser {
		user = string(runes[:shownUser]) + "..."
	}
	return &provider.Error{
		Kind:     provider.InvalidRequest,
		Provider: replayName,
		Err:      ErrNotRecorded,
		Message: fmt.Sprintf("the run has left the recording: no answer for a question with %d bytes of system text, %d tools, %d messages and the user text %q; record it again, or find what changed",
			len(strings.Join(req.System, "")), len(req.Tools), len(req.Messages), user),
	}
}
