package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// What golang.org/x/sys/windows has no bindings for.
var (
	userenv             = windows.NewLazySystemDLL("userenv.dll")
	createProfile       = userenv.NewProc("CreateAppContainerProfile")
	deriveProfile       = userenv.NewProc("DeriveAppContainerSidFromAppContainerName")
	deleteProfile       = userenv.NewProc("DeleteAppContainerProfile")
	advapi32            = windows.NewLazySystemDLL("advapi32.dll")
	treeSetSecurityInfo = advapi32.NewProc("TreeSetNamedSecurityInfoW")
)

// container is an AppContainer: its identity and what it is able to do. All that it
// points to is memory of this program.
type container struct {
	sid          *windows.SID
	abilities    []windows.SIDAndAttributes
	securityInfo securityCapabilities
}

// securityCapabilities is the system's SECURITY_CAPABILITIES.
type securityCapabilities struct {
	sid             *windows.SID
	capabilities    *windows.SIDAndAttributes
	capabilityCount uint32
	reserved        uint32
}

// capabilities is the attribute that puts a new process into the container. It is good
// as long as the container is referred to.
func (c *container) capabilities() *securityCapabilities {
	c.securityInfo = securityCapabilities{sid: c.sid, capabilityCount: uint32(len(c.abilities))}
	if len(c.abilities) > 0 {
		c.securityInfo.capabilities = &c.abilities[0]
	}
	return &c.securityInfo
}

// openContainer makes the container of s and gives it what its plan says.
func openContainer(s *spec) (*container, error) {
	w, err := s.containerWish()
	if err != nil {
		return nil, err
	}
	plan, err := planContainer(w)
	if err != nil {
		return nil, err
	}
	c, err := newContainer(plan.name, plan.capabilities)
	if err != nil {
		return nil, err
	}
	for _, g := range plan.grants {
		if err := c.give(g); err != nil && g.needed() {
			return nil, fmt.Errorf("%s cannot be given to the container: %w", g.path, err)
		}
	}
	return c, nil
}

func (s *spec) containerWish() (containerWish, error) {
	root, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return containerWish{}, os.NewSyscallError("GetSystemWindowsDirectory", err)
	}
	home, err := userProfile()
	if err != nil {
		return containerWish{}, err
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	w := containerWish{
		workspace:  s.work,
		readOnly:   s.profile.Mode == ReadOnly,
		temp:       s.temp,
		keptTemp:   !strings.HasPrefix(filepath.Base(s.temp), tempPrefix),
		program:    s.path,
		systemRoot: root,
		home:       home,
		network:    s.profile.Egress.Open,
	}
	if len(s.roots) > 1 { // the workspace comes first
		w.writable = s.roots[1:]
	}
	if real, err := filepath.EvalSymlinks(s.path); err == nil {
		w.program = real
	}
	for _, dir := range s.profile.Programs {
		if real, err := realDir(dir); err == nil {
			w.programs = append(w.programs, real)
		}
	}
	return w, nil
}

// userProfile is the user's own directory as the system has it; the environment may
// say anything.
func userProfile() (string, error) {
	var token windows.Token
	if err := windows.OpenProcessToken(windows.CurrentProcess(), windows.TOKEN_QUERY, &token); err != nil {
		return "", os.NewSyscallError("OpenProcessToken", err)
	}
	defer token.Close()
	home, err := token.GetUserProfileDirectory()
	return home, os.NewSyscallError("GetUserProfileDirectory", err)
}

// newContainer makes the profile of that name with these capabilities, or finds the
// one that is there. Profiles are shared by all processes of the user that ask for the
// same, so none is deleted.
func newContainer(name string, capabilities []string) (*container, error) {
	for _, p := range []*windows.LazyProc{createProfile, deriveProfile} {
		if err := p.Find(); err != nil {
			return nil, err
		}
	}
	c := &container{}
	for _, text := range capabilities {
		sid, err := windows.StringToSid(text)
		if err == nil {
			sid, err = alignedSID(sid)
		}
		if err != nil {
			return nil, fmt.Errorf("capability %s: %w", text, err)
		}
		c.abilities = append(c.abilities, windows.SIDAndAttributes{Sid: sid, Attributes: windows.SE_GROUP_ENABLED})
	}
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, err
	}
	var first *windows.SIDAndAttributes
	if len(c.abilities) > 0 {
		first = &c.abilities[0]
	}
	var theirs *windows.SID
	code, _, _ := createProfile.Call(uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(text)),
		uintptr(unsafe.Pointer(first)), uintptr(len(c.abilities)), uintptr(unsafe.Pointer(&theirs)))
	const alreadyExists = 0x800700B7 // HRESULT_FROM_WIN32(ERROR_ALREADY_EXISTS)
	op := "CreateAppContainerProfile"
	if uint32(code) == alreadyExists {
		op = "DeriveAppContainerSidFromAppContainerName"
		code, _, _ = deriveProfile.Call(uintptr(unsafe.Pointer(text)), uintptr(unsafe.Pointer(&theirs)))
	}
	if int32(code) < 0 {
		return nil, os.NewSyscallError(op, fmt.Errorf("code %#x", uint32(code)))
	}
	if theirs == nil {
		return nil, os.NewSyscallError(op, errors.New("it gave no identity"))
	}
	defer func() { _ = windows.FreeSid(theirs) }()
	c.sid, err = alignedSID(theirs)
	return c, err
}

// alignedSID is a copy in memory of this program, at an address that the system takes:
// it refuses a capability at an address that is not a multiple of eight, which the
// allocator does not promise for a few bytes.
func alignedSID(sid *windows.SID) (*windows.SID, error) {
	n := sid.Len()
	room := make([]uint64, (n+7)/8)
	own := (*windows.SID)(unsafe.Pointer(&room[0]))
	if err := windows.CopySid(uint32(n), own, sid); err != nil {
		return nil, os.NewSyscallError("CopySid", err)
	}
	return own, nil
}

// probeContainer starts a program in a container that is given one directory, and looks
// whether a write there lands and one beside it is refused.
func probeContainer() Feature {
	name := "io-harness-go.probe." + strconv.Itoa(os.Getpid())
	c, err := newContainer(name, nil)
	if err != nil {
		return works(err)
	}
	defer func() {
		if text, err := windows.UTF16PtrFromString(name); err == nil && deleteProfile.Find() == nil {
			_, _, _ = deleteProfile.Call(uintptr(unsafe.Pointer(text)))
		}
	}()
	return works(tryContainer(c))
}

func tryContainer(c *container) error {
	root, err := windows.GetSystemDirectory()
	if err != nil {
		return os.NewSyscallError("GetSystemDirectory", err)
	}
	dir, remove, err := NewTemp()
	if err != nil {
		return err
	}
	defer func() { _ = remove() }()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	const passed = 7
	inside, outside := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, d := range []string{inside, outside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return err
		}
	}
	if err := c.give(grant{inside, fullAccess, thisObject}); err != nil {
		return err
	}
	j, err := newJob(&spec{rung: RungAppContainer})
	if err != nil {
		return err
	}
	defer j.close()
	proc, err := spawn(&spec{
		path:  filepath.Join(root, "cmd.exe"),
		argv:  []string{"cmd.exe", "/d", "/c", "echo", "x", ">", "%PROBE_IN%", "&", "echo", "x", ">", "%PROBE_OUT%", "&", "exit", strconv.Itoa(passed)},
		dir:   root,
		env:   append(os.Environ(), `PROBE_IN="`+inside+`\x"`, `PROBE_OUT="`+outside+`\x"`),
		files: []*os.File{null, null, null},
	}, j.object(), c)
	if err != nil {
		return err
	}
	late := time.AfterFunc(10*time.Second, j.close)
	end := proc.wait()
	late.Stop()
	if end.code != passed {
		return fmt.Errorf("a program in a container ended with code %d", end.code)
	}
	if _, err := os.Stat(filepath.Join(inside, "x")); err != nil {
		return errors.New("a program in a container could not write where it may")
	}
	if _, err := os.Stat(filepath.Join(outside, "x")); err == nil {
		return errors.New("a program in a container wrote outside of what it was given")
	}
	return nil
}
