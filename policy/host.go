package policy

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

func (p Policy) checkNet(n Need) Verdict {
	target, ok := HostTarget(n.Target)
	if !ok {
		return Verdict{Effect: Deny, Rule: UncheckableHost, Matched: true}
	}
	host, port := splitTarget(target)
	var address, addressPort string
	if n.Resolved != "" {
		resolved, ok := HostTarget(bracketed(n.Resolved))
		if !ok {
			return Verdict{Effect: Deny, Rule: UncheckableHost, Matched: true}
		}
		address, _ = splitTarget(resolved)
		addressPort = resolved
		if resolved == address && port != "" {
			addressPort = address + ":" + port
		}
	}
	return p.decide(Net, func(r *rule, known bool) bool {
		if match(r.toks, target, false) || match(r.toks, host, false) {
			return true
		}
		return known && address != "" &&
			(match(r.toks, address, false) || match(r.toks, addressPort, false))
	})
}

// NetTarget returns the host:port that a URL would be dialled at, in the canonical
// form of [HostTarget]. False means that the URL has no target that can be checked,
// and that it must be refused, under a permissive policy too. The scheme must be
// http, https, ws or wss; a user name is not part of the host; the port defaults to
// 80 or 443. A backslash before the path is refused, because clients disagree about
// where the host then ends.
func NetTarget(rawURL string) (string, bool) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok {
		return "", false
	}
	port := ""
	switch strings.ToLower(scheme) {
	case "http", "ws":
		port = "80"
	case "https", "wss":
		port = "443"
	default:
		return "", false
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if strings.ContainsRune(rest, '\\') {
		return "", false
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	target, ok := HostTarget(rest)
	if !ok {
		return "", false
	}
	if _, stated := splitTarget(target); stated == "" {
		target += ":" + port
	}
	return target, true
}

// HostTarget returns the one spelling of a host or a host:port, false where there is
// none and the target must be refused. Names are in lower case and ASCII (IDNA), with
// no closing dot and at most 253 bytes; IPv4 only as four decimal numbers, since
// resolvers also read 127.1 and 0x7f000001; IPv6 in brackets in its shortest form,
// without a zone, mapped IPv4 as IPv4; ports from 1 to 65535 without leading zeros.
// What is returned is what must be dialled: it is the text that was judged.
func HostTarget(s string) (string, bool) {
	host, port, hasPort := s, "", false
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", false
		}
		host = s[:end+1]
		if tail := s[end+1:]; tail != "" {
			if tail[0] != ':' {
				return "", false
			}
			port, hasPort = tail[1:], true
		}
	} else if i := strings.IndexByte(s, ':'); i >= 0 {
		host, port, hasPort = s[:i], s[i+1:], true
	}
	if hasPort && !validPort(port) {
		return "", false
	}
	canonical, ok := canonicalHost(host)
	if !ok {
		return "", false
	}
	switch {
	case canonical == host:
		return s, true
	case hasPort:
		return canonical + ":" + port, true
	}
	return canonical, true
}

// splitTarget takes a canonical target apart; the port is empty if there is none.
func splitTarget(target string) (host, port string) {
	i := strings.LastIndexByte(target, ':')
	if i < 0 || strings.HasSuffix(target, "]") {
		return target, ""
	}
	return target[:i], target[i+1:]
}

func validPort(s string) bool {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	n, err := strconv.Atoi(s)
	return err == nil && n <= 65535
}

// canonicalHost returns its argument unchanged, and allocates nothing, if it is
// canonical already.
func canonicalHost(host string) (string, bool) {
	if strings.HasPrefix(host, "[") {
		return canonicalIPv6(host)
	}
	if !ascii(host) {
		var err error
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return "", false
		}
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !validName(host) {
		return "", false
	}
	if numeric(host[strings.LastIndexByte(host, '.')+1:]) {
		addr, err := netip.ParseAddr(host)
		return host, err == nil && addr.Is4()
	}
	if strings.Contains(host, "xn--") {
		if _, err := idna.Lookup.ToUnicode(host); err != nil {
			return "", false
		}
	}
	return host, true
}

func canonicalIPv6(host string) (string, bool) {
	if len(host) < 2 || host[len(host)-1] != ']' {
		return "", false
	}
	addr, err := netip.ParseAddr(host[1 : len(host)-1])
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", false
	}
	if addr.Is4In6() {
		return addr.Unmap().String(), true
	}
	if text := addr.String(); text != host[1:len(host)-1] {
		return "[" + text + "]", true
	}
	return host, true
}

// validName accepts the letters, digits, hyphens and underscores of names that
// resolve in practice, in labels of 1 to 63 bytes that no tool could take for an
// option.
func validName(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	label := 0
	for i := 0; i < len(host); i++ {
		c := host[i]
		switch {
		case c == '.':
			if label == 0 || host[i-1] == '-' {
				return false
			}
			label = 0
			continue
		case c == '-' && label == 0:
			return false
		case c == '-' || c == '_' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		default:
			return false
		}
		if label++; label > 63 {
			return false
		}
	}
	return label > 0 && host[len(host)-1] != '-'
}

// numeric reports whether a resolver may read a name that ends in this label as a
// number: decimal, octal or hexadecimal.
func numeric(label string) bool {
	hex := strings.HasPrefix(label, "0x")
	if hex {
		label = label[2:]
	}
	for _, c := range []byte(label) {
		if !('0' <= c && c <= '9' || hex && 'a' <= c && c <= 'f') {
			return false
		}
	}
	return true
}

// canonicalHostPattern brings the pattern of a deny or ask rule into the form of the
// targets it is compared with, as far as its wildcards leave that possible.
func canonicalHostPattern(s string) string {
	if target, ok := HostTarget(bracketed(s)); ok {
		return target
	}
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		host, port = s[:i], s[i:]
	}
	host = strings.NewReplacer("。", ".", "．", ".", "｡", ".").Replace(host)
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for i, label := range labels {
		if !ascii(label) && !strings.ContainsAny(label, "*?") {
			if a, err := idna.Lookup.ToASCII(label); err == nil {
				label = a
			}
		}
		labels[i] = strings.ToLower(label)
	}
	return strings.Join(labels, ".") + port
}

// bracketed puts a bare IPv6 address into brackets, as it stands in a target.
func bracketed(s string) string {
	if strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[") {
		if _, err := netip.ParseAddr(s); err == nil {
			return "[" + s + "]"
		}
	}
	return s
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
