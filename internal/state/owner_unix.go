//go:build unix

package state

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ofAnother reports whether a file belongs to a user other than this process's, unless that is root.
func ofAnother(file fs.FileInfo) bool {
	s, ok := file.Sys().(*syscall.Stat_t)
	user := os.Geteuid()
	return ok && user != 0 && user != int(s.Uid)
}

// keepOwner gives a new file the owner and group of the one that it will replace. In place of a group
// that this user is not in, another group gets the file, which may do no more than every user.
func keepOwner(f *os.File, was fs.FileInfo) error {
	now, err := f.Stat()
	if err != nil {
		return err
	}
	a, isUnix := was.Sys().(*syscall.Stat_t)
	b, _ := now.Sys().(*syscall.Stat_t)
	if !isUnix || a.Uid == b.Uid && a.Gid == b.Gid {
		return nil
	}
	err = f.Chown(int(a.Uid), int(a.Gid))
	if a.Uid == b.Uid && errors.Is(err, fs.ErrPermission) {
		mode := was.Mode().Perm()
		return f.Chmod(mode &^ (^mode & 0o007 << 3))
	}
	return err
}
