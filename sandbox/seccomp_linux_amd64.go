package sandbox

import "golang.org/x/sys/unix"

var hostCalls = callTable{
	arch: unix.AUDIT_ARCH_X86_64,
	x32:  true,
	refused: append([]int32{
		unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_USELIB, unix.SYS_CREATE_MODULE,
	}, commonRefused...),
	unknown:  commonUnknown,
	clone:    unix.SYS_CLONE,
	clone3:   unix.SYS_CLONE3,
	unshare:  unix.SYS_UNSHARE,
	mknod:    unix.SYS_MKNOD,
	mknodat:  unix.SYS_MKNODAT,
	ptrace:   unix.SYS_PTRACE,
	prlimit:  unix.SYS_PRLIMIT64,
	socket:   unix.SYS_SOCKET,
	sendto:   unix.SYS_SENDTO,
	sendmsg:  unix.SYS_SENDMSG,
	sendmmsg: unix.SYS_SENDMMSG,
}
