package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// sandboxExec is where macOS has its tool; a name would be looked for in PATH.
const sandboxExec = "/usr/bin/sandbox-exec"

// above are the directories that hold one of paths, sorted, without the root.
func above(paths []string) []string {
	var out []string
	for _, p := range paths {
		for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
			out = append(out, dir)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// seatbeltArgv is the command line that runs s under sandbox-exec. Paths are
// handed over as parameters: text of theirs in the profile could edit it. The
// last rule that matches counts, so that everything is taken first, then the
// granted places are given, then what must not be read or changed is taken
// again.
func seatbeltArgv(s *spec, isDir func(string) bool) []string {
	var params, rules []string
	param := func(path string) string {
		name := fmt.Sprintf("P%d", len(params)/2)
		params = append(params, "-D", name+"="+path)
		return fmt.Sprintf("(param %q)", name)
	}
	rule := func(format string, args ...any) { rules = append(rules, fmt.Sprintf(format, args...)) }
	match := func(path string) string {
		if isDir(path) {
			return "(subpath " + param(path) + ")"
		}
		return "(literal " + param(path) + ")"
	}
	rule("(version 1)")
	rule("(allow default)")
	switch e := s.profile.Egress; {
	case e.proxied():
		rule("(deny network*)")
		rule(`(allow network-outbound (remote ip "localhost:%d"))`, e.Proxy.Port())
	case e.Open:
		rule("(allow network*)")
	default:
		rule("(deny network*)")
	}
	rule(`(deny file-write* (subpath "/"))`)
	for _, dir := range s.roots {
		rule("(allow file-write* (subpath %s))", param(dir))
	}
	if s.temp != "" && !slices.Contains(s.roots, s.temp) {
		rule("(allow file-write* (subpath %s))", param(s.temp))
	}
	if s.profile.SharedTemp {
		// Where the system itself and tools that do not ask put temporary files.
		rule(`(allow file-write* (subpath "/private/var/folders"))`)
		rule(`(allow file-write* (subpath "/private/tmp"))`)
	}
	rule(`(allow file-write* (literal "/dev/null") (literal "/dev/dtracehelper"))`)
	protected := s.protected()
	for _, path := range protected {
		rule("(deny file-write* %s)", match(path))
	}
	for _, path := range s.denied {
		rule("(deny file* %s)", match(path)) // making another name for it included
	}
	// A rule goes by the path: under another name of a directory above it nothing of
	// this would hold.
	for _, dir := range above(append(protected, s.denied...)) {
		rule("(deny file-write-unlink (literal %s))", param(dir))
	}
	argv := append([]string{sandboxExec}, params...)
	argv = append(argv, "-p", strings.Join(rules, "\n"), s.path)
	return append(argv, s.argv[1:]...)
}
