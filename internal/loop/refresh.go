package loop

import (
	"context"
	"errors"
	"fmt"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/policy"
	"github.com/initorigin/io-harness-go/workspace"
)

// looks are the reads that a drive made again for its requests: a file that
// stays as it is is not read a third time.
type looks struct {
	made map[span]look
	read int // how often the content of a file was read
}

type span struct {
	path         string
	first, count int
}

// look is a read that was made again, and the digest of the file that it saw.
type look struct {
	digest string
	fresh  prompt.Fresh
}

// refresh looks again at the reads that would be shown and may no longer be
// true: through the policy and the workspace, as the model would, and an ask
// counts as a refusal, since nobody is asked for it. From the newest backwards,
// as they will be fitted, so that what has no place is not looked at.
func (d *drive) refresh(ctx context.Context, room int) (map[int]prompt.Fresh, error) {
	reads := prompt.Reads(d.ledger.Live(), d.workspace.FoldsCase(), room)
	out := make(map[int]prompt.Fresh, len(reads))
	digests := map[string]string{} // of this step: what one path was found to be
	used := 0
	for i := len(reads) - 1; i >= 0; i-- {
		r := reads[i]
		if r.Beyond(room, used) {
			out[r.Index] = prompt.Fresh{Beyond: true}
			continue
		}
		again, ok := d.lookAgain(ctx, r, digests)
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		switch {
		case !ok:
			used += r.Cost()
			continue
		case again.Why == "" && prompt.Characters(again.Text) <= prompt.EntryCap(room):
			used += prompt.EstimateTokens(again.Text)
		}
		out[r.Index] = again
	}
	return out, nil
}

// lookAgain reads one file again if it has to be; ok is false when what was
// shown still holds.
func (d *drive) lookAgain(ctx context.Context, r prompt.Read, digests map[string]string) (prompt.Fresh, bool) {
	may := d.workspace.CheckPath(policy.Read, r.Target).Effect
	if may == policy.Deny { // it was allowed once: the rule is new, or a link has taken the file's place
		return prompt.Fresh{Why: "the policy does not allow it any more"}, true
	}
	now, known := digests[r.Target]
	if !known {
		var err error
		now, err = d.workspace.Digest(ctx, r.Target)
		if known = err == nil; known {
			digests[r.Target] = now
		}
	}
	if known && !r.Stale() && now == r.Digest {
		return prompt.Fresh{}, false
	}
	if may != policy.Allow {
		return prompt.Fresh{Why: "the policy does not allow it outright"}, true
	}
	at := span{r.Target, r.First, r.Count}
	if was, ok := d.looks.made[at]; ok && known && now != "" && was.digest == now {
		return was.fresh, true
	}
	d.looks.read++
	first := max(r.First, 1)
	s, err := d.workspace.ReadLines(ctx, r.Target, first, r.Count, 0)
	fresh := prompt.Fresh{Text: s.Text}
	switch most := d.contract.MaxReadChars; {
	case err != nil:
		fresh = prompt.Fresh{Why: clean(err.Error())}
	case r.Count > 0 && s.To < first+r.Count-1:
		fresh = prompt.Fresh{Why: fmt.Sprintf("the file has only %d lines by now", s.Total)}
	case most > 0 && prompt.Characters(s.Text) > most:
		fresh = prompt.Fresh{Why: fmt.Sprintf("it has over %d characters by now, more than one read may show: ask for a range with offset and limit", most)}
	}
	if known && now != "" && followsFromContent(err) && (err != nil || s.Digest == now) {
		if d.looks.made == nil {
			d.looks.made = map[span]look{}
		}
		d.looks.made[at] = look{now, fresh}
	}
	return fresh, true
}

// followsFromContent reports whether a read of the same bytes would end in the
// same way.
func followsFromContent(err error) bool {
	var binary *workspace.NotTextError
	var past *workspace.RangeError
	return err == nil || errors.As(err, &binary) || errors.As(err, &past)
}
