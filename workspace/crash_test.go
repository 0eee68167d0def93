package workspace

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/initorigin/io-harness-go/policy"
)

const crashEnv = "WORKSPACE_TEST_WRITER"

var crashTexts = [2]string{strings.Repeat("even line\n", 20_000), strings.Repeat("odd\n", 35_000)}

// runHelper is the process that the test below kills: it writes two texts in
// turn for as long as it lives.
func runHelper() bool {
	root := os.Getenv(crashEnv)
	if root == "" {
		return false
	}
	w, err := Open(root, policy.Permissive())
	if err != nil {
		panic(err)
	}
	for i := 0; ; i++ {
		if _, err := w.WriteFile(context.Background(), "f", crashTexts[i%2]); err != nil {
			panic(err)
		}
		if i == 0 {
			os.Stdout.WriteString("started\n")
		}
	}
}

func TestKilledWriterLeavesTheOldOrTheNewFile(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tr := newTree(t, policy.Permissive())
	for i := range 12 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), crashEnv+"="+tr.Root())
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 8)
		if _, err := out.Read(buf); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(i*700) * time.Microsecond) // wherever it is by then
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if got := tr.get("f"); got != crashTexts[0] && got != crashTexts[1] {
			t.Fatalf("the killed writer left %d bytes that are neither text", len(got))
		}
	}
}
