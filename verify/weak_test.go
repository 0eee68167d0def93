package verify

import (
	"slices"
	"testing"
)

func TestFilesThatAGateNamesAndNothingHoldsAreListed(t *testing.T) {
	b := newBench(t)
	b.write("check.sh", "#!/bin/sh\nexit 0\n")
	b.write("tests/one.sh", "true\n")
	for _, tc := range []struct {
		name string
		c    Criterion
		want []string
	}{
		{"an argument", Command("sh", "check.sh", "tests/one.sh"), []string{"check.sh", "tests/one.sh"}},
		{"an argument with the whole path", Command("sh", b.root+"/check.sh"), []string{"check.sh"}},
		{"its own script, which is pinned", Command("./check.sh"), nil},
		{"its own script, which may change", Command("./check.sh").Unpinned(), []string{"check.sh"}},
		{"protected in part", Protect(Command("sh", "check.sh", "tests/one.sh"), "tests/*"), []string{"check.sh"}},
		{"twice", All(Command("sh", "check.sh"), Command("cat", "check.sh")), []string{"check.sh"}},
		{"a directory, an option and nothing", Command("ls", "tests", "-l", "missing"), nil},
		{"outside", Command("cat", "../elsewhere", "/etc/passwd"), nil},
		{"no command", Contains("check.sh", "exit"), nil},
		{"no criterion", nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := tc.c
			if c != nil {
				c = b.prepare(c)
			}
			if got := Weak(c, b.root); !slices.Equal(got, tc.want) {
				t.Errorf("Weak = %q, want %q", got, tc.want)
			}
		})
	}
}
