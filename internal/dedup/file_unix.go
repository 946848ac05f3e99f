//go:build linux || darwin

package dedup

import "golang.org/x/sys/unix"

// stat returns the state of a regular file; false for anything else.
func stat(path string) (fileState, bool) {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG { // a folder's times do not cover its files
		return fileState{}, false
	}
	return fileState{
		dev: uint64(st.Dev), inode: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano(),
	}, true
}
