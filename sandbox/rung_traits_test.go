package sandbox

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

// The texts are stored, and the answers are what an application judges a run by.
func TestWhatEachRungIsCalledAndCanDo(t *testing.T) {
	type row struct {
		rung                  Rung
		writes, egress, proxy bool
	}
	want := []row{
		{"macos-sandbox-exec", true, true, true},
		{"linux-landlock", true, true, true},
		{"linux-bubblewrap", true, true, true},
		{"linux-namespaces", true, true, true},
		{"windows-appcontainer", true, true, false},
		{"windows-job-object", false, false, true},
		{"portable-floor", false, false, true},
		{"none", false, false, true},
	}
	for i, w := range want {
		r := w.rung
		if allRungs[i] != r {
			t.Errorf("rung %d is called %q, want %q", i, allRungs[i], r)
		}
		if got := (row{r, r.ConfinesWrites(), r.DeniesEgress(), r.ReachesProxy()}); got != w {
			t.Errorf("got %+v, want %+v", got, w)
		}
	}
}

func TestModesAreStoredByTheirTexts(t *testing.T) {
	for text, mode := range map[string]Mode{"read-only": ReadOnly, "workspace-write": WorkspaceWrite, "full-access": FullAccess} {
		var p Profile
		if err := json.Unmarshal([]byte(`{"mode":"`+text+`"}`), &p); err != nil || p.Mode != mode {
			t.Errorf("%s is read as %q, %v", text, p.Mode, err)
		}
		if b, err := json.Marshal(mode); string(b) != `"`+text+`"` || err != nil {
			t.Errorf("%s is written as %s, %v", text, b, err)
		}
	}
	// The zero value in every place of the algebra.
	for _, m := range []Mode{ReadOnly, WorkspaceWrite, FullAccess} {
		zero := Mode("")
		if zero.Narrower(m) != WorkspaceWrite.Narrower(m) || m.Narrower(zero) != m.Narrower(WorkspaceWrite) ||
			zero.SatisfiedBy(m) != WorkspaceWrite.SatisfiedBy(m) || m.SatisfiedBy(zero) != m.SatisfiedBy(WorkspaceWrite) {
			t.Errorf("the zero mode and %s are not ordered as workspace-write and it", m)
		}
	}
}

func TestDefaultLimits(t *testing.T) {
	want := Limits{CPU: 60 * time.Second, Wall: 120 * time.Second, Memory: 2147483648, OpenFiles: 512}
	if got := DefaultLimits(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What a writable directory gets is everything but what would lead out of it.
func TestLandlockWriteRights(t *testing.T) {
	const makeChar, makeBlock, ioctlDev = 1 << 6, 1 << 11, 1 << 15
	for abi := 1; abi <= newestABI; abi++ {
		s := &spec{roots: []string{"/ws"}, temp: "/tmp/run"}
		p := planLandlock(s, abi, sameProcessFix, fakeFiles("/ws/", "/tmp/run/"))
		for _, dir := range []string{"/ws", "/tmp/run"} {
			i := slices.IndexFunc(p.rules, func(r landlockRule) bool { return r.path == dir })
			if i < 0 {
				t.Fatalf("version %d: nothing is granted for %s", abi, dir)
			}
			if want := p.fs &^ (makeChar | makeBlock | ioctlDev | fsResolveUnix); p.rules[i].rights != want {
				t.Errorf("version %d: %s has %#x, want %#x", abi, dir, p.rules[i].rights, want)
			}
		}
	}
}
