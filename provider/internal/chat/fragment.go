package chat

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// fragment adds one piece of a tool call. at is its index when the wire gave
// none but the place tells, else -1.
func (a *Accumulator) fragment(f gjson.Result, at int) {
	if !f.IsObject() {
		return
	}
	index := at
	if i := f.Get("index"); i.Type == gjson.Number && i.Int() >= 0 {
		index = int(i.Int())
	}
	id := ""
	if v := f.Get("id"); v.Type == gjson.String {
		id = v.Str
	}
	name := f.Get("function.name").String()
	args := f.Get("function.arguments")
	whole := args.IsObject() || args.IsArray()
	argText := args.String()
	if args.Type == gjson.Null {
		argText = ""
	}

	slot := a.slotFor(index, id, name, argText)
	if id != "" && slot.ID == "" {
		slot.ID = id
	}
	slot.SetName(name)
	switch {
	case whole:
		slot.Replace(args.Raw)
	case argText != "":
		slot.Append(argText)
	}
	if extra := f.Get("extra_content"); extra.IsObject() {
		slot.Extra = extra.Raw
	}
	if name != "" || argText != "" {
		a.first()
	}
}

// slotFor decides which call a fragment belongs to. The wire says it by index;
// servers that number all parallel calls alike, or not at all, are told apart
// by their ids, or by a name and arguments that start anew behind finished
// ones.
func (a *Accumulator) slotFor(index int, id, name, args string) *wire.Slot {
	var slot *wire.Slot
	switch {
	case index >= 0:
		slot = a.calls.ByIndex(index, id)
	case id != "":
		if slot = a.calls.ByID(id); slot == nil && name == "" {
			slot = a.calls.Last()
		}
	default:
		slot = a.calls.Last()
	}
	if slot == nil || startsAnew(slot, index, id, name, args) {
		return a.calls.Open(index)
	}
	return slot
}

func startsAnew(slot *wire.Slot, index int, id, name, args string) bool {
	if name == "" {
		return false // some servers give every fragment of one call a fresh id
	}
	opens := strings.HasPrefix(strings.TrimLeft(args, " \t\r\n"), "{")
	if id != "" && slot.ID != "" && id != slot.ID {
		// Arguments in the middle of which a new call cannot begin.
		continues := !slot.Empty() && !slot.Complete() && args != "" && !opens
		return !continues
	}
	other := slot.Name != "" && name != slot.Name
	if other && slot.Empty() {
		// A call without arguments is a whole one too. A piece without an id is
		// of the call that has one, if its index says so.
		return opens && (id != "" || slot.ID == "") || index < 0 && id == ""
	}
	return (opens || other) && slot.Complete()
}

// legacyCall reads the single call of the form that preceded tool_calls.
func (a *Accumulator) legacyCall(c gjson.Result) {
	slot := a.calls.ByIndex(0, "")
	if slot == nil {
		slot = a.calls.Open(0)
	}
	slot.SetName(c.Get("name").String())
	if args := c.Get("arguments"); args.Type == gjson.String && args.Str != "" {
		slot.Append(args.Str)
	}
	a.first()
}
