package policy

import (
	"net/netip"
	"strings"
)

// FloorRefuses judges an address that is about to be dialled, under every policy,
// the permissive one included. It returns why the address is out of reach: loopback,
// link-local, private (RFC 1918 and unique-local), carrier-grade NAT (100.64.0.0/10),
// unspecified, broadcast or multicast, or the metadata service of a cloud. An IPv4
// address inside an IPv6 one (mapped, NAT64, 6to4) is judged by itself. A refusal is
// attributed to [LayerFloor].
//
// With local, which an embedding program may take from its own environment and never
// from a file in a workspace, everything passes but metadata services and link-local
// addresses; [Policy.FloorRefusesAnswer] is for what a name resolved to.
//
// The caller resolves a name once, judges every answer and dials only what was
// judged.
func FloorRefuses(addr netip.Addr, local bool) (reason string, refused bool) {
	addr = embedded(addr.WithZone(""))
	switch {
	case !addr.IsValid():
		return "not an address", true
	case isMetadata(addr):
		return "cloud metadata service", true
	case addr.IsLinkLocalUnicast():
		return "link-local address", true
	case local:
		return "", false
	case addr.IsLoopback():
		return "loopback address", true
	case addr.IsPrivate():
		return "private address", true
	case addr.IsUnspecified(), addr.Is4() && addr.As4()[0] == 0:
		return "unspecified address", true
	case addr.IsMulticast():
		return "multicast address", true
	case addr.Is4() && addr.As4()[0] >= 240:
		return "reserved address", true
	case addr.Is4() && addr.As4()[0] == 100 && addr.As4()[1]&0xC0 == 64:
		return "carrier-grade NAT address", true
	}
	return "", false
}

// FloorRefusesHost judges a host or host:port before it is resolved: literal
// addresses as [FloorRefuses] does, and names that mean this machine or the metadata
// service of a cloud whatever a resolver answers. Other names pass, and their
// addresses must be judged when they are known. What [HostTarget] rejects is refused.
func FloorRefusesHost(target string, local bool) (reason string, refused bool) {
	target, ok := HostTarget(bracketed(target))
	if !ok {
		return "the host cannot be checked", true
	}
	host, _ := splitTarget(target)
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return FloorRefuses(addr, local)
	}
	switch host {
	case "metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal":
		return "cloud metadata service", true
	}
	if !local && meansThisHost(host) {
		return "loopback address", true
	}
	return "", false
}

// FloorRefusesAnswer judges addr, one of the addresses that host resolved to, as
// [FloorRefuses] does, and holds one thing more where local lifts the floor. Whoever
// serves a name decides where it leads, so a rule that allows a name does not let it
// lead to this machine: a loopback or unspecified address is refused unless an allow
// rule spells out that very address, with this port or without one. A wildcard and
// the default do not. For an address in place of a name, and for localhost, whose
// meaning nobody can change, there is nothing to add.
func (p Policy) FloorRefusesAnswer(host string, addr netip.AddrPort, local bool) (reason string, refused bool) {
	if reason, refused := FloorRefuses(addr.Addr(), local); refused {
		return reason, true
	}
	a := embedded(addr.Addr().WithZone(""))
	kind := ""
	switch {
	case a.IsLoopback():
		kind = "loopback address"
	case a.IsUnspecified(), a.Is4() && a.As4()[0] == 0:
		kind = "unspecified address"
	default:
		return "", false
	}
	if target, ok := HostTarget(bracketed(host)); ok {
		host, _ = splitTarget(target)
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || a.IsLoopback() && meansThisHost(host) {
		return "", false
	}
	if p.spellsOut(netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())) {
		return "", false
	}
	return kind + " that no rule allows as such", true
}

// spellsOut reports whether an allow rule is this address, letter by letter, with or
// without the port.
func (p Policy) spellsOut(addr netip.AddrPort) bool {
	full := addr.String()
	host, _ := splitTarget(full)
	return len(p.faults) == 0 && p.anyNet(func(r *rule) bool {
		return r.Effect == Allow && (r.Pattern == full || r.Pattern == host)
	})
}

// meansThisHost knows the names that stand for this machine whatever a resolver
// answers. The argument is canonical.
func meansThisHost(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// isMetadata knows the addresses at which clouds hand out credentials: the common
// link-local one, its IPv6 form at AWS, and Alibaba's.
func isMetadata(addr netip.Addr) bool {
	switch addr.String() {
	case "169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200":
		return true
	}
	return false
}

// embedded returns the IPv4 address that an IPv6 address stands for.
func embedded(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	if addr.Is4In6() {
		return addr.Unmap()
	}
	b := addr.As16()
	switch {
	case b[0] == 0x20 && b[1] == 0x02: // 2002::/16, 6to4
		return netip.AddrFrom4([4]byte(b[2:6]))
	case addr.Is6() && netip.PrefixFrom(netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b}), 96).Contains(addr): // 64:ff9b::/96, NAT64
		return netip.AddrFrom4([4]byte(b[12:16]))
	case b[0] == 0 && b[1] == 0x64 && b[2] == 0xff && b[3] == 0x9b && b[4] == 0 && b[5] == 1: // 64:ff9b:1::/48, local NAT64
		return netip.AddrFrom4([4]byte(b[12:16]))
	}
	return addr
}
