package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/windows"
)

// fixtureLife bounds a fixture that nobody ends.
const fixtureLife = 300 * time.Second

func fixtures() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		"windows-args":   fixtureArgs,
		"windows-exit":   func(args []string) int { n, _ := strconv.Atoi(args[0]); return n },
		"windows-idle":   fixtureIdle,
		"windows-orphan": fixtureOrphan,
		"windows-crowd":  fixtureCrowd,
		"windows-hog":    fixtureHog,
		"windows-spin":   fixtureSpin,
		"windows-write":  fixtureWrite,
	}
}

// fixtureArgs prints what it was started with, in a form that hides nothing.
func fixtureArgs(args []string) int {
	for _, a := range args {
		fmt.Printf("%q\n", a)
	}
	return 0
}

// fixtureIdle writes its process id into a file, if one is named, and stays.
func fixtureIdle(args []string) int {
	if len(args) > 0 {
		partial := args[0] + ".partial"
		if os.WriteFile(partial, []byte(strconv.Itoa(os.Getpid())), 0o600) != nil || os.Rename(partial, args[0]) != nil {
			return 1
		}
	}
	for began := time.Now(); time.Since(began) < fixtureLife; {
		time.Sleep(50 * time.Millisecond)
	}
	return 0
}

// fixtureOrphan starts an idle process that has nothing of its parent's, waits until
// it lives, and stays or ends before it. With "hold" the other keeps the streams.
func fixtureOrphan(args []string) int {
	c := exec.Command(os.Args[0], "windows-idle", args[0])
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
	if slices.Contains(args, "hold") {
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
	}
	if err := c.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	for began := time.Now(); time.Since(began) < fixtureLife; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(args[0]); err == nil && !slices.Contains(args, "stay") {
			return 0
		}
	}
	return 1
}

// fixtureCrowd starts as many idle processes as it is told, prints how many it could,
// and fails if it could not start all.
func fixtureCrowd(args []string) int {
	want, _ := strconv.Atoi(args[0])
	started := 0
	for range want {
		c := exec.Command(os.Args[0], "windows-idle")
		if c.Start() == nil {
			started++
		}
	}
	fmt.Println("started", started)
	if started < want {
		return 1
	}
	return 0
}

// fixtureHog uses as many MiB of memory as it is told.
func fixtureHog(args []string) int {
	want, _ := strconv.Atoi(args[0])
	var all [][]byte
	for range want {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	fmt.Println("has", len(all))
	return 0
}

// fixtureSpin uses processor time until it is ended.
func fixtureSpin([]string) int {
	n := 0
	for began := time.Now(); time.Since(began) < fixtureLife; n++ {
	}
	return n & 1
}

// fixtureWrite writes each file that it is told and says which it could.
func fixtureWrite(args []string) int {
	failed := 0
	for _, path := range args {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			fmt.Println("refused", filepath.Base(path), err)
			failed = 1
			continue
		}
		fmt.Println("wrote", filepath.Base(path))
	}
	return failed
}

// underWine reports whether the system is Wine, which knows jobs and not all of their
// ceilings.
func underWine() bool {
	return windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() == nil
}

// tempDir is t.TempDir, except that Wine may leave it: the call that the standard
// library removes files with is not in every version.
func tempDir(t *testing.T) string {
	t.Helper()
	if !underWine() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp("", "sandbox-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
