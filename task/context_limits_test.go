package task

import (
	"errors"
	"math"
	"testing"
)

// A number that cannot be meant is refused by the name of its field, and every
// one that can be meant is taken.
func TestNumbersOfWhatAModelIsShown(t *testing.T) {
	for _, tc := range []struct {
		field  string
		change func(*Contract)
	}{
		{"Context.MaxTokens", func(c *Contract) { c.Context.MaxTokens = -1 }},
		{"Context.Share", func(c *Contract) { c.Context.Share = -0.1 }},
		{"Context.Share", func(c *Contract) { c.Context.Share = 1.01 }},
		{"Context.Share", func(c *Contract) { c.Context.Share = math.NaN() }},
		{"Compaction.Share", func(c *Contract) { c.Compaction.Share = -0.1 }},
		{"Compaction.Share", func(c *Contract) { c.Compaction.Share = math.NaN() }},
		{"Compaction.Keep", func(c *Contract) { c.Compaction.Keep = -1 }},
		{"Memory.MaxEntries", func(c *Contract) { c.Memory.MaxEntries = -1 }},
		{"Memory.MaxChars", func(c *Contract) { c.Memory.MaxChars = math.MinInt64 }},
		{"Effort", func(c *Contract) { c.Effort = "High" }},
		{"Memory.MaxEntryChars", func(c *Contract) { c.Memory.MaxEntryChars = -1 }},
	} {
		c := New("look", t.TempDir())
		tc.change(&c)
		var bad *InvalidError
		if err := c.Validate(); !errors.As(err, &bad) || bad.Field != tc.field {
			t.Errorf("%s: %v", tc.field, err)
		}
	}
	for name, change := range map[string]func(*Contract){
		"none stated": func(*Contract) {},
		"the whole":   func(c *Contract) { c.Context.Share, c.Context.MaxTokens = 1, 1 },
		"never":       func(c *Contract) { c.Compaction.Share = NoCompaction },
		"more":        func(c *Contract) { c.Compaction.Share = math.Inf(1) },
		"no cap":      func(c *Contract) { c.Memory = Memory{math.MaxInt64, math.MaxInt64, math.MaxInt64} },
	} {
		c := New("look", t.TempDir())
		change(&c)
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		raw, err := c.Marshal()
		if err != nil {
			t.Errorf("%s cannot be stored: %v", name, err)
			continue
		}
		back, err := New("look", c.Root).Restore(raw)
		if err != nil || back.Compaction.Share != min(c.Compaction.Share, NoCompaction) || back.Context != c.Context || back.Memory != c.Memory {
			t.Errorf("%s came back as %+v, %v", name, back, err)
		}
	}
}
