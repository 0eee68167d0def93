package scrub

import (
	"runtime"
	"slices"
	"strings"
)

// MinSecret is the shortest value that is looked for under other names. A
// shorter one would match variables that merely hold a small word or number.
const MinSecret = 8

// Rules say what to remove beside the names of [Credential]. The zero value is
// the default.
type Rules struct {
	// Keep are the exact names that survive whatever else says otherwise. On
	// Windows names are compared without regard to case.
	Keep []string `json:"keep,omitempty"`
	// Drop are further exact names to remove.
	Drop []string `json:"drop,omitempty"`
	// Secrets are credentials in use. A variable whose value is, or contains,
	// one of at least MinSecret bytes is removed whatever its name is.
	Secrets []string `json:"-"`
}

// Suggested are variables that lead to other credentials without being one.
// They are not removed unless Drop names them: builds and tests may need them.
var suggested = []string{
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST",
	"DOCKER_CONFIG", "KUBECONFIG", "AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE",
	"AZURE_CONFIG_DIR", "CLOUDSDK_CONFIG", "GOOGLE_APPLICATION_CREDENTIALS", "NETRC",
}

// Suggested returns names of variables that lead to credentials kept elsewhere
// (agents, cloud profiles). They are not removed by default, because a build
// may need them; add them to Rules.Drop where it does not.
func Suggested() []string { return slices.Clone(suggested) }

// providerKeys are the names that the built-in providers read a key from.
var providerKeys = []string{
	"OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY",
	"CEREBRAS_API_KEY", "DEEPSEEK_API_KEY", "FIREWORKS_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY",
	"MINIMAX_API_KEY", "MISTRAL_API_KEY", "MOONSHOT_API_KEY", "PERPLEXITY_API_KEY", "DASHSCOPE_API_KEY",
	"TOGETHER_API_KEY", "XAI_API_KEY", "ZHIPU_API_KEY",
}

// secretWords end a name that holds a secret, as a whole word between
// underscores. "KEY" alone is not among them: too many ordinary settings end
// so.
var secretWords = []string{
	"API_KEY", "APIKEY", "SECRET", "SECRET_KEY", "ACCESS_KEY", "PRIVATE_KEY", "SIGNING_KEY", "ENCRYPTION_KEY",
	"TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "CREDENTIAL", "CREDENTIALS", "PAT",
	"AUTH_TOKEN", "SESSION_TOKEN", "SECRET_ACCESS_KEY", "CONNECTION_STRING",
}

// Credential reports whether a variable of this name is taken to hold a secret:
// a key that a built-in provider reads, or a name that ends in a word such as
// TOKEN, SECRET, PASSWORD or API_KEY. Letters are compared without case.
func Credential(name string) bool {
	name = strings.ToUpper(name)
	if slices.Contains(providerKeys, name) {
		return true
	}
	return slices.ContainsFunc(secretWords, func(w string) bool {
		before, ends := strings.CutSuffix(name, w)
		return ends && (before == "" || strings.HasSuffix(before, "_"))
	})
}

// Report names what happened to an environment. It never holds a value.
type Report struct {
	Removed []string // sorted, each once
	Kept    []string // sorted: names that Rules.Keep saved from removal
}

// String is the report in one line.
func (r Report) String() string {
	s := "removed: " + strings.Join(r.Removed, " ")
	if len(r.Kept) > 0 {
		s += "; kept: " + strings.Join(r.Kept, " ")
	}
	return s
}

// Apply returns env (NAME=value) without the variables that rules remove, in
// the same order, each name once with its last value. An entry without a name
// is dropped. env is not changed.
func Apply(env []string, rules Rules) ([]string, Report) {
	return apply(env, rules, runtime.GOOS == "windows")
}

func apply(env []string, rules Rules, foldCase bool) ([]string, Report) {
	fold := func(s string) string {
		if foldCase {
			return strings.ToUpper(s)
		}
		return s
	}
	set := func(names []string) map[string]bool {
		m := make(map[string]bool, len(names))
		for _, n := range names {
			m[fold(n)] = true
		}
		return m
	}
	keep, drop := set(rules.Keep), set(rules.Drop)
	removed, kept := map[string]bool{}, map[string]bool{}
	last := map[string]int{}
	for i, kv := range env {
		if name, _, ok := split(kv); ok {
			last[fold(name)] = i
		}
	}
	var out []string
	for i, kv := range env {
		name, value, ok := split(kv)
		if !ok {
			continue
		}
		key := fold(name)
		if last[key] != i {
			// An earlier value is gone whatever it is, but its name counts when it
			// was a secret that would otherwise have been handed on.
			continue
		}
		// PATH is no secret, and a key such as a placeholder for a local server may
		// stand in the name of a directory.
		if drop[key] || Credential(name) || fold(name) != "PATH" && holds(value, rules.Secrets) {
			if !keep[key] {
				removed[name] = true
				continue
			}
			kept[name] = true
		}
		out = append(out, kv)
	}
	return out, Report{Removed: sorted(removed), Kept: sorted(kept)}
}

// split takes NAME=value apart. Windows has names such as "=C:", so an equals
// sign in the first place belongs to the name.
func split(kv string) (name, value string, ok bool) {
	if kv == "" || strings.IndexByte(kv, 0) >= 0 {
		return "", "", false
	}
	i := strings.IndexByte(kv[1:], '=')
	if i < 0 {
		return "", "", false
	}
	return kv[:i+1], kv[i+2:], true
}

func holds(value string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool {
		return len(s) >= MinSecret && strings.Contains(value, s)
	})
}

func sorted(set map[string]bool) []string {
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
