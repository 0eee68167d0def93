package shim

import "errors"

// Env is the variable that carries the token. It is the whole environment of
// the shim, and no command ever sees it.
const Env = "HARNESS_SHIM"

// Arg0 is the argv[0] of the shim.
const Arg0 = "harness-sandbox"

// The descriptors of the shim. The first three are the null device, so that
// nothing a host program prints while it initialises reaches the command's
// streams.
const (
	FDSocket  = 3
	FDStdin   = 4
	FDStdout  = 5
	FDStderr  = 6
	FDRuleset = 7 // a Landlock ruleset, where there is one
)

// The first byte of each message from the shim.
const (
	MsgStarted = 'S' // the command runs; carries a listener where one was asked for
	MsgFailed  = 'F' // the command could not be started: an errno as four bytes
	MsgBroken  = 'B' // the boundary could not be built: an errno and what was being done
	MsgEnded   = 'X' // the command ended: wait status, processor time in µs, leftovers
)

// Order is all that the shim needs to know.
type Order struct {
	Token string

	Writable []string // directories that stay writable; parents before children
	Temp     string   // one of them, in which the masks are prepared where it can be
	Mask     []string // paths that must not be read
	Protect  []string // paths inside the writable ones that stay read-only
	Shm      bool     // a writable /dev/shm of its own
	AsRoot   bool     // there is no user namespace: the command keeps what KeptByRoot says
	OwnNet   bool     // the network namespace is new: bring its loopback up
	Listen   uint16   // listen there on this port and send the socket; 0: do not

	Ruleset      bool // FDRuleset is open
	RulesetFlags uint32
	ShmRights    uint64 // Landlock rights on the new /dev/shm, which the ruleset cannot name yet
	Filter       []byte // seccomp program in the kernel's format; empty: none

	CPUSeconds uint64 // 0: no limit
	OpenFiles  uint64

	Path, Dir string
	Argv, Env []string

	// Probe asks for no command: the file of this name must be refused.
	Probe string
}

var errShort = errors.New("order is cut short")

// Encode writes o as a sequence of length-prefixed fields.
func (o *Order) Encode() []byte {
	var e encoder
	e.text(o.Token)
	e.list(o.Writable)
	e.text(o.Temp)
	e.list(o.Mask)
	e.list(o.Protect)
	e.flag(o.Shm)
	e.flag(o.AsRoot)
	e.flag(o.OwnNet)
	e.number(uint64(o.Listen))
	e.flag(o.Ruleset)
	e.number(uint64(o.RulesetFlags))
	e.number(o.ShmRights)
	e.text(string(o.Filter))
	e.number(o.CPUSeconds)
	e.number(o.OpenFiles)
	e.text(o.Path)
	e.text(o.Dir)
	e.list(o.Argv)
	e.list(o.Env)
	e.text(o.Probe)
	return e.b
}

// Decode reads what Encode wrote.
func Decode(b []byte) (*Order, error) {
	d := decoder{b: b}
	o := &Order{
		Token:    d.text(),
		Writable: d.list(),
		Temp:     d.text(),
		Mask:     d.list(),
		Protect:  d.list(),
		Shm:      d.flag(),
		AsRoot:   d.flag(),
		OwnNet:   d.flag(),
		Listen:   uint16(d.number()),
	}
	o.Ruleset = d.flag()
	o.RulesetFlags = uint32(d.number())
	o.ShmRights = d.number()
	o.Filter = []byte(d.text())
	o.CPUSeconds = d.number()
	o.OpenFiles = d.number()
	o.Path = d.text()
	o.Dir = d.text()
	o.Argv = d.list()
	o.Env = d.list()
	o.Probe = d.text()
	if d.bad || len(d.b) != 0 {
		return nil, errShort
	}
	return o, nil
}

type encoder struct{ b []byte }

func (e *encoder) number(n uint64) {
	for shift := 56; shift >= 0; shift -= 8 {
		e.b = append(e.b, byte(n>>shift))
	}
}

func (e *encoder) flag(f bool) {
	if f {
		e.b = append(e.b, 1)
		return
	}
	e.b = append(e.b, 0)
}

func (e *encoder) text(s string) {
	e.number(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) list(l []string) {
	e.number(uint64(len(l)))
	for _, s := range l {
		e.text(s)
	}
}

type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) number() uint64 {
	var n uint64
	for _, x := range d.take(8) {
		n = n<<8 | uint64(x)
	}
	return n
}

func (d *decoder) flag() bool {
	b := d.take(1)
	return len(b) == 1 && b[0] == 1
}

func (d *decoder) text() string { return string(d.take(d.number())) }

func (d *decoder) list() []string {
	n := d.number()
	if n > uint64(len(d.b)) { // each element takes some bytes
		d.bad = true
		return nil
	}
	var out []string
	for range n {
		out = append(out, d.text())
	}
	return out
}
