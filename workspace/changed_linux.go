package workspace

import (
	"io/fs"
	"syscall"
	"time"
)

// changeTime is when anything about the file last changed. Unlike the time of
// its last write nobody can set it.
func changeTime(info fs.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return time.Time{}
}
