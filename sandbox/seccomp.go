package sandbox

import (
	"cmp"
	"slices"
)

// A classic BPF program for seccomp, built here because the conditions need
// masks on arguments. The builder is pure; the numbers of the system calls come
// from the tables per architecture.

// filterOp is one BPF instruction.
type filterOp struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

const (
	bpfLoad = 0x20 // A = word at k of the call's data
	bpfJeq  = 0x15 // A == k
	bpfJge  = 0x35 // A >= k
	bpfJset = 0x45 // A & k != 0
	bpfAnd  = 0x54 // A &= k
	bpfRet  = 0x06

	offNr   = 0
	offArch = 4
	offArgs = 16 // eight bytes each; the low half first on the machines below

	retAllow = 0x7fff0000
	retErrno = 0x00050000

	errEPERM  = 1
	errEACCES = 13
	errENOSYS = 38
)

// callTable is what one architecture calls things. A number of -1 is a call
// that the architecture does not have.
type callTable struct {
	arch uint32 // AUDIT_ARCH_…
	x32  bool   // numbers from 0x40000000 on are another calling convention

	refused  []int32 // always EPERM
	unknown  []int32 // always ENOSYS, so that programs take their older path
	clone    int32
	clone3   int32
	unshare  int32
	mknod    int32
	mknodat  int32
	ptrace   int32
	prlimit  int32
	socket   int32
	sendto   int32
	sendmsg  int32
	sendmmsg int32
}

// filterPlan is what a filter must do beside the calls that are always refused.
type filterPlan struct {
	noInet      bool // no IPv4 and no IPv6 socket of any kind
	tcpOnly     bool // of those, plain TCP only
	ownNet      bool // the network is the command's own: any internet socket, and no other family
	noUnix      bool // no unix socket that can be given a name; pairs stay
	nestedUsers bool // user namespaces stay possible
}

const (
	cloneNewUser = 0x10000000
	sockTypeMask = 0xf
	sockStream   = 1
	protoTCP     = 6
	afUnix       = 1
	afInet       = 2
	afInet6      = 10
	afNetlink    = 16
	msgFastopen  = 0x20000000
	modeDevice   = 0x2000 // set in the type bits of both kinds of device node

	ptraceTraceme = 0
	ptraceDetach  = 17
)

// buildFilter writes the program: what holds for every call, and then a search
// for the block of the call's number. Searching and not trying one number after
// the other matters at the start of a command already, where the kernel runs the
// program once for every call it has.
func buildFilter(t callTable, p filterPlan) []filterOp {
	var f filter
	f.load(offArch)
	if p.noInet || p.tcpOnly || p.ownNet {
		// Another calling convention has other numbers, and would walk past the
		// network boundary.
		f.add(bpfJeq, 1, 0, t.arch)
		f.errno(errENOSYS)
	} else {
		f.add(bpfJeq, 1, 0, t.arch)
		f.add(bpfRet, 0, 0, retAllow)
	}
	f.load(offNr)
	if t.x32 {
		f.add(bpfJge, 0, 1, 0x40000000)
		f.errno(errENOSYS)
	}
	for _, nr := range t.refused {
		f.always(nr, errEPERM)
	}
	for _, nr := range t.unknown {
		f.always(nr, errENOSYS)
	}
	f.when(t.ptrace, 0, func(b *filter) {
		// The start of a child with limits makes it stop before its first
		// instruction, with these two.
		b.add(bpfJeq, 2, 0, ptraceTraceme)
		b.add(bpfJeq, 1, 0, ptraceDetach)
		b.errno(errEPERM)
		b.add(bpfRet, 0, 0, retAllow)
	})
	f.when(t.prlimit, 0, func(b *filter) {
		// The limits of another process of the same user, the host's for one, can
		// be set by its id; a processor limit of nothing kills it.
		b.add(bpfJeq, 1, 0, 0)
		b.errno(errEPERM)
		b.add(bpfRet, 0, 0, retAllow)
	})
	if !p.nestedUsers {
		f.always(t.clone3, errENOSYS) // its flags are in memory, out of reach of a filter
		for _, nr := range []int32{t.clone, t.unshare} {
			f.when(nr, 0, func(b *filter) {
				b.add(bpfJset, 0, 1, cloneNewUser)
				b.errno(errEPERM)
				b.add(bpfRet, 0, 0, retAllow)
			})
		}
	}
	f.when(t.mknod, 1, deviceNode)
	f.when(t.mknodat, 2, deviceNode)
	if p.noInet || p.tcpOnly || p.ownNet {
		f.sockets(t, p)
	}
	// Of two blocks for one number the first counts.
	byNumber := func(a, b callBlock) int { return cmp.Compare(a.nr, b.nr) }
	slices.SortStableFunc(f.blocks, byNumber)
	f.blocks = slices.CompactFunc(f.blocks, func(a, b callBlock) bool { return a.nr == b.nr })
	return append(f.ops, search(f.blocks)...)
}

// callBlock is what is done for one call. It returns on every path.
type callBlock struct {
	nr  uint32
	ops []filterOp
}

const (
	fewBlocks = 3   // are tried one after the other
	farthest  = 255 // instructions a jump can pass over
)

// search goes to the block of the call whose number is loaded, and allows a call
// that has none. The blocks are in the order of their numbers.
func search(blocks []callBlock) []filterOp {
	if len(blocks) > fewBlocks {
		mid := len(blocks) / 2
		if low := search(blocks[:mid]); len(low) <= farthest {
			ops := append([]filterOp{{bpfJge, uint8(len(low)), 0, blocks[mid].nr}}, low...)
			return append(ops, search(blocks[mid:])...)
		}
	}
	var ops []filterOp
	for _, b := range blocks {
		ops = append(ops, filterOp{bpfJeq, 0, uint8(len(b.ops)), b.nr})
		ops = append(ops, b.ops...)
	}
	return append(ops, filterOp{code: bpfRet, k: retAllow})
}

func deviceNode(b *filter) {
	b.add(bpfJset, 0, 1, modeDevice)
	b.errno(errEPERM)
	b.add(bpfRet, 0, 0, retAllow)
}

// sockets limits what can be opened, and with TCP the one call that connects
// without asking Landlock: data sent with the opening packet.
func (f *filter) sockets(t callTable, p filterPlan) {
	f.when(t.socket, 0, func(b *filter) {
		b.add(bpfJeq, 0, 1, afUnix)
		if p.noUnix {
			b.errno(errEACCES)
		} else {
			b.add(bpfRet, 0, 0, retAllow)
		}
		b.add(bpfJeq, 0, 1, afNetlink)
		b.add(bpfRet, 0, 0, retAllow)
		if p.noInet {
			b.errno(errEACCES)
			return
		}
		b.add(bpfJeq, 2, 0, afInet)
		b.add(bpfJeq, 1, 0, afInet6)
		b.errno(errEACCES)
		if p.ownNet {
			b.add(bpfRet, 0, 0, retAllow)
			return
		}
		b.arg(1)
		b.add(bpfAnd, 0, 0, sockTypeMask)
		b.add(bpfJeq, 1, 0, sockStream)
		b.errno(errEACCES)
		b.arg(2)
		b.add(bpfJeq, 2, 0, 0)
		b.add(bpfJeq, 1, 0, protoTCP)
		b.errno(errEACCES)
		b.add(bpfRet, 0, 0, retAllow)
	})
	if !p.tcpOnly {
		return
	}
	for _, c := range []struct {
		nr  int32
		arg int
	}{{t.sendto, 3}, {t.sendmsg, 2}, {t.sendmmsg, 3}} {
		f.when(c.nr, c.arg, func(b *filter) {
			b.add(bpfJset, 0, 1, msgFastopen)
			b.errno(errEACCES)
			b.add(bpfRet, 0, 0, retAllow)
		})
	}
}

// filter is a program in the making.
type filter struct {
	ops    []filterOp
	blocks []callBlock
}

func (f *filter) add(code uint16, jt, jf uint8, k uint32) {
	f.ops = append(f.ops, filterOp{code, jt, jf, k})
}

func (f *filter) load(off uint32) { f.add(bpfLoad, 0, 0, off) }

// arg loads the low half of argument i. The high half is not looked at: the
// kernel itself reads these arguments as 32 bits.
func (f *filter) arg(i int) { f.load(offArgs + 8*uint32(i)) }

func (f *filter) errno(n uint32) { f.add(bpfRet, 0, 0, retErrno|n) }

func (f *filter) always(nr int32, errno uint32) {
	if nr < 0 {
		return
	}
	f.blocks = append(f.blocks, callBlock{uint32(nr), []filterOp{{code: bpfRet, k: retErrno | errno}}})
}

// when runs block for call nr with argument arg loaded. The block must return
// on every path.
func (f *filter) when(nr int32, arg int, block func(b *filter)) {
	if nr < 0 {
		return
	}
	var b filter
	b.arg(arg)
	block(&b)
	f.blocks = append(f.blocks, callBlock{uint32(nr), b.ops})
}
