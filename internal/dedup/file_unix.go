//go:build linux || darwin

package dedup

import (
	"io/fs"
	"syscall"
)

// stateOf is what the file system says of a file; ok if that is enough.
func stateOf(info fs.FileInfo) (state fileState, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileState{}, false
	}
	return fileState{
		dev: uint64(st.Dev), inode: uint64(st.Ino), size: st.Size,
		mtime: info.ModTime().UnixNano(), ctime: changed(st),
	}, true
}
