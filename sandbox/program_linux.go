package sandbox

import (
	"bytes"
	"debug/elf"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxInterpreters is how often the kernel follows the first line of a script.
const maxInterpreters = 5

// startable says why the kernel will not start the file at path, as far as that can
// be seen without starting it. It is for a rung whose helper would report the
// failure as an exit code of the command's own.
func startable(path string) error {
	for range maxInterpreters {
		if err := unix.Access(path, unix.X_OK); err != nil {
			return err
		}
		next, err := interpreter(path)
		if err != nil || next == "" {
			return err
		}
		path = next
	}
	return unix.ELOOP
}

// interpreter is the program that a script is given to; empty for a program that
// the kernel loads itself.
func interpreter(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil // it may be executed all the same
	}
	defer f.Close()
	head := make([]byte, 256) // what the kernel looks at
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return "", nil
	}
	head = head[:n]
	switch {
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return "", loader(f)
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, _ := bytes.Cut(head[2:], []byte("\n"))
		words := strings.Fields(string(line))
		if len(words) == 0 {
			return "", unix.ENOEXEC
		}
		if !filepath.IsAbs(words[0]) {
			return "", nil // from the command's own directory
		}
		return words[0], nil
	case otherFormats():
		return "", nil
	}
	return "", unix.ENOEXEC
}

// loader looks whether the dynamic loader that an ELF file names is there.
func loader(f *os.File) error {
	e, err := elf.NewFile(f)
	if err != nil {
		return nil // the kernel may know better
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz == 0 || p.Filesz > unix.PathMax {
			continue
		}
		name := make([]byte, p.Filesz)
		if _, err := p.ReadAt(name, 0); err != nil {
			return nil
		}
		return unix.Access(string(bytes.TrimRight(name, "\x00")), unix.X_OK)
	}
	return nil
}

// otherFormats reports whether the host has taught its kernel further formats.
func otherFormats() bool {
	des, _ := os.ReadDir("/proc/sys/fs/binfmt_misc")
	return len(des) > 2 // beside "register" and "status"
}
