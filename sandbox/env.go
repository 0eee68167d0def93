package sandbox

import (
	"crypto/rand"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/initorigin/io-harness-go/sandbox/scrub"
)

// MarkerEnv is set in every child to a value of its own. Where the kernel gives
// no better handle on a process tree, a kill looks for it.
const MarkerEnv = "HARNESS_COMMAND"

// newMarker is the entry that one command carries, and nothing else does.
func newMarker() string { return MarkerEnv + "=" + rand.Text() }

// proxyNames are the variables that common programs look for, in both
// spellings; curl reads only the lower-case form of HTTP_PROXY.
var proxyNames = []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"}

// Environ is the environment that a command started with profile p and the
// additions add gets, and the report of what was removed from it. It reads the
// environment of this process. The temporary directory and the marker variable
// are missing from it: they exist only once the command starts.
func Environ(p Profile, add ...string) ([]string, scrub.Report) {
	return environ(os.Environ(), p, slices.Concat(p.Vars, add))
}

func environ(host []string, p Profile, add []string) ([]string, scrub.Report) {
	if !p.Mode.Contained() {
		env, _ := scrub.Apply(append(append([]string{}, host...), add...), scrub.Rules{Keep: names(host, add)})
		return env, scrub.Report{}
	}
	env := append(append([]string{}, host...), add...)
	env = withoutMarker(env)
	if _, ok := lookupEnv(env, "GIT_TERMINAL_PROMPT", runtime.GOOS == "windows"); !ok {
		// There is no terminal; git must fail instead of asking.
		env = append(env, "GIT_TERMINAL_PROMPT=0")
	}
	env = proxyEnv(env, p.Egress)
	return scrub.Apply(env, p.Env)
}

func names(lists ...[]string) []string {
	var out []string
	for _, l := range lists {
		for _, kv := range l {
			if name, _, ok := strings.Cut(kv, "="); ok {
				out = append(out, name)
			}
		}
	}
	return out
}

func withoutMarker(env []string) []string { return dropNames(env, MarkerEnv) }

func dropNames(env []string, drop ...string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, ok := strings.Cut(kv, "=")
		return ok && slices.ContainsFunc(drop, func(d string) bool {
			// On Windows a name in another case is the same variable.
			return name == d || runtime.GOOS == "windows" && strings.EqualFold(name, d)
		})
	})
}

// proxyEnv points the usual variables at the proxy, and empties the exceptions:
// an inherited NO_PROXY would lead clients around it. With the network denied
// the variables go, so that clients fail at once instead of asking a proxy they
// cannot reach. With the network open nothing is touched.
func proxyEnv(env []string, e Egress) []string {
	switch {
	case e.Open:
		return env
	case e.denied():
		return dropNames(env, proxyNames...)
	}
	env = dropNames(env, append([]string{"NO_PROXY", "no_proxy"}, proxyNames...)...)
	url := "http://" + e.Proxy.String()
	if e.ProxyToken != "" {
		url = "http://" + ProxyUser + ":" + string(e.ProxyToken) + "@" + e.Proxy.String()
	}
	for _, n := range proxyNames {
		env = append(env, n+"="+url)
	}
	env = append(env, "NO_PROXY=", "no_proxy=")
	return append(dropNames(env, "JAVA_TOOL_OPTIONS"), "JAVA_TOOL_OPTIONS="+javaOptions(env, e))
}

// javaOptions is an inherited JAVA_TOOL_OPTIONS with the proxy appended: the
// Java runtime reads none of the usual variables.
func javaOptions(env []string, e Egress) string {
	old, _ := lookupEnv(env, "JAVA_TOOL_OPTIONS", false)
	host, port := e.Proxy.Addr().String(), e.Proxy.Port()
	options := old + " " + javaProxy("http", host, port) + " " + javaProxy("https", host, port) + " -Dhttp.nonProxyHosts="
	if e.ProxyToken != "" {
		// Build tools that bring a client of their own read these, the runtime's
		// client does not.
		for _, scheme := range []string{"http", "https"} {
			options += fmt.Sprintf(" -D%s.proxyUser=%s -D%s.proxyPassword=%s", scheme, ProxyUser, scheme, string(e.ProxyToken))
		}
	}
	return strings.TrimSpace(options)
}

// tempEnv points every variable that names a temporary directory at dir.
func tempEnv(env []string, dir string) []string {
	env = dropNames(env, "TMPDIR", "TMP", "TEMP", "GOTMPDIR")
	for _, n := range []string{"TMPDIR", "TMP", "TEMP", "GOTMPDIR"} {
		env = append(env, n+"="+dir)
	}
	return env
}

func javaProxy(scheme, host string, port uint16) string {
	return fmt.Sprintf("-D%s.proxyHost=%s -D%s.proxyPort=%d", scheme, host, scheme, port)
}
