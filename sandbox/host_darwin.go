package sandbox

import (
	"errors"
	"os"
	"path/filepath"
)

func probeHost(h *Host) { h.Seatbelt = works(probeSeatbelt(h)) }

// probeSeatbelt runs the tool for real and looks whether a write that must be
// refused is refused.
func probeSeatbelt(h *Host) error {
	dir, remove, err := NewTemp()
	if err != nil {
		return err
	}
	defer remove()
	temp := filepath.Join(dir, "t")
	if err := os.Mkdir(temp, 0o700); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	probe := func(target string) (int, error) {
		c, err := launch(&spec{
			argv: []string{"sh", "-c", `: > "$1"`, "sh", target}, path: "/bin/sh", dir: "/", temp: temp,
			env: []string{"PATH=/usr/bin:/bin"}, files: []*os.File{null, null, null}, host: *h, rung: RungSeatbelt,
		}, &Applied{})
		if err != nil {
			return 0, err
		}
		<-c.exited
		return c.end.code, nil
	}
	if code, err := probe(filepath.Join(temp, "inside")); err != nil || code != 0 {
		return errors.Join(errors.New("a write that should be permitted was refused"), err)
	}
	code, err := probe(filepath.Join(dir, "outside"))
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "outside")); err == nil || code == 0 {
		return errors.New("a write that should be refused was not")
	}
	return nil
}
