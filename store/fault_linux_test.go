package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func init() {
	faults["full"] = driveOnAFullDisk
	faults["readonly"] = openOnAReadOnlyDisk
}

// noDisk is what a program says that may not make a disk of its own.
const noDisk = "no disk of its own"

// disk mounts a small file system over a directory of this process alone.
func disk(dir, size string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		return fmt.Errorf("%s: %w", noDisk, err)
	}
	return nil
}

// driveOnAFullDisk fills a disk, and goes on when there is room again.
func driveOnAFullDisk(dir string) error {
	if err := disk(dir, "8m"); err != nil {
		return err
	}
	ctx := context.Background()
	s, err := Open(ctx, filepath.Join(dir, "runs.db"))
	if err != nil {
		return err
	}
	d, err := begun(ctx, s)
	if err != nil {
		return err
	}
	filler := filepath.Join(dir, "filler")
	var werr error
	for size := 1 << 20; size >= 1<<10 && werr == nil; {
		f, err := os.OpenFile(filler, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		if _, werr = f.Write(make([]byte, size)); werr != nil && size > 1<<10 {
			size, werr = size/2, nil
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	big := benchStep(2)
	big.Prompt = strings.Repeat("p", 1<<20)
	err = s.CommitStep(ctx, d, big)
	if err == nil || !strings.Contains(err.Error(), "make room on its disk") {
		return fmt.Errorf("a step on a full disk: %v says nothing of what to do", err)
	}
	err = expect("a step on a full disk", err, KindFull)
	if err := errors.Join(err, intact(ctx, s, d.RunID, 1), os.Remove(filler)); err != nil {
		return err
	}
	if err := s.CommitStep(ctx, d, big); err != nil {
		return fmt.Errorf("once there is room again: %w", err)
	}
	if err := d.Release(ctx); err != nil {
		return err
	}
	return errors.Join(intact(ctx, s, d.RunID, 2), s.Close())
}

// openOnAReadOnlyDisk opens a store where nothing can be written.
func openOnAReadOnlyDisk(dir string) error {
	if err := disk(dir, "8m"); err != nil {
		return err
	}
	ctx := context.Background()
	path := filepath.Join(dir, "runs.db")
	s, err := Open(ctx, path)
	if err != nil {
		return err
	}
	d, err := begun(ctx, s)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Release(ctx), s.Close()); err != nil {
		return err
	}
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return err
	}
	_, err = Open(ctx, path)
	if err := expect("opening for writing", err, KindReadOnly); err != nil {
		return err
	}
	_, err = Open(ctx, filepath.Join(dir, "new.db"))
	if err := expect("creating", err, KindCantOpen); err != nil {
		return err
	}
	s, err = Open(ctx, path, WithReadOnly())
	if err != nil {
		return fmt.Errorf("opening for reading: %w", err)
	}
	return errors.Join(intact(ctx, s, d.RunID, 1), s.Close())
}

func onADiskOfItsOwn(t *testing.T, kind string) {
	t.Helper()
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := runFault(t, kind, attr)
	if errors.Is(err, os.ErrPermission) || strings.Contains(out, noDisk) {
		t.Skipf("this system lets nobody mount here: %v %s", err, out)
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestAFullFileSystemKeepsThePreviousStep(t *testing.T) { onADiskOfItsOwn(t, "full") }

func TestAReadOnlyFileSystemIsNamedAsSuch(t *testing.T) { onADiskOfItsOwn(t, "readonly") }
