package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"
)

// File is a file that a person or another program writes too, to be changed in place.
type File struct {
	Path   string // as it was named
	Text   []byte // what it holds
	Exists bool
	target string // the file itself, behind links
	mode   fs.FileMode
}

// OpenFile reads a file that may be missing: its Text is nil then, and Write makes
// it. A link is followed; one that leads nowhere, and what is no file, is an error.
func OpenFile(path string) (*File, error) {
	f := &File{Path: path, mode: 0o600}
	var err error
	if f.target, err = filepath.EvalSymlinks(path); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s: the link leads to no file", path)
		}
		f.target = path
		return f, nil
	} else if err != nil {
		return nil, err
	}
	s, err := os.Stat(f.target)
	if err != nil {
		return nil, err
	}
	if !s.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: want a file", path)
	}
	f.mode, f.Exists = s.Mode().Perm(), true
	f.Text, err = os.ReadFile(f.target)
	return f, err
}

// Write puts a new text in the place of what was read. A program that reads the file
// meanwhile sees the old text or the new one, whole. Nothing is changed if the file is
// read-only, or has been changed since it was read.
func (f *File) Write(text []byte) error {
	if err := f.Writable(); err != nil {
		return err
	}
	if !f.Exists {
		if err := os.MkdirAll(filepath.Dir(f.target), 0o700); err != nil {
			return err
		}
	}
	temp, err := writeTemp(f.target, text, func(t *os.File) error { return errors.Join(t.Chmod(f.mode), t.Sync()) })
	if err != nil {
		return err
	}
	defer os.Remove(temp) // it is gone if all went well
	if err := f.unchanged(); err != nil {
		return err
	}
	return os.Rename(temp, f.target)
}

// Writable says why a file cannot be written; nil: nothing speaks against it.
func (f *File) Writable() error {
	if f.Exists && f.mode&0o200 == 0 {
		return fmt.Errorf("%s: is read-only; nothing was changed", f.Path)
	}
	return nil
}

// beside writes a text to a new file (0600) in the folder of another, and returns its path.
// What is left to do before it is closed is done by finish.
func writeTemp(path string, text []byte, finish func(*os.File) error) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, finish(f), f.Close()); err != nil {
		_ = os.Remove(f.Name()) // the first error says it all
		return "", err
	}
	return f.Name(), nil
}

// unchanged reports what has become of the file since it was read.
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

// Diff is what changes in a file, in the unified format; nil: nothing does.
func Diff(name string, before, after []byte) []byte {
	return diff.Diff(name, before, name+" (with what is proposed)", after)
}

// Remove removes a file that is as it was read.
func (f *File) Remove() error {
	if err := f.unchanged(); err != nil {
		return err
	}
	return os.Remove(f.target)
}
