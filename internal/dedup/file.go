package dedup

import (
	"path/filepath"
	"time"
)

// racyWindow is the age below which a file's last change may hide a later one: some file
// systems have timestamps of two seconds.
const racyWindow = 2 * time.Second

// fileState identifies a version of a file.
type fileState struct {
	stable       bool   // it was read, and any later change will show; also if the query names no file
	dev, inode   uint64 // identity of the file
	size         int64
	mtime, ctime int64 // nanoseconds
}

// fileState returns the state of the file that the answer to q depends on, if it has one. It
// does I/O, and must not be called under the store's mutex.
func (q *Query) fileState() fileState {
	switch {
	case q.Reuse.File == "":
		return fileState{stable: true}
	case !filepath.IsAbs(q.Reuse.File):
		return fileState{}
	}
	state, ok := stat(q.Reuse.File)
	state.stable = ok && time.Since(time.Unix(0, state.mtime)) > racyWindow
	return state
}

// matches reports whether the file is unchanged.
func (f fileState) matches(old fileState) bool { return f.stable && f == old }
