// Command skips reads the output of go test -json and prints each test that was
// skipped with its reason, and everything that a failed package printed.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

type event struct {
	Action, Package, Test, Output string
}

type key struct{ pkg, test string }

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	printed := map[key]*strings.Builder{}
	passed, skipped, failed := 0, 0, 0
	for dec := json.NewDecoder(in); ; {
		var e event
		err := dec.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		k := key{e.Package, e.Test}
		switch e.Action {
		case "output", "build-output":
			if printed[k] == nil {
				printed[k] = &strings.Builder{}
			}
			printed[k].WriteString(e.Output)
		case "pass":
			if e.Test != "" {
				passed++
			}
			delete(printed, k)
		case "skip":
			if e.Test != "" {
				skipped++
				fmt.Fprintf(out, "skipped %s %s: %s\n", e.Package, e.Test, reason(printed[k]))
			}
			delete(printed, k)
		case "fail", "build-fail":
			failed++
			if b := printed[k]; b != nil {
				fmt.Fprintf(out, "FAILED %s %s\n%s", e.Package, e.Test, b)
			} else {
				fmt.Fprintf(out, "FAILED %s %s\n", e.Package, e.Test)
			}
			delete(printed, k)
		}
	}
	for k, b := range printed { // what no end was reported of, such as a build
		if k.test == "" && failed > 0 {
			fmt.Fprint(out, b)
		}
	}
	fmt.Fprintf(out, "%d tests passed, %d were skipped, %d ended as failed\n", passed, skipped, failed)
	return nil
}

// reason is what a test said when it skipped, without the lines of the runner.
func reason(b *strings.Builder) string {
	if b == nil {
		return "no reason was given"
	}
	var said []string
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, text, ok := strings.Cut(line, ".go:"); ok { // FILE.go:LINE: text
			if _, text, ok = strings.Cut(text, ": "); ok {
				line = text
			}
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason was given"
	}
	return strings.Join(said, " ")
}
