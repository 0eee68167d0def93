package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// dialFixture tries one way out and prints "out" when it got there.
func dialFixture(args []string) int {
	how, port := args[0], 0
	if len(args) > 1 {
		port, _ = strconv.Atoi(args[1])
	}
	to := &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	if err := ways[how](to, args); err != nil {
		fmt.Println(how, err)
		return 1
	}
	fmt.Println("out")
	return 0
}

var ways = map[string]func(to *unix.SockaddrInet4, args []string) error{
	"tcp": func(to *unix.SockaddrInet4, _ []string) error { return connectWith(unix.SOCK_STREAM, 0, to) },
	"mptcp": func(to *unix.SockaddrInet4, _ []string) error {
		return connectWith(unix.SOCK_STREAM, unix.IPPROTO_MPTCP, to)
	},
	"sctp": func(to *unix.SockaddrInet4, _ []string) error {
		return connectWith(unix.SOCK_STREAM, unix.IPPROTO_SCTP, to)
	},
	"raw": func(to *unix.SockaddrInet4, _ []string) error {
		return connectWith(unix.SOCK_RAW, unix.IPPROTO_ICMP, to)
	},
	"ping": func(to *unix.SockaddrInet4, _ []string) error {
		return connectWith(unix.SOCK_DGRAM, unix.IPPROTO_ICMP, to)
	},
	"udp": func(to *unix.SockaddrInet4, _ []string) error { return sendWith(unix.SOCK_DGRAM, 0, to) },
	"fast": func(to *unix.SockaddrInet4, _ []string) error {
		return sendWith(unix.SOCK_STREAM, unix.MSG_FASTOPEN, to)
	},
	"packet": func(to *unix.SockaddrInet4, _ []string) error {
		_, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		return err
	},
	"vsock": func(to *unix.SockaddrInet4, _ []string) error {
		_, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)
		return err
	},
	"ring": func(*unix.SockaddrInet4, []string) error {
		_, _, e := unix.RawSyscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		if e == unix.EFAULT || e == unix.EINVAL {
			return nil // the kernel looked at it: the call is there
		}
		return e
	},
	"bind": func(*unix.SockaddrInet4, []string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	},
	"listen": func(*unix.SockaddrInet4, []string) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		return unix.Listen(fd, 1) // binds by itself when nobody has
	},
	"abstract": func(_ *unix.SockaddrInet4, args []string) error {
		return connectUnix("@" + args[2])
	},
	"unix": func(_ *unix.SockaddrInet4, args []string) error { return connectUnix(args[2]) },
	"own-unix": func(*unix.SockaddrInet4, []string) error {
		l, err := net.Listen("unix", "own.sock")
		if err != nil {
			return err
		}
		defer l.Close()
		return connectUnix("own.sock")
	},
}

func connectUnix(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return unix.Connect(fd, &unix.SockaddrUnix{Name: name})
}

func connectWith(kind, proto int, to *unix.SockaddrInet4) error {
	fd, err := unix.Socket(unix.AF_INET, kind, proto)
	if err != nil {
		return err
	}
	return unix.Connect(fd, to)
}

func sendWith(kind, flags int, to *unix.SockaddrInet4) error {
	fd, err := unix.Socket(unix.AF_INET, kind, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("x"), flags, to)
}

// listener accepts and drops connections on the loopback address.
func listener(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l
}

func portOf(t *testing.T, l net.Listener) uint16 {
	t.Helper()
	ap, err := netip.ParseAddrPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return ap.Port()
}

// self is this test binary at a path that a contained command can execute.
func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func TestEgress(t *testing.T) {
	target := portOf(t, listener(t, "tcp4", "127.0.0.1:0"))
	proxy := portOf(t, listener(t, "tcp4", "127.0.0.1:0"))
	name := fmt.Sprintf("harness-test-%d", os.Getpid())
	listener(t, "unix", "@"+name)
	h, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	proxied := Egress{Proxy: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), proxy)}
	everything := []string{"tcp", "mptcp", "sctp", "raw", "ping", "udp", "fast", "packet", "vsock", "ring", "abstract"}
	for _, tc := range []struct {
		name   string
		egress Egress
		how    []string
		port   uint16
		out    bool
	}{
		{"denied", Egress{}, append([]string{"bind", "listen"}, everything...), target, false},
		{"proxied, past the proxy", proxied, append([]string{"bind"}, everything...), target, false},
		{"proxied, other protocols to the proxy's port", proxied, []string{"mptcp", "sctp", "udp", "raw", "fast"}, proxy, false},
		{"proxied, to the proxy", proxied, []string{"tcp"}, proxy, true},
		{"open", Egress{Open: true}, []string{"tcp", "udp", "abstract"}, target, true},
		{"denied, a socket of its own", Egress{}, []string{"own-unix"}, 0, true},
	} {
		for _, rung := range rungs(t, Profile{Egress: tc.egress}) {
			for _, how := range tc.how {
				try := func(name string, f func(t *testing.T)) {
					if tc.out {
						t.Run(string(rung)+"/"+name, f)
						return
					}
					attempt(t, rung, name, f)
				}
				try(tc.name+"/"+how, func(t *testing.T) {
					own := rung == RungNamespaces || rung == RungBubblewrap && tc.egress.denied()
					if own && !tc.out && (slices.Contains([]string{"bind", "listen", "udp"}, how) || tc.port == proxy) {
						t.Skip("the loopback is the command's own, and nobody but the proxy is on it")
					}
					if advice := rung == RungBubblewrap && tc.egress.proxied(); advice && slices.Contains([]string{"bind", "tcp", "abstract"}, how) && !tc.out {
						t.Skip("with a proxy this rung has only advice to give")
					}
					if how == "abstract" && rung == RungLandlock && h.LandlockABI < 6 {
						t.Skipf("Landlock %d does not know abstract sockets", h.LandlockABI)
					}
					r, err := Run(t.Context(), Cmd{Argv: []string{self(t), "dial", how, fmt.Sprint(tc.port), name}},
						forced(Profile{Workspace: realTempDir(t), Egress: tc.egress}, rung))
					if err != nil {
						t.Fatal(err)
					}
					if got := r.Stdout.String() == "out\n"; got != tc.out {
						t.Errorf("got out: %v, want %v: %s", got, tc.out, r.Text(0))
					}
				})
			}
		}
	}
}

// The ways that are refused above exist on this host.
func TestTheWaysOutWorkWithoutABoundary(t *testing.T) {
	target := portOf(t, listener(t, "tcp4", "127.0.0.1:0"))
	name := fmt.Sprintf("harness-test-open-%d", os.Getpid())
	listener(t, "unix", "@"+name)
	for how := range ways {
		if how == "unix" {
			continue // has a test of its own
		}
		t.Run(how, func(t *testing.T) {
			r, err := Run(t.Context(), Cmd{Argv: []string{self(t), "dial", how, fmt.Sprint(target), name}}, Profile{Workspace: t.TempDir(), Mode: FullAccess})
			if err != nil {
				t.Fatal(err)
			}
			if r.Stdout.String() != "out\n" {
				t.Skipf("not to be had on this host: %s", r.Text(0))
			}
		})
	}
}

func TestSocketsOfOtherProgramsAreReportedOrRefused(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // the address of a socket has room for 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	sock := filepath.Join(dir, "engine.sock")
	listener(t, "unix", sock)
	for _, rung := range rungs(t, Profile{}) {
		t.Run(string(rung), func(t *testing.T) {
			p := forced(Profile{Workspace: realTempDir(t)}, rung)
			r, err := Run(t.Context(), Cmd{Argv: []string{self(t), "dial", "unix", "0", sock}}, p)
			if err != nil {
				t.Fatal(err)
			}
			reached := r.Stdout.String() == "out\n"
			if reached && !r.Applied.LocalSockets {
				t.Error("reached a socket outside the workspace, and the report says that it cannot")
			}
			if reached != strings.Contains(r.Applied.String(), "unix sockets of other programs can be reached") {
				t.Errorf("reached: %v, told: %s", reached, r.Applied)
			}
			p.Require.Egress = true
			r, err = Run(t.Context(), Cmd{Argv: []string{self(t), "dial", "unix", "0", sock}}, p)
			if errors.Is(err, ErrRequired) {
				return // refused: nothing was started
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Stdout.String() == "out\n" || r.Applied.LocalSockets {
				t.Errorf("with the boundary required: %s; %s", r.Text(0), r.Applied)
			}
			// Pairs, which reach nobody else, stay.
			if _, err := exec.LookPath("python3"); err == nil {
				r, err := Run(t.Context(), Cmd{Argv: []string{"python3", "-c", "import socket; a, b = socket.socketpair(); a.send(b'x'); print(b.recv(1))"}}, p)
				if err != nil || !r.Success() {
					t.Errorf("a pair of sockets: %+v, %v", r, err)
				}
			}
		})
	}
}

// On a network of its own a project's servers work and nobody outside sees them.
func TestAPrivateLoopbackServesTheCommandOnly(t *testing.T) {
	for _, e := range []Egress{{}, {Proxy: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), portOf(t, listener(t, "tcp4", "127.0.0.1:0")))}} {
		for _, rung := range rungs(t, Profile{Egress: e}) {
			if rung != RungNamespaces {
				continue
			}
			r, err := Run(t.Context(), Cmd{Argv: []string{self(t), "serve-and-dial"}}, forced(Profile{Workspace: realTempDir(t), Egress: e}, rung))
			if err != nil {
				t.Fatal(err)
			}
			if r.Stdout.String() != "out\n" {
				t.Errorf("%+v: a server of the command's own cannot be reached: %s", e, r.Text(0))
			}
			return
		}
	}
	t.Skip("no rung on this host has a network of its own")
}

func serveAndDialFixture([]string) int {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	_ = c.Close()
	fmt.Println("out")
	return 0
}
