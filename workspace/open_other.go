//go:build !linux

package workspace

import (
	"errors"
	"os"
)

// openBeneath has no system call to use here; the portable way does the work.
func (d *directory) openBeneath(string, bool) (*os.File, error) {
	return nil, errors.ErrUnsupported
}
