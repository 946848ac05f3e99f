package dedup

import (
	"path/filepath"
	"time"
)

// racy is how young a file's last change may be for its times to tell a later
// one: some file systems count in steps of two seconds.
const racyWindow = 2 * time.Second

// fileState tells whether a file has changed.
type fileState struct {
	stable       bool   // it could be looked at, and a later change will show
	dev, inode   uint64 // which file it is
	size         int64
	mtime, ctime int64 // ns
}

// statFile returns the state of the file at an absolute path. It does I/O, so it is
// never called under the store's mutex.
func statFile(path string) fileState {
	if !filepath.IsAbs(path) {
		return fileState{}
	}
	state, ok := stat(path)
	state.stable = ok && time.Since(time.Unix(0, state.mtime)) > racyWindow
	return state
}

// matches reports whether the file is what it was.
func (f fileState) matches(old fileState) bool { return f.stable && f == old }
