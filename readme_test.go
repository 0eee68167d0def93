package harness_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/initorigin/io-harness-go/trace"
)

// goBlocks are the fenced Go blocks of a page.
func goBlocks(t *testing.T, path string) [][]string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks [][]string
	in := false
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "```go":
			blocks, in = append(blocks, nil), true
		case line == "```":
			in = false
		case in:
			last := len(blocks) - 1
			blocks[last] = append(blocks[last], line)
		}
	}
	return blocks
}

// code is the lines of a block without indentation, empty lines and comments.
func code(lines []string) []string {
	var out []string
	for _, l := range lines {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "//") {
			out = append(out, l)
		}
	}
	return out
}

func contains(all, part []string) bool {
	for i := 0; i+len(part) <= len(all); i++ {
		if slices.Equal(all[i:i+len(part)], part) {
			return true
		}
	}
	return false
}

func TestTheProgramsOfTheReadmeCompile(t *testing.T) {
	raw, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	compiled := code(strings.Split(string(raw), "\n"))
	blocks := goBlocks(t, "README.md")
	if len(blocks) < 3 {
		t.Fatalf("the README has %d Go blocks: want the program, the tool and the task", len(blocks))
	}
	program, opened := strings.CutPrefix(strings.Join(blocks[0], "\n"), "func main() {\n")
	program, closed := strings.CutSuffix(program, "\n}")
	if !opened || !closed {
		t.Fatalf("the first Go block of the README is no func main:\n%s", strings.Join(blocks[0], "\n"))
	}
	body := code(strings.Split(program, "\n"))
	if len(body) > 23 {
		t.Errorf("the first program has %d lines of body, 23 at most", len(body))
	}
	if !contains(compiled, body) {
		t.Errorf("the first program of the README is not the body of Example in example_test.go:\n%s", program)
	}
	own := code(blocks[1])
	if len(own) > 5 {
		t.Errorf("the tool of the README has %d lines, 5 at most", len(own))
	}
	if !contains(compiled, own) {
		t.Errorf("the tool of the README is not in example_test.go:\n%s", strings.Join(blocks[1], "\n"))
	}
}

// words are what stands in backquotes in one section of a page.
func words(t *testing.T, path, heading string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(raw), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no section %q", path, heading)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var out []string
	for i, part := range strings.Split(section, "`") {
		if i%2 == 1 {
			out = append(out, part)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestTheContractNamesEveryEventAndOutcome(t *testing.T) {
	if got, want := words(t, "CONTRACT.md", "## Events"), trace.EventKinds(); !slices.Equal(got, want) {
		t.Errorf("CONTRACT.md names the events %q, and there are %q", got, want)
	}
	var outcomes []string
	for _, k := range trace.OutcomeKinds() {
		outcomes = append(outcomes, string(k))
	}
	slices.Sort(outcomes)
	if got := words(t, "CONTRACT.md", "## Outcomes"); !slices.Equal(got, outcomes) {
		t.Errorf("CONTRACT.md names the outcomes %q, and there are %q", got, outcomes)
	}
}
