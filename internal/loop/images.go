package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/initorigin/io-harness-go/internal/prompt"
	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/store"
)

// maxImagesNamed is how many images of one call are named that cannot be shown;
// the others are counted.
const maxImagesNamed = 8

// The kinds of the rows about images: one that waits for the next request, and how
// many of those were lost with the drive that had them.
const (
	imageKept  = "image"
	imagesLost = "images_lost"
)

// showImages puts what the calls of a step brought to look at on the next
// request, in call order and as far as one request takes images: those of the
// contract ride every request and go first. What cannot ride is named to the
// model instead, because a tool must not be able to end a run.
func (d *drive) showImages(st *step) {
	room := provider.MaxRequestImageBytes
	for _, m := range slices.Concat(d.contract.Images, d.media) {
		room -= m.ByteLen()
	}
	for _, c := range st.calls {
		left := 0
		for i, m := range c.media {
			err, n := m.Validate(), m.ByteLen()
			if err == nil && n > room {
				err = fmt.Errorf("it has %d bytes and this request has room for %d: ask for it alone", n, room)
			}
			if err == nil {
				room -= n
				d.media = append(d.media, m)
				d.rec.context(st.n, imageKept, fmt.Sprintf("%s %d bytes %s", m.Type, n, m.Digest()))
				continue
			}
			if left++; left <= maxImagesNamed {
				c.observation.Text += prompt.ImageLeftOut(i+1, len(c.media), err.Error())
			}
		}
		if more := left - maxImagesNamed; more > 0 {
			c.observation.Text += prompt.ImagesLeftOut(more)
		}
	}
}

// dropRefused takes the images of tools off a request that the provider did not
// accept, and reports whether there were any: a model behind an endpoint that
// takes images may take none, and that too must not end a run. The contract's
// own stay, since the caller meant them.
func (d *drive) dropRefused(st *step, err error) bool {
	var esc *escalation
	if len(d.media) == 0 || !errors.As(err, &esc) {
		return false
	}
	var ce *provider.ConfigError
	if pe, ok := provider.AsError(esc.err); !errors.As(esc.err, &ce) && (!ok || pe.Kind != provider.InvalidRequest) {
		return false
	}
	d.rec.attempt(st.n, store.AttemptRetry, "asking without images after "+failureWord(esc.err), 0)
	st.notes = append(st.notes, note(st.n, prompt.ImagesRefused(len(d.media))))
	d.media = nil
	return true
}

// lostImages is how many images the last committed step brought that no model has
// seen: they were for the request of the step behind it, and no store holds them.
func (d *drive) lostImages(ctx context.Context) (lost int, err error) {
	if !d.resumed || d.last == 0 {
		return 0, nil
	}
	for e, err := range d.store.ContextEvents(ctx, d.runID()) {
		switch {
		case err != nil:
			return 0, err
		case e.Step != d.last || e.Superseded:
		case e.Kind == imageKept:
			lost++
		case e.Kind == imagesLost: // the model was told
			n, _ := strconv.Atoi(e.Detail)
			lost -= n
		}
	}
	return lost, nil
}

// tellLostImages tells the model of them, so that it does not believe to have seen
// what it has not.
func (d *drive) tellLostImages(ctx context.Context, lost int) error {
	if lost <= 0 {
		return nil
	}
	d.rec.context(d.last, imagesLost, strconv.Itoa(lost))
	return d.tell(ctx, note(d.last, prompt.ImagesLost(lost)))
}
