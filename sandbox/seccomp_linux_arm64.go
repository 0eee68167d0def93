package sandbox

import "golang.org/x/sys/unix"

var hostCalls = callTable{
	arch:     unix.AUDIT_ARCH_AARCH64,
	refused:  append([]int32{unix.SYS_KEXEC_FILE_LOAD}, commonRefused...),
	unknown:  commonUnknown,
	clone:    unix.SYS_CLONE,
	clone3:   unix.SYS_CLONE3,
	unshare:  unix.SYS_UNSHARE,
	mknod:    -1,
	mknodat:  unix.SYS_MKNODAT,
	ptrace:   unix.SYS_PTRACE,
	prlimit:  unix.SYS_PRLIMIT64,
	socket:   unix.SYS_SOCKET,
	sendto:   unix.SYS_SENDTO,
	sendmsg:  unix.SYS_SENDMSG,
	sendmmsg: unix.SYS_SENDMMSG,
}
