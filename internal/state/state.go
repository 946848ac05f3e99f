// Package state owns the files in the state folder: each is written whole or
// not at all, and readable by this user alone.
//
//	dir, err := state.Open(path)
//	err = dir.Write("offers/github.json", data)
//
// It knows nothing of what the bytes mean.
package state

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir is a state folder.
type Dir struct{ path string }

// Open makes the folder if it is missing (0700) and returns it.
func Open(path string) (Dir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return Dir{}, fmt.Errorf("state folder: %w", err)
	}
	return Dir{path}, nil
}

// Path is where a file of that name stands.
func (d Dir) Path(name string) string { return filepath.Join(d.path, filepath.FromSlash(name)) }

// Read returns a file; an error wraps fs.ErrNotExist if there is none.
func (d Dir) Read(name string) ([]byte, error) { return os.ReadFile(d.Path(name)) }

// Write replaces a file (0600). A crash leaves the old one or the new one,
// whole; of two processes that write at once, the later wins.
func (d Dir) Write(name string, data []byte) error {
	path := d.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	temp, err := writeTemp(path, data, func(*os.File) error { return nil })
	if err != nil {
		return err
	}
	defer os.Remove(temp) // it is gone if all went well
	return os.Rename(temp, path)
}
