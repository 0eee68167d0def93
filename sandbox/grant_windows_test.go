package sandbox

import (
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// stranger is a container that exists only as a name in access lists.
func stranger(t *testing.T) *container {
	t.Helper()
	sid, err := windows.StringToSid("S-1-15-2-11-22-33-44-55-66-77")
	if err != nil {
		t.Fatal(err)
	}
	own, err := alignedSID(sid)
	if err != nil {
		t.Fatal(err)
	}
	return &container{sid: own}
}

func listOf(t *testing.T, path string) *windows.SECURITY_DESCRIPTOR {
	t.Helper()
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		t.Fatal(err)
	}
	return sd
}

func TestIdentitiesStandWhereTheSystemTakesThem(t *testing.T) {
	for range 100 {
		c, text := stranger(t), internetClient
		sid, err := windows.StringToSid(text)
		if err != nil {
			t.Fatal(err)
		}
		ability, err := alignedSID(sid)
		if err != nil {
			t.Fatal(err)
		}
		if !ability.Equals(sid) || ability.String() != text {
			t.Fatalf("the copy of %s is %s", text, ability)
		}
		for _, p := range []*windows.SID{ability, c.sid} {
			if uintptr(unsafe.Pointer(p))%8 != 0 {
				t.Fatalf("%s stands at %p", p, p)
			}
		}
		c.abilities = []windows.SIDAndAttributes{{Sid: ability, Attributes: windows.SE_GROUP_ENABLED}}
		if got := c.capabilities(); got.sid != c.sid || got.capabilityCount != 1 || got.capabilities != &c.abilities[0] {
			t.Fatalf("got %+v", got)
		}
		if got := stranger(t).capabilities(); got.capabilityCount != 0 || got.capabilities != nil {
			t.Fatalf("without a capability: %+v", got)
		}
	}
}

// What is granted stands in the list beside what stood there; a tree carries it down
// to what is there, an object keeps it for what is made later.
func TestGrantsStandInAccessLists(t *testing.T) {
	dir := realTempDir(t)
	for _, tc := range []struct {
		name  string
		g     grant
		below bool // it holds for what was there before
	}{
		{"tree", grant{filepath.Join(dir, "tree"), fullAccess, wholeTree}, true},
		{"object", grant{filepath.Join(dir, "object"), fullAccess, thisObject}, false},
		{"read", grant{filepath.Join(dir, "read"), readExecute, wholeTree}, true},
		{"way", grant{filepath.Join(dir, "way"), traverse, thisObject}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := stranger(t)
			before, after := filepath.Join(tc.g.path, "before"), filepath.Join(tc.g.path, "after")
			if err := os.MkdirAll(before, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.has(listOf(t, tc.g.path), tc.g) {
				t.Fatal("it is there already")
			}
			err := c.give(tc.g)
			if underWine() && err != nil {
				t.Skip("Wine: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if underWine() && !c.has(listOf(t, tc.g.path), tc.g) {
				t.Skip("Wine makes modes of Unix out of access lists")
			}
			if err := os.Mkdir(after, 0o700); err != nil {
				t.Fatal(err)
			}
			inherits := tc.g.access != traverse
			for path, want := range map[string]bool{tc.g.path: true, before: tc.below, after: inherits} {
				if got := c.has(listOf(t, path), tc.g); got != want {
					t.Errorf("%s has it: %v, want %v; %s", filepath.Base(path), got, want, listOf(t, path))
				}
			}
			if tc.g.access == traverse {
				return
			}
			// A way through to what is more already takes nothing away.
			if err := c.give(grant{tc.g.path, traverse, thisObject}); err != nil || !c.has(listOf(t, tc.g.path), tc.g) {
				t.Errorf("after a smaller grant: %v, %s", err, listOf(t, tc.g.path))
			}
			// Who could write before still can.
			if err := os.WriteFile(filepath.Join(tc.g.path, "file"), nil, 0o600); err != nil {
				t.Error(err)
			}
		})
	}
	if err := stranger(t).give(grant{filepath.Join(dir, "missing"), fullAccess, wholeTree}); err == nil {
		t.Error("a tree that is not there was granted")
	}
	if err := stranger(t).give(grant{filepath.Join(dir, "missing"), fullAccess, thisObject}); err == nil {
		t.Error("an object that is not there was granted")
	}
}

// An entry is added to what stood in a list, and nobody is shut out by it.
func TestAnEntryIsAddedToWhatStoodThere(t *testing.T) {
	parse := func(text string) *windows.SECURITY_DESCRIPTOR {
		t.Helper()
		sd, err := windows.SecurityDescriptorFromString(text)
		if err != nil {
			t.Fatal(err)
		}
		return sd
	}
	c := stranger(t)
	full, read, way := grant{access: fullAccess}, grant{access: readExecute}, grant{access: traverse}
	add := func(sd *windows.SECURITY_DESCRIPTOR, g grant) *windows.SECURITY_DESCRIPTOR {
		t.Helper()
		list, control, err := c.with(sd, g)
		if err != nil {
			t.Fatal(err)
		}
		if was, _, err := sd.Control(); err != nil || control != was {
			t.Errorf("control %#x, want %#x, %v", control, was, err)
		}
		changed, err := windows.NewSecurityDescriptor()
		if err == nil {
			err = changed.SetDACL(list, true, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = list.AceCount }) // changed refers to it
		return changed
	}
	sd := parse("D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)")
	for _, g := range []grant{way, read, full} {
		if c.has(sd, g) {
			t.Errorf("%v is there from the beginning", g)
		}
	}
	sd = add(sd, way)
	if !c.has(sd, way) || c.has(sd, read) {
		t.Error("after a way through")
	}
	sd = add(sd, read)
	if !c.has(sd, read) || c.has(sd, full) {
		t.Error("after reading")
	}
	sd = add(sd, full)
	if !c.has(sd, full) || !c.has(sd, read) || !c.has(sd, way) {
		t.Error("after everything")
	}
	if again := add(sd, way); !c.has(again, full) {
		t.Error("a way through took away what was there")
	}
	list, _, err := sd.DACL()
	if err != nil || list.AceCount < 3 {
		t.Fatalf("%d entries are left, %v", list.AceCount, err)
	}
	found := 0
	for _, text := range []string{"S-1-5-18", "S-1-5-32-544"} {
		sid, err := windows.StringToSid(text)
		if err != nil {
			t.Fatal(err)
		}
		if (&container{sid: sid}).has(sd, full) {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d of the 2 who were there before are", found)
	}

	open := parse("D:(A;;0x1200a9;;;S-1-15-2-1)(A;OICIIO;GXGR;;;S-1-15-2-1)(A;OICI;FA;;;SY)")
	if !c.has(open, read) || !c.has(open, way) || c.has(open, full) {
		t.Error("a place that is open to all containers is not known as one")
	}
	if c.has(parse("D:(A;OICI;FA;;;WD)"), read) {
		t.Error("what everybody may do, a container may not")
	}
	free, err := windows.NewSecurityDescriptor()
	if err == nil {
		err = free.SetDACL(nil, true, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, sd := range map[string]*windows.SECURITY_DESCRIPTOR{"nothing": nil, "no list": parse("O:BA"), "a list that opens everything": free} {
		if _, _, err := c.with(sd, full); err == nil {
			t.Errorf("%s: an entry would shut everybody else out", name)
		}
		if c.has(sd, way) {
			t.Errorf("%s: said to have it", name)
		}
	}
}
