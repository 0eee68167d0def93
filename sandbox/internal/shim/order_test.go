package shim

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func TestOrdersSurviveTheWire(t *testing.T) {
	text, list := rapid.String(), rapid.SliceOf(rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		o := &Order{
			Token: text.Draw(t, "token"), Writable: list.Draw(t, "writable"), Temp: text.Draw(t, "temp"), Mask: list.Draw(t, "mask"),
			Protect: list.Draw(t, "protect"), Shm: rapid.Bool().Draw(t, "shm"), AsRoot: rapid.Bool().Draw(t, "root"), OwnNet: rapid.Bool().Draw(t, "net"),
			Listen: rapid.Uint16().Draw(t, "listen"), Ruleset: rapid.Bool().Draw(t, "ruleset"), RulesetFlags: rapid.Uint32().Draw(t, "flags"),
			ShmRights: rapid.Uint64().Draw(t, "rights"),
			Filter:    rapid.SliceOf(rapid.Byte()).Draw(t, "filter"), CPUSeconds: rapid.Uint64().Draw(t, "cpu"), OpenFiles: rapid.Uint64().Draw(t, "files"),
			Path: text.Draw(t, "path"), Dir: text.Draw(t, "dir"), Argv: list.Draw(t, "argv"), Env: list.Draw(t, "env"), Probe: text.Draw(t, "probe"),
		}
		b := o.Encode()
		got, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(o, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("(-sent +received):\n%s", d)
		}
		if cut := rapid.IntRange(0, len(b)-1).Draw(t, "cut"); cut < len(b) {
			if _, err := Decode(b[:cut]); err == nil {
				t.Fatalf("%d of %d bytes were taken for an order", cut, len(b))
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add((&Order{Argv: []string{"a"}}).Encode())
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if o, err := Decode(b); err == nil {
			if _, err := Decode(o.Encode()); err != nil {
				t.Fatalf("%v read from %x cannot be read again: %v", o, b, err)
			}
		}
	})
}
