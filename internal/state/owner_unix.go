//go:build unix

package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// otherOwner returns the user that a file belongs to, or "" if that is this process's or this one is root.
func otherOwner(file fs.FileInfo) string {
	s, ok := file.Sys().(*syscall.Stat_t)
	switch user := os.Geteuid(); {
	case !ok || user == 0 || user == int(s.Uid):
		return ""
	case s.Uid == 0:
		return "root"
	}
	return fmt.Sprintf("user %d", s.Uid)
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
