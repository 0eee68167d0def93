package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/windows"
)

// given are the grants that this process has made, by identity, path, access and
// reach. The lock is held while one is made: two commands of a run want the same.
var given = struct {
	sync.Mutex
	made map[string]bool
}{made: map[string]bool{}}

// errNoList is a file system without access lists, where everything is open to
// everybody. A list with one entry would close it to everybody else.
var errNoList = errors.New("it has no access list")

// give makes one grant, unless it was made before.
func (c *container) give(g grant) error {
	key := fmt.Sprintf("%s|%d|%d|%s", c.sid, g.access, g.reach, winFold(g.path))
	given.Lock()
	defer given.Unlock()
	if given.made[key] {
		return nil
	}
	giveIt := c.giveObject
	if g.reach == wholeTree {
		giveIt = c.giveTree
	}
	if err := giveIt(g); err != nil {
		return err
	}
	if g.reach == wholeTree || !g.needed() { // a temporary directory does not come back
		given.made[key] = true
	}
	return nil
}

// giveObject adds the entry to one object by its handle. The calls that go by name
// walk everything below, which for a way through to the workspace is the whole disk.
func (c *container) giveObject(g grant) error {
	path, err := windows.UTF16PtrFromString(g.path)
	if err != nil {
		return err
	}
	h, err := windows.CreateFile(path, windows.READ_CONTROL|windows.WRITE_DAC,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil,
		windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS, 0)
	if err != nil {
		// Where it is open already there is nothing to change, and often no right to.
		if sd, named := windows.GetNamedSecurityInfo(g.path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION); named == nil && c.has(sd, g) {
			return nil
		}
		return &os.PathError{Op: "open access list", Path: g.path, Err: err}
	}
	defer func() { _ = windows.CloseHandle(h) }()
	old, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return &os.PathError{Op: "read access list", Path: g.path, Err: err}
	}
	if c.has(old, g) {
		return nil
	}
	list, control, err := c.with(old, g)
	if err != nil {
		return &os.PathError{Op: "change access list", Path: g.path, Err: err}
	}
	sd, err := windows.NewSecurityDescriptor()
	if err == nil {
		err = sd.SetDACL(list, true, false)
	}
	if err == nil {
		// Without these a list that its parent's entries come into would look like
		// one that was written by hand.
		const kept = windows.SE_DACL_AUTO_INHERITED | windows.SE_DACL_PROTECTED
		set := control & kept
		if set&windows.SE_DACL_AUTO_INHERITED != 0 {
			set |= windows.SE_DACL_AUTO_INHERIT_REQ
		}
		err = sd.SetControl(kept|windows.SE_DACL_AUTO_INHERIT_REQ, set)
	}
	if err == nil {
		err = windows.SetKernelObjectSecurity(h, windows.DACL_SECURITY_INFORMATION, sd)
	}
	runtime.KeepAlive(list) // sd refers to it in a way that the collector does not see
	if err != nil {
		return &os.PathError{Op: "write access list", Path: g.path, Err: err}
	}
	return nil
}

// giveTree adds the entry to a directory and carries it down to what is there. It goes
// on past what is locked or not ours: the directory itself decides whether it worked.
func (c *container) giveTree(g grant) error {
	if err := treeSetSecurityInfo.Find(); err != nil { // a call would panic
		return err
	}
	old, err := windows.GetNamedSecurityInfo(g.path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return &os.PathError{Op: "read access list", Path: g.path, Err: err}
	}
	// A place to read that is open already, as those of the system are, is left alone.
	// One to write is carried down again: what was moved into it inherits nothing.
	if !g.needed() && c.has(old, g) {
		return nil
	}
	list, control, err := c.with(old, g)
	if err != nil {
		return &os.PathError{Op: "change access list", Path: g.path, Err: err}
	}
	path, err := windows.UTF16PtrFromString(g.path)
	if err != nil {
		return err
	}
	// A list that keeps its parent's entries out goes on doing so.
	what := uint32(windows.DACL_SECURITY_INFORMATION | windows.UNPROTECTED_DACL_SECURITY_INFORMATION)
	if control&windows.SE_DACL_PROTECTED != 0 {
		what = uint32(windows.DACL_SECURITY_INFORMATION | windows.PROTECTED_DACL_SECURITY_INFORMATION)
	}
	const treeSet, neverTell = 1, 1 // TREE_SEC_INFO_SET, ProgressInvokeNever
	code, _, _ := treeSetSecurityInfo.Call(uintptr(unsafe.Pointer(path)), windows.SE_FILE_OBJECT, uintptr(what),
		0, 0, uintptr(unsafe.Pointer(list)), 0, treeSet, 0, neverTell, 0)
	runtime.KeepAlive(list)
	now, err := windows.GetNamedSecurityInfo(g.path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err == nil && c.has(now, g) {
		return nil
	}
	if err == nil {
		err = errors.New("the entry did not stay")
		if code != 0 {
			err = windows.Errno(code)
		}
	}
	return &os.PathError{Op: "write access list", Path: g.path, Err: err}
}

// with is the access list of sd with the entry of g added, and the control bits of sd.
// What an existing entry gives stays.
func (c *container) with(sd *windows.SECURITY_DESCRIPTOR, g grant) (*windows.ACL, windows.SECURITY_DESCRIPTOR_CONTROL, error) {
	if sd == nil {
		return nil, 0, errNoList
	}
	old, _, err := sd.DACL()
	if err != nil {
		return nil, 0, err
	}
	if old == nil {
		return nil, 0, errNoList
	}
	control, _, err := sd.Control()
	if err != nil {
		return nil, 0, err
	}
	list, err := windows.ACLFromEntries([]windows.EXPLICIT_ACCESS{{
		AccessPermissions: windows.ACCESS_MASK(g.access.mask()),
		AccessMode:        windows.GRANT_ACCESS,
		Inheritance:       g.inheritance(),
		Trustee: windows.TRUSTEE{
			TrusteeForm:  windows.TRUSTEE_IS_SID,
			TrusteeType:  windows.TRUSTEE_IS_UNKNOWN,
			TrusteeValue: windows.TrusteeValueFromSID(c.sid),
		},
	}}, old)
	runtime.KeepAlive(c.sid) // the entry holds it as a number
	runtime.KeepAlive(sd)    // and old is a part of it
	return list, control, err
}

// has reports whether the access list of sd gives what g is to give: to this
// container, or, when g is for reading, to all of them.
func (c *container) has(sd *windows.SECURITY_DESCRIPTOR, g grant) bool {
	if sd == nil {
		return false
	}
	list, _, err := sd.DACL()
	if err != nil || list == nil {
		return false
	}
	who := []*windows.SID{c.sid}
	if g.access != fullAccess {
		if all, err := windows.CreateWellKnownSid(windows.WinBuiltinAnyPackageSid); err == nil {
			who = append(who, all)
		}
	}
	var entries []aceEntry
	for i := range uint32(list.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE // an entry that denies has the same form
		if windows.GetAce(list, i, &ace) != nil {
			return false
		}
		if ace.Header.AceType > windows.ACCESS_DENIED_ACE_TYPE {
			continue // conditions and audits, which give nothing that counts here
		}
		for _, sid := range who {
			if (*windows.SID)(unsafe.Pointer(&ace.SidStart)).Equals(sid) {
				entries = append(entries, aceEntry{
					denies: ace.Header.AceType == windows.ACCESS_DENIED_ACE_TYPE, flags: ace.Header.AceFlags, mask: uint32(ace.Mask),
				})
			}
		}
	}
	runtime.KeepAlive(sd) // list is a part of it
	return g.heldBy(entries)
}
