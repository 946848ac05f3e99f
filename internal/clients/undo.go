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
	"time"

	"mcpschedd/internal/state"
)

// Change is a new text for a file.
type Change struct {
	File    *state.File
	Text    []byte
	Pointed *Pointed // set for a client's file
	Renamed []Rename // set for a file with rules about tools
	Hooks   bool     // the new text has hooks of mcpschedd
}

// Rename is a replaced word in a file with rules.
type Rename struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// record is one import, stored as run.json in a folder with the copies of its files.
type record struct {
	Sources []string `json:"sources"` // clients' files that were read
	Files   []*saved `json:"files"`

	folder string // of the copies
}

// saved is one file of an import. Its contents may be secret, so the record has only
// digests.
type saved struct {
	Path    string   `json:"path"`
	Kept    string   `json:"kept,omitempty"` // name of the copy; "" if the file did not exist
	Before  string   `json:"before,omitempty"`
	After   string   `json:"after"`
	Client  bool     `json:"client,omitempty"` // it is a client's file with servers
	Moves   []Move   `json:"moves,omitempty"`
	Renamed []Rename `json:"renamed,omitempty"`
	Hooks   bool     `json:"hooks,omitempty"`
}

const runs = "import" // folder in the state directory

// Locked runs work while holding the lock for imports and undos.
func Locked(dir state.Dir, work func() error) error {
	return dir.Update(runs+"/last", func([]byte) ([]byte, error) {
		return []byte(time.Now().UTC().Format(time.RFC3339) + "\n"), work()
	})
}

// Apply makes all changes or none. It first copies each file and syncs the copies, then
// replaces the files. It returns the folder of the copies. sources are the clients'
// files that were read, by which the import can be undone.
func Apply(dir state.Dir, sources []string, changes []Change, now time.Time) (string, error) {
	folder := dir.Path(runs + "/" + now.UTC().Format("20060102T150405.000000000")) // sorts in the order of the imports
	for {
		err := os.MkdirAll(filepath.Dir(folder), 0o700)
		if err == nil {
			err = os.Mkdir(folder, 0o700)
		}
		if err == nil {
			break
		} else if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		folder += "+" // of the same instant
	}
	r := &record{Sources: sources, folder: folder}
	if err := r.prepare(changes); err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	for i, c := range changes {
		if err := c.File.Write(c.Text); err != nil {
			r.Files = r.Files[:i] // another program has changed this file
			_, back := r.undo(func(string) bool { return true })
			return "", errors.Join(err, back)
		}
	}
	return folder, nil
}

// prepare copies the files that are to be changed, and saves the record.
func (r *record) prepare(changes []Change) error {
	for i, c := range changes {
		if err := c.File.Writable(); err != nil {
			return err
		}
		s := &saved{Path: c.File.Path, After: digest(c.Text), Renamed: c.Renamed, Hooks: c.Hooks}
		if c.Pointed != nil {
			s.Moves, s.Client = c.Pointed.Moves, true
		}
		if c.File.Exists {
			s.Kept, s.Before = fmt.Sprintf("%d-%s", i, filepath.Base(c.File.Path)), digest(c.File.Text)
			if err := keep(filepath.Join(r.folder, s.Kept), c.File.Text); err != nil {
				return err
			}
		}
		r.Files = append(r.Files, s)
	}
	return r.save()
}

// keep writes and syncs a file; a new one gets mode 0600.
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

// Undone is the result of an undo for one file.
type Undone struct {
	Path string
	What string
}

// Undo reverts imports, the last one first, in the files for which only returns true. A
// file that has not changed since is restored byte for byte. In a client's file that has
// changed, the servers are restored and mcpschedd is removed. Files of mcpschedd are
// restored with the last client's file. An incomplete copy is not used.
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

// Moved returns the servers of Claude Code that imports have moved.
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

// load reads the records of all imports that have not been undone, in order.
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

// undo reverts one import, the last file first, and deletes its record if nothing is
// left. Files of mcpschedd and of rules are restored with the last client's file.
func (r *record) undo(only func(path string) bool) (all []Undone, err error) {
	var failed []error
	var left []*saved
	remains := func(s *saved) bool { return s.Client && !only(s.Path) }
	last := slices.ContainsFunc(r.Sources, only) && !slices.ContainsFunc(r.Files, remains)
	changed := false // one of our files has changed since: the files that it names stay with it
	for _, s := range slices.Backward(r.Files) {
		switch isOurs := !s.Client && !s.isSettings(); {
		case remains(s), !s.Client && (!last || len(failed) > 0):
			left = append(left, s)
			continue
		case isOurs && changed:
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
	if r.Files = left; len(left) == 0 {
		failed = append(failed, os.RemoveAll(r.folder))
	} else {
		failed = append(failed, r.save())
	}
	return all, errors.Join(failed...)
}

// isSettings reports whether the file has rules or hooks of Claude Code.
func (s *saved) isSettings() bool { return len(s.Renamed) > 0 || s.Hooks }

const leftAlone = "changed since: left unchanged"

// restore reverts the file and returns what it did; "" if there was nothing to do.
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
			return "", fmt.Errorf("%s: the copy %s is damaged; nothing was changed", s.Path, filepath.Join(folder, s.Kept))
		}
	}
	switch now := digest(f.Text); {
	case f.Exists == (s.Kept != "") && (!f.Exists || bytes.Equal(f.Text, was)):
		return "", nil
	case s.Kept == "" && now == s.After:
		return "removed", f.Remove()
	case now == s.After:
		return "restored", f.Write(was)
	case !f.Exists && s.Client:
		return "restored, as it had been deleted", f.Write(was)
	case s.Client:
		text, err := revert(s.Path, f.Text, was, s.Moves)
		if err != nil {
			return "", err
		}
		return "changed since: only removed mcpschedd, and put the servers back", f.Write(text)
	case s.isSettings() && f.Exists:
		text := renamedBack(f.Text, s.Renamed)
		if s.Hooks {
			if text, err = WithHooks(s.Path, text, nil); err != nil {
				return "", err
			}
		}
		return "changed since: only reverted the names of tools and the hooks", f.Write(text)
	}
	return leftAlone, nil
}
