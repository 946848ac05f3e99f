package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file that users or other programs write too, to be edited.
type File struct {
	Path   string // as passed to OpenFile
	Text   []byte // content; nil if the file does not exist
	Exists bool
	target string // path with links resolved
	mode   fs.FileMode
	was    fs.FileInfo // of the target; nil if it does not exist
}

// OpenFile reads a file. If it does not exist, Text is nil and Write creates it. Links are
// followed; a dangling link, and anything but a regular file, is an error.
func OpenFile(path string) (*File, error) {
	f := &File{Path: path, mode: 0o600}
	var err error
	if f.target, err = filepath.EvalSymlinks(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s: dangling link", path)
		}
		f.target = path
		return f, nil
	} else if err != nil {
		if _, hasPath := errors.AsType[*fs.PathError](err); !hasPath { // a folder of the path is a file
			err = fmt.Errorf("%s: %w", path, err)
		}
		return nil, err
	}
	s, err := os.Stat(f.target)
	if err != nil {
		return nil, err
	}
	if !s.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	f.mode, f.Exists, f.was = s.Mode().Perm(), true, s
	f.Text, err = os.ReadFile(f.target)
	return f, err
}

// Write replaces the content atomically, syncs it, and keeps the file's mode, on Unix also its owner
// and, if this user may give it, its group. It returns an error and leaves the file as it is if it is
// not [File.Writable], or has changed since it was read.
func (f *File) Write(text []byte) error {
	if err := f.Writable(); err != nil {
		return err
	}
	return replace(f.target, text, f.mode, func(t *os.File) (err error) {
		if f.Exists {
			err = keepOwner(t, f.was)
		}
		return errors.Join(err, t.Sync(), f.unchanged())
	})
}

// Writable returns an error if the file exists and is read-only, or belongs to another user: the
// file that replaces it would belong to this one. root may change every file.
func (f *File) Writable() error {
	switch {
	case !f.Exists:
		return nil
	case f.mode&0o200 == 0:
		return fmt.Errorf("%s: is read-only; nothing was changed", f.Path)
	case otherOwner(f.was) != "":
		return fmt.Errorf("%s: belongs to %s; nothing was changed", f.Path, otherOwner(f.was))
	}
	return nil
}

// Foreign returns the file or folder at path, or else the closest one above that exists, with its owner, if it belongs
// to another user and only that one may write to it.
func Foreign(path string) (at, owner string) {
	info, err := os.Stat(path)
	switch {
	case err != nil && filepath.Dir(path) != path:
		return Foreign(filepath.Dir(path))
	case err != nil || info.Mode()&0o022 != 0:
		return "", ""
	}
	return path, otherOwner(info)
}

// replace replaces the file at path, which need not exist, by way of a new file beside it: after a
// crash of the process it has the old content or the new one. It replaces nothing if finish, which
// is given the new file, returns an error.
func replace(path string, text []byte, mode fs.FileMode, finish func(*os.File) error) (err error) {
	defer func() {
		if _, system := errors.AsType[*fs.PathError](err); system { // such as of a full disk; our own errors say it themselves
			err = fmt.Errorf("%w; nothing was changed", err)
		}
	}()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a successful rename
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), finish(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// unchanged returns an error if the file has changed since it was read.
func (f *File) unchanged() error {
	now, err := os.ReadFile(f.target)
	if !f.Exists && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (!f.Exists || !bytes.Equal(now, f.Text)) {
		err = fmt.Errorf("%s: was changed meanwhile; nothing was written", f.Path)
	}
	return err
}

// Remove removes the file. It returns an error and changes nothing if the file is not [File.Writable], or
// has changed since it was read.
func (f *File) Remove() error {
	if err := errors.Join(f.Writable(), f.unchanged()); err != nil {
		return err
	}
	return os.Remove(f.target)
}
