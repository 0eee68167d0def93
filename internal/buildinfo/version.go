// Package buildinfo tells which version of the module a program was built with.
package buildinfo

import (
	"runtime/debug"
	"strings"
	"sync"
)

const module = "github.com/initorigin/io-harness-go"

// Version is the version of this module in the running program, such as "0.4.1",
// and "devel" where the program was built from a checkout.
var Version = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	return of(info)
})

func of(info *debug.BuildInfo) string {
	m := &info.Main
	for _, d := range info.Deps {
		if d.Path == module {
			m = d
		}
	}
	if m.Replace != nil {
		m = m.Replace
	}
	v := strings.TrimPrefix(m.Version, "v")
	if v == "" || v[0] < '0' || v[0] > '9' || m.Path != module {
		return "devel"
	}
	return v
}
