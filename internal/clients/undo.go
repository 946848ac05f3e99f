package clients

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/state"
)

// Change is a new text for a file, as an import makes it.
type Change struct {
	File    *state.File
	Text    []byte
	Pointed *Pointed // of a client's file
	Renamed []Rename // of a file with rules about tools
	Hooks   bool     // the file has hooks of mcpschedd then
}

// Rename is a word that was replaced in a file with rules.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// record is one import, kept as run.json in a folder of its own beside the files as they were.
type record struct {
	Sources []string `json:"sources"` // the clients' files that were read
	Files   []*saved `json:"files"`

	folder string // of the copies
}

// saved is one file of a run. Secret as its content may be, the record has only digests.
type saved struct {
	Path    string   `json:"path"`
	Kept    string   `json:"kept,omitempty"` // name of the copy; "": there was no file
	Before  string   `json:"before,omitempty"`
	After   string   `json:"after"`
	Made    string   `json:"made,omitempty"` // of a client's file: name of a copy of what it became
	Moves   []Move   `json:"moves,omitempty"`
	Renamed []Rename `json:"renamed,omitempty"`
	Hooks   bool     `json:"hooks,omitempty"`
}

const runs = "import" // folder of the state

// Locked runs one import or undo at a time.
func Locked(dir state.Dir, work func() error) error {
	return dir.Update(runs+"/last", func([]byte) ([]byte, error) {
		return []byte(time.Now().UTC().Format(time.RFC3339) + "\n"), work()
	})
}

// Apply makes changes, all or none: first each file is copied and the copies are on the
// disk, then the files are replaced. It returns the folder of the copies. Sources are the
// clients' files that the import has read, by which it can be undone.
func Apply(dir state.Dir, sources []string, changes []Change, now time.Time) (string, error) {
	folder, err := newFolder(dir, now)
	if err != nil {
		return "", err
	}
	r := &record{Sources: sources, folder: folder}
	for i, c := range changes {
		if err := c.File.Writable(); err != nil {
			return "", errors.Join(err, os.RemoveAll(folder))
		}
		s := &saved{Path: c.File.Path, After: digest(c.Text), Renamed: c.Renamed, Hooks: c.Hooks}
		if c.Pointed != nil {
			s.Moves, s.Made = c.Pointed.Moves, fmt.Sprintf("%d-made-%s", i, filepath.Base(c.File.Path))
			if err := keep(filepath.Join(folder, s.Made), c.Text); err != nil {
				return "", errors.Join(err, os.RemoveAll(folder))
			}
		}
		if c.File.Exists {
			s.Kept, s.Before = fmt.Sprintf("%d-%s", i, filepath.Base(c.File.Path)), digest(c.File.Text)
			if err := keep(filepath.Join(folder, s.Kept), c.File.Text); err != nil {
				return "", errors.Join(err, os.RemoveAll(folder))
			}
		}
		r.Files = append(r.Files, s)
	}
	if err := r.save(); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	for i, c := range changes {
		if err := c.File.Write(c.Text); err != nil {
			r.Files = r.Files[:i] // this file is another program's now
			_, back := r.undo(func(string) bool { return true })
			return "", errors.Join(err, back)
		}
	}
	return folder, nil
}

// newFolder makes a folder for a run; their names are in the order of the runs.
func newFolder(dir state.Dir, now time.Time) (string, error) {
	name := now.UTC().Format("20060102T150405")
	if err := os.MkdirAll(dir.Path(runs), 0o700); err != nil {
		return "", err
	}
	for n := 1; ; n++ {
		path := dir.Path(fmt.Sprintf("%s/%s-%03d", runs, name, n))
		if err := os.Mkdir(path, 0o700); err == nil || !errors.Is(err, fs.ErrExist) || n == 999 {
			return path, err
		}
	}
}

// keep writes a file, a new one with 0600, and waits until it is on the disk.
func keep(path string, data []byte) error {
	f, err := state.OpenFile(path)
	if err != nil {
		return err
	}
	return f.Write(data)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (r *record) save() error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return keep(filepath.Join(r.folder, "run.json"), append(data, '\n'))
}

// Undone is what an undo did with one file, or did not do.
type Undone struct {
	Path string
	What string
}

// Undo takes back what imports did to the files that only says, the last import first: a
// file that was not changed since is as it was before, byte by byte; in a client's file that
// was, the servers stand again and mcpschedd does not. Our own files go with the last file of
// a client. A copy that is not whole is no copy.
func Undo(dir state.Dir, only func(path string) bool) ([]Undone, error) {
	records, err := load(dir)
	failed := []error{err}
	var all []Undone
	for _, r := range slices.Backward(records) {
		done, err := r.undo(only)
		all, failed = append(all, done...), append(failed, err)
	}
	return all, errors.Join(failed...)
}

// Moved are the servers of Claude Code that imports have moved.
func Moved(dir state.Dir) ([]Move, error) {
	records, err := load(dir)
	var all []Move
	for _, r := range records {
		for _, s := range r.Files {
			if filepath.Base(s.Path) == ".claude.json" {
				all = append(all, s.Moves...)
			}
		}
	}
	return all, err
}

// load reads the records of all runs that are not undone, the first one first.
func load(dir state.Dir) ([]*record, error) {
	entries, err := os.ReadDir(dir.Path(runs))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []*record
	var failed []error
	for _, e := range entries {
		r := &record{folder: filepath.Join(dir.Path(runs), e.Name())}
		data, err := os.ReadFile(filepath.Join(r.folder, "run.json"))
		if errors.Is(err, fs.ErrNotExist) || !e.IsDir() {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, r)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", r.folder, err))
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(failed...)
}

// undo takes back one run, the last file first, and forgets it if nothing of it is left.
func (r *record) undo(only func(path string) bool) ([]Undone, error) {
	var all []Undone
	var failed []error
	var left []*saved
	changed := false // one of our own files was: those that it names stay with it
	for _, s := range slices.Backward(r.Files) {
		if r.waits(s, only) || s.isOurs() && len(failed) > 0 {
			left = append(left, s)
			continue
		}
		if s.isOurs() && changed {
			continue
		}
		what, err := s.restore(r.folder)
		if err != nil {
			failed, left = append(failed, err), append(left, s)
		}
		if what != "" {
			all = append(all, Undone{Path: s.Path, What: what})
		}
		changed = changed || what == leftAlone
	}
	slices.Reverse(left)
	before := len(r.Files)
	switch r.Files = left; {
	case len(left) == 0:
		failed = append(failed, os.RemoveAll(r.folder))
	case len(left) < before:
		failed = append(failed, r.save())
	}
	return all, errors.Join(failed...)
}

// isOurs reports whether a file is the configuration, or one of variables.
func (s *saved) isOurs() bool { return !s.isClients() && !s.isSettings() }

// isClients reports whether a file is that of a client, which has servers.
func (s *saved) isClients() bool { return s.Made != "" }

// isSettings reports whether a file has rules or hooks of Claude Code.
func (s *saved) isSettings() bool { return len(s.Renamed) > 0 || s.Hooks }

// waits reports whether a file is not to be taken back yet: it is that of another client, or a
// client that needs it keeps mcpschedd.
func (r *record) waits(s *saved, only func(path string) bool) bool {
	if s.isClients() {
		return !only(s.Path)
	}
	needs := "" // any client's
	if s.isSettings() {
		needs = ".claude.json"
	}
	return !slices.ContainsFunc(r.Sources, only) || slices.ContainsFunc(r.Files, func(o *saved) bool {
		return o.isClients() && strings.HasSuffix(o.Path, needs) && !only(o.Path)
	})
}

const leftAlone = "has been changed since, and was left as it is"

// restore makes a file what it was; "": it is already.
func (s *saved) restore(folder string) (string, error) {
	f, err := state.OpenFile(s.Path)
	if err != nil {
		return "", err
	}
	var was []byte
	if s.Kept != "" {
		if was, err = os.ReadFile(filepath.Join(folder, s.Kept)); err != nil {
			return "", err
		}
		if digest(was) != s.Before {
			return "", fmt.Errorf("%s: the copy %s is not whole; nothing was changed", s.Path, filepath.Join(folder, s.Kept))
		}
	}
	switch now := digest(f.Text); {
	case f.Exists == (s.Kept != "") && (!f.Exists || bytes.Equal(f.Text, was)):
		return "", nil
	case s.Kept == "" && now == s.After:
		return "removed", f.Remove()
	case now == s.After:
		return "as it was before", f.Write(was)
	case !f.Exists && s.isClients():
		return "made again, as it was before", f.Write(was)
	case s.isClients():
		made, err := os.ReadFile(filepath.Join(folder, s.Made))
		if err != nil {
			return "", err
		}
		text, err := back(s.Path, f.Text, was, made)
		if err != nil {
			return "", err
		}
		return "has been changed since: only mcpschedd was taken out, and its servers were put back", f.Write(text)
	case s.isSettings() && f.Exists:
		text := renamedBack(f.Text, s.Renamed)
		if s.Hooks {
			if text, err = WithHooks(s.Path, text, nil); err != nil {
				return "", err
			}
		}
		return "has been changed since: only the names of tools, or the hooks, were taken back", f.Write(text)
	}
	return leftAlone, nil
}
