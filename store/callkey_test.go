package store

import (
	"context"
	"strings"
	"testing"
)

func TestNoTwoCallsHaveOneKeyAndEveryAttemptAtOneHasIt(t *testing.T) {
	ctx := context.Background()
	a, b := newFile(t), newFile(t)
	da, db := start(t, a, RunStart{}), start(t, b, RunStart{})
	keys := map[string]bool{}
	for _, key := range []string{da.CallKey(1, 0), da.CallKey(1, 1), da.CallKey(2, 0), start(t, a, RunStart{}).CallKey(1, 0), db.CallKey(1, 0)} {
		keys[key] = true
	}
	if len(keys) != 5 {
		t.Errorf("five calls of two stores have the keys %v", keys)
	}
	want := da.CallKey(1, 0)
	if !strings.HasSuffix(want, "/"+da.RunID.String()+"/1/0") {
		t.Errorf("the key is %q", want)
	}
	release(t, da)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a = openAt(t, a.Path())
	again, _ := enter(t, a, da.RunID, EnterOptions{})
	if got := again.CallKey(1, 0); got != want {
		t.Errorf("behind a resume the key is %q, want %q", got, want)
	}
	_, key, err := a.OpenAttempt(ctx, again, Attempt{Step: 1, Tool: "t"})
	if err != nil || key != want {
		t.Errorf("the journal has %q, want %q: %v", key, want, err)
	}
}

// Keys that a store without a name handed out must be found again.
func TestAStoreThatWasMadeBeforeKeepsItsKeys(t *testing.T) {
	s := newFile(t)
	d := start(t, s, RunStart{})
	release(t, d)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	raw(t, s.Path(), `DELETE FROM store_meta WHERE key = 'store_id'`)
	again, _ := enter(t, openAt(t, s.Path()), d.RunID, EnterOptions{})
	if got, want := again.CallKey(1, 0), d.RunID.String()+"/1/0"; got != want {
		t.Errorf("the key is %q, want %q", got, want)
	}
}
