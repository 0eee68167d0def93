package wire

import (
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/provider"
)

// A long call that cannot be reported is looked at once, not again for each piece
// of the calls behind it.
func TestACallIsJudgedOnce(t *testing.T) {
	for name, args := range map[string]string{
		"half a character": `{"a":"` + strings.Repeat("x", 1<<10) + `\ud83d"}`,
		"not JSON":         `{"a":"` + strings.Repeat("x", 1<<10) + `",}`,
	} {
		s := NewSlots(func(int, provider.ToolCall) { t.Errorf("%s was reported", name) }, false)
		slot := s.Open(0)
		slot.SetName("save")
		slot.Append(args)
		s.Report()
		judged := 0
		for _, c := range s.slots {
			if c.judged && (c.unfit || !c.whole) {
				judged++
			}
		}
		if judged != 1 {
			t.Errorf("%s is not known to be unfit", name)
		}
		if n := testing.AllocsPerRun(10, func() { slot.Append(" "); s.Report() }); n > 1 { // that of the space
			t.Errorf("%s takes %v allocations at each piece behind it", name, n)
		}
		slot.Replace(`{"a":1}`)
		if !slot.Complete() {
			t.Errorf("%s: a replaced call is not seen", name)
		}
	}
}
