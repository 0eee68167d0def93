package scrub

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestApply(t *testing.T) {
	for _, tc := range []struct {
		name    string
		env     []string
		rules   Rules
		windows bool
		want    []string
		removed []string
		kept    []string
	}{
		{name: "ordinary variables pass in order", env: []string{"PATH=/bin", "HOME=/h", "LANG="}, want: []string{"PATH=/bin", "HOME=/h", "LANG="}},
		{name: "provider keys go", env: []string{"OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k", "OPENROUTER_API_KEY=k", "A=1"}, want: []string{"A=1"},
			removed: []string{"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"}},
		{name: "names that look like a secret go", env: []string{"GITHUB_TOKEN=t", "DB_PASSWORD=p", "AWS_SECRET_ACCESS_KEY=s", "my_api_key=x"}, want: nil,
			removed: []string{"AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "GITHUB_TOKEN", "my_api_key"}},
		{name: "a word inside a name is no secret", env: []string{"TOKENIZERS_PARALLELISM=1", "COMPASS=n", "KEYBOARD=us", "PASSAGE=1", "OPENAI_MODEL=m", "BYPASS=1"},
			want: []string{"TOKENIZERS_PARALLELISM=1", "COMPASS=n", "KEYBOARD=us", "PASSAGE=1", "OPENAI_MODEL=m", "BYPASS=1"}},
		{name: "a kept name survives", env: []string{"NPM_TOKEN=t", "OPENAI_API_KEY=k"}, rules: Rules{Keep: []string{"NPM_TOKEN"}}, want: []string{"NPM_TOKEN=t"},
			removed: []string{"OPENAI_API_KEY"}, kept: []string{"NPM_TOKEN"}},
		{name: "keep is exact", env: []string{"NPM_TOKEN=t"}, rules: Rules{Keep: []string{"npm_token"}}, removed: []string{"NPM_TOKEN"}},
		{name: "keep folds case on windows", env: []string{"NPM_TOKEN=t"}, rules: Rules{Keep: []string{"npm_token"}}, windows: true, want: []string{"NPM_TOKEN=t"}, kept: []string{"NPM_TOKEN"}},
		{name: "drop names more", env: []string{"SSH_AUTH_SOCK=/s", "A=1"}, rules: Rules{Drop: []string{"SSH_AUTH_SOCK"}}, want: []string{"A=1"}, removed: []string{"SSH_AUTH_SOCK"}},
		{name: "a copy of a key under another name goes", env: []string{"OTHER=canary-1-long", "URL=https://u:canary-1-long@h/", "A=canary"}, rules: Rules{Secrets: []string{"canary-1-long"}},
			want: []string{"A=canary"}, removed: []string{"OTHER", "URL"}},
		{name: "a short secret is not searched for", env: []string{"A=12345", "B=xabcdefg"}, rules: Rules{Secrets: []string{"12345", "abcdefg", ""}}, want: []string{"A=12345", "B=xabcdefg"}},
		{name: "the last value of a name wins", env: []string{"A=1", "B=2", "A=3"}, want: []string{"B=2", "A=3"}},
		{name: "a name in another case is the same on windows", env: []string{"Path=1", "PATH=2"}, windows: true, want: []string{"PATH=2"}},
		{name: "a name in another case is another elsewhere", env: []string{"Path=1", "PATH=2"}, want: []string{"Path=1", "PATH=2"}},
		{name: "entries that are none are dropped", env: []string{"", "NOEQUALS", "A=1\x00B=2", "=C:=C:\\x"}, want: []string{"=C:=C:\\x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := slices.Clone(tc.env)
			got, report := apply(tc.env, tc.rules, tc.windows)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("environment (-want +got):\n%s", d)
			}
			if d := cmp.Diff(append([]string{}, tc.removed...), report.Removed); d != "" {
				t.Errorf("removed (-want +got):\n%s", d)
			}
			if d := cmp.Diff(append([]string{}, tc.kept...), report.Kept); d != "" {
				t.Errorf("kept (-want +got):\n%s", d)
			}
			if !slices.Equal(before, tc.env) {
				t.Error("the caller's slice was changed")
			}
		})
	}
}

// Whatever the environment is, no secret comes through and none is reported.
func TestNoSecretComesThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secret := rapid.StringMatching(`[a-z0-9]{8,20}`).Draw(t, "secret")
		var env []string
		for range rapid.IntRange(0, 12).Draw(t, "n") {
			name := rapid.StringMatching(`[A-Za-z_]{1,8}(_TOKEN|_KEY|)`).Draw(t, "name")
			value := rapid.SampledFrom([]string{"", "plain", secret, "x" + secret + "y"}).Draw(t, "value")
			env = append(env, name+"="+value)
		}
		out, report := Apply(env, Rules{Secrets: []string{secret}})
		if strings.Contains(strings.Join(out, "\n"), secret) {
			t.Fatalf("%q is in %q", secret, out)
		}
		if strings.Contains(report.String(), secret) {
			t.Fatalf("%q is in the report %q", secret, report)
		}
	})
}
