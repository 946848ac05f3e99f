// Package state owns the files in the state folder. Each file is replaced atomically, and
// readable only by the user. [File] edits files of other programs and of the user, elsewhere.
//
//	dir, err := state.Open(path)
//	err = dir.Write("offers/github.json", data)
//
// It does not interpret their contents.
package state

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// Dir is a state folder.
type Dir struct {
	path     string
	onlyRead bool // see OnlyRead
}

// Open creates the folder (0700) if it is missing, and returns it.
func Open(path string) (Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return Dir{}, fmt.Errorf("state folder: %w", err)
	}
	return Dir{path: path}, nil
}

// Exposed reports whether the folder ("") or a file in it has one of the permissions of others. It does not on
// Windows, where access lists take their place.
func (d Dir) Exposed(name string, others fs.FileMode) bool {
	info, err := os.Stat(d.Path(name))
	return err == nil && runtime.GOOS != "windows" && info.Mode()&others != 0
}

// OnlyRead returns a folder for a command that only reads, also where it must not write. The folder
// need not exist; Write and Update change nothing, and take no lock.
func OnlyRead(path string) Dir { return Dir{path: path, onlyRead: true} }

// Path returns the path of a file.
func (d Dir) Path(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// maxFile is the size in bytes of a file that is read. None that mcpschedd writes comes near it.
const maxFile = 256 << 20

// Read returns the content of a file; the error wraps fs.ErrNotExist if it does not exist. A pipe, which could block
// for ever, and a huge file were put there by something else.
func (d Dir) Read(name string) ([]byte, error) {
	path := d.Path(name)
	if info, err := os.Stat(path); err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		return nil, fmt.Errorf("%s: want a regular file of up to 256 MiB; remove it", path)
	}
	return os.ReadFile(path)
}

// Write replaces a file (0600). After a crash of the process it has the old content or the new one;
// it is not synced to the disk. If two processes write at once, the later one wins.
func (d Dir) Write(name string, data []byte) error {
	if d.onlyRead {
		return nil
	}
	return replace(d.Path(name), data, 0o600, func(*os.File) error { return nil })
}

// RemoveUnused removes the files of a subfolder that have not been written for an age, until ctx ends. A lock of
// [Dir.Update], which is never written, goes with its file.
func (d Dir) RemoveUnused(ctx context.Context, folder string, age time.Duration) {
	entries, _ := os.ReadDir(d.Path(folder)) // what cannot be read or removed stays; a file is before its lock
	for _, e := range entries {
		if ctx.Err() != nil {
			return
		}
		path := filepath.Join(d.Path(folder), e.Name())
		if file, isLock := strings.CutSuffix(path, ".lock"); isLock {
			if _, err := os.Lstat(file); err == nil {
				continue // without it, processes that wait for it and later ones would not exclude each other
			}
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > age {
			_ = os.Remove(path)
		}
	}
}
