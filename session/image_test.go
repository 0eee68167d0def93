package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
	"github.com/initorigin/io-harness-go/provider/scripted"
	"github.com/initorigin/io-harness-go/session"
	"github.com/initorigin/io-harness-go/task"
)

func image(t *testing.T, content string) provider.Media {
	t.Helper()
	m, err := provider.Image("image/png", []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestImagesRideEveryStepOfTheirTurnAndNoOther(t *testing.T) {
	f := newFixture(t, read("a"), scripted.Say("a cat"), scripted.Say("nothing"))
	s := f.open()
	staged, given, own := image(t, "staged"), image(t, "given"), image(t, "own")
	s.StageImages(staged)
	c := task.Contract{Images: []provider.Media{own}}
	f.turn(s, "what is it?", session.WithImages(given), session.WithContract(c))
	for i, r := range f.model.Requests() {
		if len(r.Media) != 3 || r.Media[0] != own || r.Media[1] != staged || r.Media[2] != given {
			t.Errorf("request %d has %d images", i, len(r.Media))
		}
	}
	if len(c.Images) != 1 {
		t.Error("the caller's contract changed")
	}
	f.turn(s, "and now?")
	if n := len(f.last().Media); n != 0 {
		t.Errorf("the next turn has %d images", n)
	}
}

func TestImagesForAModelThatTakesNoneAreRefusedUnpaid(t *testing.T) {
	f := newFixture(t, scripted.Say("hello"))
	f.model.Blind = true
	s := f.open()
	s.StageImages(image(t, "staged"))
	if _, err := s.Turn(ctx, "what is it?"); !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), "Images") {
		t.Fatalf("got %v", err)
	}
	if n := len(f.model.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
	if turn := f.turn(s, "hi"); turn.Reply != "hello" || turn.Parent != 0 {
		t.Errorf("the staged image is still there: %+v", turn)
	}
}

func TestImagesThatNoVendorTakesAreRefused(t *testing.T) {
	f := newFixture(t)
	for name, m := range map[string]provider.Media{
		"type":  {Type: "image/tiff", Base64: "AAAA"},
		"empty": {Type: "image/png"},
		"large": {Type: "image/png", Base64: strings.Repeat("AAAA", provider.MaxImageBytes/3+1)},
	} {
		if _, err := f.open().Turn(ctx, "look", session.WithImages(m)); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
