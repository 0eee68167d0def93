package prompt

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/initorigin/io-harness-go/provider"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a whole prompt with testdata, so that a change of what a model
// is sent is looked at on purpose.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(want), "\r\n", "\n"), got); diff != "" {
		t.Errorf("%s differs (run with -update to accept):\n%s", file, diff)
	}
}

// conversation prints a request's user side for a golden file.
func conversation(r Rendered) string {
	var b strings.Builder
	if r.Messages == nil {
		fmt.Fprintf(&b, "=== flat\n%s", r.User)
	}
	for i, m := range r.Messages {
		fmt.Fprintf(&b, "=== %d %s\n%s", i, m.Role, m.Text)
		if m.Role == provider.RoleAssistant && m.Text != "" && !strings.HasSuffix(m.Text, "\n") {
			b.WriteByte('\n')
		}
		for _, c := range m.Calls {
			fmt.Fprintf(&b, "--- call %s %s %s\n", c.ID, c.Name, c.Arguments)
		}
		if m.Carry != nil {
			fmt.Fprintf(&b, "--- carry %s\n", m.Carry)
		}
		for _, res := range m.Results {
			fmt.Fprintf(&b, "--- result %s\n%s", res.CallID, res.Content)
		}
	}
	return b.String()
}
