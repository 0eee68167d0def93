package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/initorigin/io-harness-go/provider/internal/wire"
)

// details collects reasoning_details, whose pieces belong together by index.
type details struct {
	items []detail
}

type detail struct {
	index  string // "" when the piece had none
	fields map[string]json.RawMessage
	grown  map[string]*strings.Builder // the streamed members
}

// streamed are the members that grow piece by piece; of all others the last
// one counts.
var streamed = []string{"text", "summary", "data"}

func (d *details) add(list gjson.Result) {
	for _, piece := range list.Array() {
		if piece.IsObject() {
			d.addOne(piece)
		}
	}
}

func (d *details) addOne(piece gjson.Result) {
	index := piece.Get("index").Raw
	at := -1
	if index != "" {
		at = slices.IndexFunc(d.items, func(i detail) bool {
			return i.index == index && string(i.fields["type"]) == piece.Get("type").Raw
		})
	}
	if at < 0 {
		d.items = append(d.items, detail{index, map[string]json.RawMessage{}, map[string]*strings.Builder{}})
		at = len(d.items) - 1
	}
	item := d.items[at]
	piece.ForEach(func(k, v gjson.Result) bool {
		key := k.String()
		_, had := item.fields[key]
		switch {
		case had && v.Type == gjson.Null: // a later piece leaves out what an earlier one told
		case v.Type == gjson.String && slices.Contains(streamed, key):
			if item.grown[key] == nil {
				item.grown[key] = new(strings.Builder)
			}
			item.grown[key].WriteString(v.Str)
			item.fields[key] = nil // written by encode
		default:
			item.fields[key] = json.RawMessage(v.Raw)
		}
		return true
	})
}

// encode is the list as it goes back, nil when there is none.
func (d *details) encode() (json.RawMessage, error) {
	if len(d.items) == 0 {
		return nil, nil
	}
	list := make([]map[string]json.RawMessage, len(d.items))
	for i, item := range d.items {
		list[i] = item.fields
		for key, text := range item.grown {
			whole, err := wire.Encode(text.String())
			if err != nil {
				return nil, fmt.Errorf("reasoning details: %w", err)
			}
			item.fields[key] = whole
		}
	}
	b, err := wire.Encode(list)
	if err != nil {
		return nil, fmt.Errorf("reasoning details: %w", err)
	}
	return b, nil
}
