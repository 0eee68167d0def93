package sandbox

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sampleWish() containerWish {
	return containerWish{
		workspace:  `C:\Users\me\src\app`,
		writable:   []string{`C:\Users\me\go\pkg\mod`, `D:\cache`},
		temp:       `C:\Users\me\AppData\Local\Temp\harness-1`,
		programs:   []string{`C:\Users\me\.rustup`},
		program:    `C:\Program Files\Go\bin\go.exe`,
		systemRoot: `C:\Windows`,
		home:       `C:\Users\me`,
	}
}

func TestWhatAContainerIsGiven(t *testing.T) {
	p, err := planContainer(sampleWish())
	if err != nil {
		t.Fatal(err)
	}
	want := []grant{
		{`C:\Users\me\src\app`, fullAccess, wholeTree},
		{`C:\Users\me\go\pkg\mod`, fullAccess, wholeTree},
		{`D:\cache`, fullAccess, wholeTree},
		{`C:\Users\me\AppData\Local\Temp\harness-1`, fullAccess, thisObject},
		{`C:\Users\me\.rustup`, readExecute, wholeTree},
		{`C:\Program Files\Go\bin`, readExecute, wholeTree},
		{`C:\Windows`, readExecute, thisObject},
		// The ways to them, each once, the roots of volumes left out.
		{`C:\Users\me\src`, traverse, thisObject},
		{`C:\Users\me`, traverse, thisObject},
		{`C:\Users`, traverse, thisObject},
		{`C:\Users\me\go\pkg`, traverse, thisObject},
		{`C:\Users\me\go`, traverse, thisObject},
		{`C:\Users\me\AppData\Local\Temp`, traverse, thisObject},
		{`C:\Users\me\AppData\Local`, traverse, thisObject},
		{`C:\Users\me\AppData`, traverse, thisObject},
		{`C:\Program Files\Go`, traverse, thisObject},
		{`C:\Program Files`, traverse, thisObject},
	}
	if d := cmp.Diff(want, p.grants, cmp.AllowUnexported(grant{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if p.capabilities != nil {
		t.Errorf("without a network: %v", p.capabilities)
	}
	w := sampleWish()
	w.network = true
	if p, err := planContainer(w); err != nil || !slices.Equal(p.capabilities, []string{"S-1-15-3-1"}) {
		t.Errorf("with a network: %v, %v", p.capabilities, err)
	}
}

func TestAContainerThatMayOnlyReadIsGivenNothingToWrite(t *testing.T) {
	w := sampleWish()
	w.readOnly = true
	p, err := planContainer(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.grants {
		if g.access == fullAccess && g.path != w.temp {
			t.Errorf("%s can be written", g.path)
		}
	}
	if p.grants[0] != (grant{w.workspace, readExecute, wholeTree}) || p.grants[0].needed() {
		t.Errorf("the workspace: %+v", p.grants[0])
	}
}

// The user's own directory is passed through and no more, whatever asks for it.
func TestTheUsersOwnDirectoryIsNeverGiven(t *testing.T) {
	for name, change := range map[string]func(*containerWish){
		"as the workspace":             func(w *containerWish) { w.workspace = `c:\users\ME` },
		"in the workspace":             func(w *containerWish) { w.workspace = `C:\Users` },
		"on the workspace's volume":    func(w *containerWish) { w.workspace = `C:\` },
		"as a directory to write":      func(w *containerWish) { w.writable = []string{`C:\Users\me\`} },
		"as the temporary directory":   func(w *containerWish) { w.temp = `C:/Users/me` },
		"in the temporary directory":   func(w *containerWish) { w.temp = `C:\` },
		"as the workspace, to be read": func(w *containerWish) { w.workspace, w.readOnly = `C:\Users\me`, true },
	} {
		w := sampleWish()
		change(&w)
		if p, err := planContainer(w); err == nil {
			t.Errorf("%s: planned %+v", name, p.grants)
		}
	}
	w := sampleWish()
	w.programs, w.program = []string{`C:\Users\me`, `C:\`, `C:\Users`}, `C:\Users\me\tool.exe`
	p, err := planContainer(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range p.grants {
		if holdsHome(g.path, w.home) && g.access != traverse {
			t.Errorf("%+v", g)
		}
	}
}

func TestNoGrantIsMadeThatAnotherHolds(t *testing.T) {
	w := sampleWish()
	w.writable = []string{`C:\Users\me\src\app\.cache`, `C:\Users\me\src`, `c:\users\me\SRC\`}
	w.temp = `C:\Users\me\src\app\tmp`
	w.program = `C:\Users\me\src\app\node_modules\.bin\tool.exe`
	w.programs = []string{`C:\Windows`}
	p, err := planContainer(w)
	if err != nil {
		t.Fatal(err)
	}
	want := []grant{
		{`C:\Users\me\src\app`, fullAccess, wholeTree},
		{`C:\Users\me\src`, fullAccess, wholeTree},
		{`C:\Windows`, readExecute, wholeTree},
		{`C:\Users\me`, traverse, thisObject},
		{`C:\Users`, traverse, thisObject},
	}
	if d := cmp.Diff(want, p.grants, cmp.AllowUnexported(grant{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestEntriesOfAccessLists(t *testing.T) {
	for _, tc := range []struct {
		access      access
		mask, flags uint32
	}{
		{traverse, 0xA0, 0},
		{readExecute, 0x1200A9, 3},
		{fullAccess, 0x1F01FF, 3},
	} {
		g := grant{access: tc.access}
		if tc.access.mask() != tc.mask || g.inheritance() != tc.flags {
			t.Errorf("%d: mask %#x, flags %d; want %#x, %d", tc.access, tc.access.mask(), g.inheritance(), tc.mask, tc.flags)
		}
		if tc.access.mask()&0xF0000000 != 0 {
			t.Errorf("%d has a generic right, which is stored and gives nothing", tc.access)
		}
		if g.needed() != (tc.access == fullAccess) {
			t.Errorf("%d: needed is %v", tc.access, g.needed())
		}
	}
}

func TestAPlaceThatIsOpenAlreadyIsLeftAlone(t *testing.T) {
	read, full, way := grant{access: readExecute}, grant{access: fullAccess}, grant{access: traverse}
	for _, tc := range []struct {
		name    string
		g       grant
		entries []aceEntry
		want    bool
	}{
		{"nothing", way, nil, false},
		{"what is to be given", read, []aceEntry{{flags: 3, mask: 0x1200A9}}, true},
		{"more", read, []aceEntry{{flags: 3, mask: 0x1F01FF}}, true},
		{"less", full, []aceEntry{{flags: 3, mask: 0x1200A9}}, false},
		{"as directories of the system have it", read, []aceEntry{{mask: 0x1200A9}, {flags: 0xB, mask: 0xA0000000}}, true},
		{"and as those in them inherit it", read, []aceEntry{{flags: 0x10, mask: 0x1200A9}, {flags: 0x1B, mask: 0xA0000000}}, true},
		{"here and not below", read, []aceEntry{{mask: 0x1200A9}}, false},
		{"below and not here", read, []aceEntry{{flags: 0xB, mask: 0x1200A9}}, false},
		{"only for directories below", read, []aceEntry{{flags: 2, mask: 0x1200A9}}, false},
		{"generic rights here give nothing", read, []aceEntry{{flags: 3, mask: 0xA0000000}}, false},
		{"in two parts", read, []aceEntry{{flags: 3, mask: 0x120089}, {flags: 3, mask: 0x1200A0}}, true},
		{"taken away again", read, []aceEntry{{flags: 3, mask: 0x1F01FF}, {denies: true, mask: 1}}, false},
		{"a way through", way, []aceEntry{{mask: 0xA0}}, true},
		{"a way through a place to read", way, []aceEntry{{flags: 3, mask: 0x1200A9}}, true},
	} {
		if got := tc.g.heldBy(tc.entries); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestEachBoundaryHasAContainerOfItsOwn(t *testing.T) {
	base := containerName(sampleWish())
	if len(base) > 64 || strings.Trim(base, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		t.Errorf("%q cannot be a name of a container", base)
	}
	for name, tc := range map[string]struct {
		change func(*containerWish)
		same   bool
	}{
		"again":                            {func(*containerWish) {}, true},
		"another spelling":                 {func(w *containerWish) { w.workspace = `c:\users\me\SRC\app\` }, true},
		"another order":                    {func(w *containerWish) { slices.Reverse(w.writable) }, true},
		"another temporary directory":      {func(w *containerWish) { w.temp += "2" }, true},
		"another program":                  {func(w *containerWish) { w.program = `C:\x\y.exe` }, true},
		"another workspace":                {func(w *containerWish) { w.workspace += "2" }, false},
		"another directory to write":       {func(w *containerWish) { w.writable[0] += "2" }, false},
		"a temporary directory that stays": {func(w *containerWish) { w.keptTemp = true }, false},
		"nothing to write":                 {func(w *containerWish) { w.readOnly = true }, false},
		"a network":                        {func(w *containerWish) { w.network = true }, false},
		"a workspace that was a cache":     {func(w *containerWish) { w.workspace, w.writable[1] = w.writable[1], w.workspace }, false},
	} {
		w := sampleWish()
		tc.change(&w)
		if got := containerName(w) == base; got != tc.same {
			t.Errorf("%s: the same container is %v, want %v", name, got, tc.same)
		}
	}
	reader, other := sampleWish(), sampleWish()
	reader.readOnly, other.readOnly, other.writable = true, true, nil
	if containerName(reader) != containerName(other) {
		t.Error("what may be written counts where nothing may be")
	}
}

func TestWindowsPathsAsText(t *testing.T) {
	for path, want := range map[string]string{
		`C:\a\b`: `C:\a`, `C:\a`: `C:\`, `C:\`: "", `C:`: "", `C:\a\b\`: `C:\a`, `C:/a/b`: `C:\a`,
		`\\srv\share\a`: `\\srv\share`, `\\srv\share`: "", `\\srv\share\`: "", "": "", "x": "",
	} {
		if got := winDir(path); got != want {
			t.Errorf("winDir(%q) = %q, want %q", path, got, want)
		}
	}
	for _, tc := range []struct {
		path, dir string
		want      bool
	}{
		{`C:\a\b`, `c:\A`, true}, {`C:\ab`, `C:\a`, false}, {`C:\a`, `C:\a`, false}, {`C:\a`, `C:\`, true},
		{`C:\`, `C:\`, false}, {`C:\a`, `D:\`, false}, {`\\srv\share\a`, `\\srv\share`, true}, {`C:/a/b`, `C:\a\`, true},
	} {
		if got := winBeneath(tc.path, tc.dir); got != tc.want {
			t.Errorf("winBeneath(%q, %q) = %v", tc.path, tc.dir, got)
		}
	}
}

func TestAContainerThatCannotBeHadRefusesTheCommand(t *testing.T) {
	host := Host{OS: "windows", JobObject: Feature{Works: true}, AppContainer: Feature{Why: "the test says so"}}
	for _, mode := range []Mode{ReadOnly, WorkspaceWrite} {
		p := Profile{Workspace: realTempDir(t), Mode: mode, AccessConfinement: true}
		_, err := start(t.Context(), host, Cmd{Argv: []string{os.Args[0]}}, p)
		if !errors.Is(err, ErrRequired) {
			t.Fatalf("%s: got %v, want ErrRequired", mode, err)
		}
		for _, want := range []string{"access confinement was asked for", "the test says so", "nothing was started"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", mode, err, want)
			}
		}
	}
}
