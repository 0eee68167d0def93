package sandbox

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// interpret runs a filter as the kernel does. It fails the test on anything the
// kernel would refuse to load.
func interpret(t *testing.T, prog []filterOp, arch uint32, nr int32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte
	binary.LittleEndian.PutUint32(data[0:], uint32(nr))
	binary.LittleEndian.PutUint32(data[4:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[16+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(prog); pc++ {
		op := prog[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(op.jt)
			} else {
				pc += int(op.jf)
			}
		}
		switch op.code {
		case bpfLoad:
			acc = binary.LittleEndian.Uint32(data[op.k:])
		case bpfAnd:
			acc &= op.k
		case bpfJeq:
			jump(acc == op.k)
		case bpfJge:
			jump(acc >= op.k)
		case bpfJset:
			jump(acc&op.k != 0)
		case bpfRet:
			return op.k
		default:
			t.Fatalf("instruction %d has the unknown code %#x", pc, op.code)
		}
	}
	t.Fatal("the program runs off its end")
	return 0
}

// testCalls has small numbers in place of the real ones, so that the program is
// tested on every machine.
var testCalls = callTable{
	arch: 7, x32: true, refused: []int32{100, 101}, unknown: []int32{102},
	clone: 1, clone3: 2, unshare: 3, mknod: 4, mknodat: 5, ptrace: 6, prlimit: 11, socket: 7, sendto: 8, sendmsg: 9, sendmmsg: 10,
}

func TestFilterAnswers(t *testing.T) {
	const allow = retAllow
	eperm, eacces, enosys := uint32(retErrno|errEPERM), uint32(retErrno|errEACCES), uint32(retErrno|errENOSYS)
	open, denied, tcp, nested := filterPlan{}, filterPlan{noInet: true}, filterPlan{tcpOnly: true}, filterPlan{nestedUsers: true}
	own := filterPlan{ownNet: true}
	const inet, inet6, unixFam, netlink, packet, vsock = 2, 10, 1, 16, 17, 40
	const stream, dgram, raw, cloexec = 1, 2, 3, 0o2000000
	for _, tc := range []struct {
		name string
		plan filterPlan
		arch uint32
		nr   int32
		args []uint64
		want uint32
	}{
		{"an ordinary call", open, 7, 50, nil, allow},
		{"a refused call", open, 7, 100, nil, eperm},
		{"the last refused call", open, 7, 101, nil, eperm},
		{"a call from a newer kernel", open, 7, 102, nil, enosys},
		{"another calling convention with the network open", open, 8, 7, nil, allow},
		{"another calling convention with it denied", denied, 8, 50, nil, enosys},
		{"another calling convention with a proxy", tcp, 8, 50, nil, enosys},
		{"x32", open, 7, 0x40000001, nil, enosys},
		{"x32 with the network denied", denied, 7, 0x40000007, nil, enosys},
		{"a thread", open, 7, 1, []uint64{0x3d0f00}, allow},
		{"a user namespace by clone", open, 7, 1, []uint64{0x10000011}, eperm},
		{"a user namespace by clone with high bits", open, 7, 1, []uint64{0xff10000011}, eperm},
		{"a user namespace by unshare", open, 7, 3, []uint64{0x10000000}, eperm},
		{"clone3", open, 7, 2, nil, enosys},
		{"nested: clone3", nested, 7, 2, nil, allow},
		{"nested: a user namespace", nested, 7, 3, []uint64{0x10000000}, allow},
		{"traced by the parent", open, 7, 6, []uint64{0}, allow},
		{"let go by the parent", open, 7, 6, []uint64{17}, allow},
		{"attach", open, 7, 6, []uint64{16}, eperm},
		{"seize", open, 7, 6, []uint64{0x4206}, eperm},
		{"its own limits", open, 7, 11, []uint64{0, 7}, allow},
		{"the limits of another process", open, 7, 11, []uint64{4242, 7}, eperm},
		{"a pipe by mknod", open, 7, 4, []uint64{0, 0o010644}, allow},
		{"a character device", open, 7, 4, []uint64{0, 0o020644}, eperm},
		{"a block device", open, 7, 4, []uint64{0, 0o060644}, eperm},
		{"a device by mknodat", open, 7, 5, []uint64{0, 0, 0o020644}, eperm},
		{"a file by mknodat", open, 7, 5, []uint64{0, 0, 0o100644}, allow},
		{"open: a datagram socket", open, 7, 7, []uint64{inet, dgram, 0}, allow},
		{"denied: a unix socket", denied, 7, 7, []uint64{unixFam, stream, 0}, allow},
		{"denied: netlink", denied, 7, 7, []uint64{netlink, raw, 0}, allow},
		{"denied: tcp", denied, 7, 7, []uint64{inet, stream, 0}, eacces},
		{"denied: udp6", denied, 7, 7, []uint64{inet6, dgram, 0}, eacces},
		{"denied: packet", denied, 7, 7, []uint64{packet, raw, 0}, eacces},
		{"proxied: tcp", tcp, 7, 7, []uint64{inet, stream | cloexec, 0}, allow},
		{"proxied: tcp by name", tcp, 7, 7, []uint64{inet6, stream, 6}, allow},
		{"proxied: mptcp", tcp, 7, 7, []uint64{inet, stream, 262}, eacces},
		{"proxied: sctp", tcp, 7, 7, []uint64{inet, stream, 132}, eacces},
		{"proxied: udp", tcp, 7, 7, []uint64{inet, dgram, 0}, eacces},
		{"proxied: raw", tcp, 7, 7, []uint64{inet, raw, 6}, eacces},
		{"proxied: vsock", tcp, 7, 7, []uint64{vsock, stream, 0}, eacces},
		{"proxied: data with the opening packet", tcp, 7, 8, []uint64{0, 0, 0, 0x20000000}, eacces},
		{"proxied: the same by sendmsg", tcp, 7, 9, []uint64{0, 0, 0x20000040}, eacces},
		{"proxied: the same by sendmmsg", tcp, 7, 10, []uint64{0, 0, 0, 0x20000000}, eacces},
		{"own network: udp", own, 7, 7, []uint64{inet, dgram, 0}, allow},
		{"own network: tcp6", own, 7, 7, []uint64{inet6, stream, 0}, allow},
		{"own network: unix", own, 7, 7, []uint64{unixFam, dgram, 0}, allow},
		{"own network: vsock, which is the host's", own, 7, 7, []uint64{vsock, stream, 0}, eacces},
		{"own network: packet", own, 7, 7, []uint64{packet, raw, 0}, eacces},
		{"own network: another calling convention", own, 8, 50, nil, enosys},
		{"own network: data with the opening packet", own, 7, 8, []uint64{0, 0, 0, 0x20000000}, allow},
		{"denied: data with the opening packet has no socket to go", denied, 7, 8, []uint64{0, 0, 0, 0x20000000}, allow},
		{"required: a unix socket", filterPlan{noInet: true, noUnix: true}, 7, 7, []uint64{unixFam, stream, 0}, eacces},
		{"required: netlink", filterPlan{noInet: true, noUnix: true}, 7, 7, []uint64{netlink, raw, 0}, allow},
		{"required with a proxy: tcp", filterPlan{tcpOnly: true, noUnix: true}, 7, 7, []uint64{inet, stream, 0}, allow},
		{"required with a network of its own: a unix socket", filterPlan{ownNet: true, noUnix: true}, 7, 7, []uint64{unixFam, stream, 0}, eacces},
		{"proxied: plain data", tcp, 7, 8, []uint64{0, 0, 0, 0x4000}, allow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := interpret(t, buildFilter(testCalls, tc.plan), tc.arch, tc.nr, tc.args...); got != tc.want {
				t.Errorf("got %#x, want %#x", got, tc.want)
			}
		})
	}
}

func TestFiltersFitTheKernel(t *testing.T) {
	for _, p := range []filterPlan{{}, {noInet: true}, {tcpOnly: true}, {ownNet: true}, {nestedUsers: true}} {
		prog := buildFilter(testCalls, p)
		if len(prog) > 4096 {
			t.Errorf("%+v: %d instructions, the kernel takes 4096", p, len(prog))
		}
		for pc, op := range prog {
			if op.code == bpfJeq || op.code == bpfJge || op.code == bpfJset {
				if far := pc + 1 + int(max(op.jt, op.jf)); far >= len(prog) {
					t.Errorf("%+v: instruction %d jumps to %d of %d", p, pc, far, len(prog))
				}
			}
		}
		if last := prog[len(prog)-1]; last.code != bpfRet {
			t.Errorf("%s: does not end with an answer", fmt.Sprint(p))
		}
	}
}

// However many calls are refused, each number gets the answer of its own block,
// and the first of two where a number has more than one.
func TestEveryNumberHasItsOwnAnswer(t *testing.T) {
	for _, n := range []int{0, 1, 3, 4, 5, 40, 200, 1000} {
		table := testCalls
		table.refused, table.unknown = nil, []int32{102}
		want := map[int32]uint32{2: retErrno | errENOSYS, 102: retErrno | errENOSYS}
		for i := range n {
			nr := int32(20 + 7*((i*31)%n)) // not in order
			table.refused = append(table.refused, nr)
			table.unknown = append(table.unknown, nr)
			want[nr] = retErrno | errEPERM
		}
		want[6] = retErrno | errEPERM  // with an argument that it is refused for
		want[11] = retErrno | errEPERM // likewise
		prog := buildFilter(table, filterPlan{})
		for nr := range int32(20 + 7*n + 20) {
			answer, ok := want[nr]
			if !ok {
				answer = retAllow
			}
			if got := interpret(t, prog, 7, nr, 5); got != answer {
				t.Errorf("%d refused calls, number %d: got %#x, want %#x", n, nr, got, answer)
			}
		}
	}
}
