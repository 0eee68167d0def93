package harness_test

import (
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// One contract over every kind of client leaves the same trace but for who was
// asked: the client's own name on the run, on its drive and on each completion, and
// the model that answered.
func TestEveryClientIsOnRecordByItsOwnName(t *testing.T) {
	names := map[string]bool{}
	var want string
	eachWire(t, func(t *testing.T, w wire) {
		f := wireTo(t, w, w.call(vread("call00001", "a.txt")), w.say("done"))
		f.write("a.txt", "alpha\n")
		res, err := f.run()
		f.expect(res, err, trace.Finished, 2)
		name := w.client(t, f.vendor).Name()
		if name == "" || names[name] {
			t.Errorf("the name %q", name)
		}
		names[name] = true
		info, err := f.store.Run(t.Context(), res.RunID)
		if err != nil || info.Provider != name {
			t.Errorf("the run says %q, want %q; %v", info.Provider, name, err)
		}
		drives, err := f.store.Drives(t.Context(), res.RunID)
		if err != nil || len(drives) != 1 || drives[0].Provider != name {
			t.Errorf("the drive: %+v, %v", drives, err)
		}
		calls := f.calls(res.RunID)
		if len(calls) != 2 {
			t.Fatalf("%d completions on record", len(calls))
		}
		for i, c := range calls {
			if c.Provider != name || c.Model != wireModel || c.Step != i+1 {
				t.Errorf("completion %d: %q, %q of step %d", i, c.Provider, c.Model, c.Step)
			}
		}
		text, err := f.store.CanonicalTrace(t.Context(), res.RunID)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = text
		}
		if text != want {
			t.Errorf("the trace is\n%s\nand over another client\n%s", text, want)
		}
	})
}
