package state

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

// OpenFile reads a file that may be missing: its Text is nil then, and Replace makes
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

// Replace is [File.Write], and keeps what was read in a file beside it, whose name it
// returns; "" if there was none.
func (f *File) Replace(text []byte, now time.Time) (string, error) {
	return f.write(text, func() (string, error) { return f.backUp(now) })
}

// Write puts a new text in the place of what was read. A program that reads the file
// meanwhile sees the old text or the new one, whole. Nothing is changed if the file is
// read-only, or has been changed since it was read.
func (f *File) Write(text []byte) error {
	_, err := f.write(text, func() (string, error) { return "", nil })
	return err
}

// Writable says why a file cannot be written; nil: nothing speaks against it.
func (f *File) Writable() error {
	if f.Exists && f.mode&0o200 == 0 {
		return fmt.Errorf("%s: is read-only; nothing was changed", f.Path)
	}
	return nil
}

func (f *File) write(text []byte, backUp func() (string, error)) (backup string, err error) {
	if err := f.Writable(); err != nil {
		return "", err
	}
	dir := filepath.Dir(f.target)
	if !f.Exists {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", err
		}
	}
	made, err := f.beside(dir, text)
	if err != nil {
		return "", err
	}
	defer os.Remove(made) // it is gone if all went well
	if f.Exists {
		if backup, err = backUp(); err != nil {
			return "", err
		}
	}
	if err := f.unchanged(); err != nil {
		if backup != "" {
			_ = os.Remove(backup) // a copy of what has not been changed here
		}
		return "", err
	}
	if err := os.Rename(made, f.target); err != nil {
		return backup, err
	}
	return backup, nil
}

// beside writes the new text to a file in the same folder.
func (f *File) beside(dir string, text []byte) (string, error) {
	t, err := os.CreateTemp(dir, "."+filepath.Base(f.target)+".*.tmp")
	if err != nil {
		return "", err
	}
	_, err = t.Write(text)
	err = errors.Join(err, t.Chmod(f.mode), t.Sync(), t.Close())
	if err != nil {
		_ = os.Remove(t.Name()) // the first error says it all
		return "", err
	}
	return t.Name(), nil
}

// backUp copies what was read to a file of its own.
func (f *File) backUp(now time.Time) (string, error) {
	name := f.target + ".bak-" + now.Format("20060102T150405")
	for n := 2; ; n++ {
		b, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) && n < 100 {
			name = fmt.Sprintf("%s.bak-%s-%d", f.target, now.Format("20060102T150405"), n)
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = b.Write(f.Text)
		if err = errors.Join(err, b.Sync(), b.Close()); err != nil {
			_ = os.Remove(name) // half a copy is none
			return "", err
		}
		return name, nil
	}
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

// Undo takes back the last Replace: the newest backup takes the file's place, and
// without one the file goes.
func Undo(path string) (backup string, err error) {
	backups, err := filepath.Glob(escape(path) + ".bak-*")
	if err != nil {
		return "", err
	}
	if len(backups) == 0 {
		return "", os.Remove(path)
	}
	backup = slices.MaxFunc(backups, func(a, b string) int {
		return cmp.Or(cmp.Compare(stamp(a), stamp(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
	return backup, os.Rename(backup, path)
}

// escape takes a path literally in a pattern.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// stamp is when a backup was made: the first part of its ending.
func stamp(backup string) string {
	ending := backup[strings.LastIndex(backup, ".bak-"):]
	return ending[:min(len(ending), len(".bak-20060102T150405"))]
}

// Remove removes a file that is as it was read.
func (f *File) Remove() error {
	if err := f.unchanged(); err != nil {
		return err
	}
	return os.Remove(f.target)
}
