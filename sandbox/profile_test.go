package sandbox

import (
	"net/netip"
	"os"
	"testing"
)

func addr(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// forced makes p take exactly this rung when the host has it.
func forced(p Profile, r Rung) Profile {
	p.only = r
	return p
}
