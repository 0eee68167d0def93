package sandbox

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

var allRungs = []Rung{RungSeatbelt, RungLandlock, RungBubblewrap, RungNamespaces, RungAppContainer, RungJobObject, RungFloor, RungNone}

func TestEveryRungSaysWhatItCanDo(t *testing.T) {
	if len(rungTraits) != len(allRungs) {
		t.Fatalf("%d rungs have traits, %d exist", len(rungTraits), len(allRungs))
	}
	unreachable := 0
	for _, r := range allRungs {
		if _, ok := rungTraits[r]; !ok {
			t.Errorf("%s has no traits", r)
		}
		if !r.ReachesProxy() {
			unreachable++
		}
		if r.ConfinesWrites() != r.DeniesEgress() {
			t.Errorf("%s confines only one of files and network", r)
		}
	}
	if unreachable != 1 {
		t.Errorf("%d rungs cannot reach a proxy, want exactly one", unreachable)
	}
	if Rung("made-up").ConfinesWrites() {
		t.Error("an unknown rung claims to confine writes")
	}
}

func TestModeOrder(t *testing.T) {
	modes := []Mode{ReadOnly, WorkspaceWrite, FullAccess}
	for i, a := range modes {
		for j, b := range modes {
			if got, want := a.Narrower(b), modes[min(i, j)]; got != want || b.Narrower(a) != want {
				t.Errorf("Narrower(%s, %s) = %s, want %s both ways", a, b, got, want)
			}
			if got := a.SatisfiedBy(b); got != (i <= j) {
				t.Errorf("%s.SatisfiedBy(%s) = %v", a, b, got)
			}
		}
	}
	if Mode("").Narrower(FullAccess) != WorkspaceWrite || Mode("").Contained() != true || FullAccess.Contained() {
		t.Error("the zero mode is not workspace-write")
	}
	if Mode("full").Valid() || Mode("full").Narrower(ReadOnly) == FullAccess {
		t.Error("an unknown mode widens")
	}
}

func linuxHost(abi int, seccomp, bwrap, ns bool) Host {
	f := func(ok bool) Feature {
		if ok {
			return Feature{Works: true}
		}
		return Feature{Why: "absent"}
	}
	return Host{OS: "linux", Landlock: f(abi > 0), LandlockABI: abi, Seccomp: f(seccomp), Bubblewrap: f(bwrap), Namespaces: f(ns)}
}

// The whole table of what a Linux host may offer against what a command may
// ask for.
func TestLinuxLadder(t *testing.T) {
	proxy := netip.MustParseAddrPort("127.0.0.1:3128")
	egress := map[string]Egress{"open": {Open: true}, "denied": {}, "proxied": {Proxy: proxy}}
	bools := []bool{false, true}
	for abi := range newestABI + 2 {
		for _, seccomp := range bools {
			for _, bwrap := range bools {
				for _, ns := range bools {
					for name, e := range egress {
						t.Run(fmt.Sprintf("abi %d seccomp %v bwrap %v ns %v %s", abi, seccomp, bwrap, ns, name), func(t *testing.T) {
							got := candidates(linuxHost(abi, seccomp, bwrap, ns), Profile{Egress: e})
							want := RungFloor
							switch {
							case abi >= 4 && seccomp, abi >= 1 && name == "open":
								want = RungLandlock
							case ns && name == "proxied":
								want = RungNamespaces
							case bwrap:
								want = RungBubblewrap
							case ns:
								want = RungNamespaces
							}
							if got[0].rung != want {
								t.Errorf("got %s (%v), want %s", got[0].rung, got[0].why, want)
							}
							if last := got[len(got)-1].rung; last != RungFloor {
								t.Errorf("the ladder ends on %s", last)
							}
							for _, c := range got {
								if !slices.Contains([]Rung{RungLandlock, RungBubblewrap, RungNamespaces, RungFloor}, c.rung) {
									t.Errorf("%s is no rung of Linux", c.rung)
								}
							}
							order := []Rung{RungLandlock, RungBubblewrap, RungNamespaces}
							if ns && name == "proxied" {
								order = []Rung{RungLandlock, RungNamespaces, RungBubblewrap}
							}
							for i, r := range order {
								if got[0].rung == r {
									break
								}
								if i >= len(got[0].why) || !strings.HasPrefix(got[0].why[i], string(r)+": ") {
									t.Errorf("why %q does not say why not %s", got[0].why, r)
								}
							}
						})
					}
				}
			}
		}
	}
}

func TestOtherLadders(t *testing.T) {
	yes := Feature{Works: true}
	for _, tc := range []struct {
		name string
		host Host
		prof Profile
		want []Rung
	}{
		{"full access is no rung", linuxHost(7, true, true, true), Profile{Mode: FullAccess}, []Rung{RungNone}},
		{"the floor by request", linuxHost(7, true, true, true), Profile{ForceFloor: true}, []Rung{RungFloor}},
		{"denied reads go to the rung that hides them by mounts", linuxHost(7, true, true, true), Profile{Reads: Reads{Deny: []string{"/x"}}}, []Rung{RungNamespaces, RungLandlock, RungBubblewrap, RungFloor}},
		{"or else to bubblewrap", linuxHost(7, true, true, false), Profile{Reads: Reads{Deny: []string{"/x"}}}, []Rung{RungBubblewrap, RungLandlock, RungFloor}},
		{"but not when that would open the network", linuxHost(7, true, true, false), Profile{Reads: Reads{Deny: []string{"/x"}}, Egress: Egress{Proxy: addr("127.0.0.1:1")}}, []Rung{RungLandlock, RungBubblewrap, RungFloor}},
		{"and to Landlock where there is none", linuxHost(7, true, false, false), Profile{Reads: Reads{Deny: []string{"/x"}}}, []Rung{RungLandlock, RungFloor}},
		{"denied reads with the helper turned off", linuxHost(7, true, false, true), Profile{Shim: ShimOff, Reads: Reads{Deny: []string{"/x"}}}, []Rung{RungLandlock, RungFloor}},
		{"the helper required", linuxHost(7, true, true, true), Profile{Shim: ShimRequired}, []Rung{RungNamespaces, RungLandlock, RungBubblewrap, RungFloor}},
		{"the helper turned off", linuxHost(0, true, false, true), Profile{Shim: ShimOff}, []Rung{RungFloor}},
		{"macOS", Host{OS: "darwin", Seatbelt: yes}, Profile{}, []Rung{RungSeatbelt, RungFloor}},
		{"macOS without", Host{OS: "darwin"}, Profile{}, []Rung{RungFloor}},
		{"Windows", Host{OS: "windows", JobObject: yes, AppContainer: yes}, Profile{}, []Rung{RungJobObject, RungFloor}},
		{"Windows with confinement", Host{OS: "windows", JobObject: yes, AppContainer: yes}, Profile{AccessConfinement: true}, []Rung{RungAppContainer, RungFloor}},
		{"elsewhere", Host{OS: "freebsd"}, Profile{}, []Rung{RungFloor}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []Rung
			for _, c := range candidates(tc.host, tc.prof) {
				got = append(got, c.rung)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
