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

// receipt is one import, stored as run.json in a folder with the copies of its files.
type receipt struct {
	Sources []string  `json:"sources"` // clients' files that were read; nil once only files of mcpschedd are left to undo
	Files   []*Change `json:"files"`

	folder string // of the copies
}

const receipts = "import" // folder in the state directory

// Locked runs work while holding the lock for imports, undos and edits of the configuration.
func Locked(dir state.Dir, work func() error) error {
	return dir.Update(receipts+"/last", func(old []byte) ([]byte, error) { return old, work() })
}

// Apply makes all changes or none. It first copies each file and syncs the copies, then
// replaces the files. It returns the folder of the copies, without which Undo does not
// revert the changes. sources are the clients' files that were read, by which the import
// can be undone.
func Apply(dir state.Dir, sources []string, changes []Change, now time.Time) (string, error) {
	if len(changes) == 0 {
		return "", nil
	}
	err := os.MkdirAll(dir.Path(receipts), 0o700)
	if err != nil {
		return "", err
	}
	// Such names sort in the order of the imports.
	folder, err := os.MkdirTemp(dir.Path(receipts), now.UTC().Format("20060102T150405.000000000")+"-*")
	if err != nil {
		return "", err
	}
	r := &receipt{Sources: sources, folder: folder}
	files, err := r.prepare(changes)
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}
	for i, f := range files {
		if err := f.Write(changes[i].Text); err != nil { // such as when another program has changed this file
			r.Files = r.Files[:i]
			_, back := r.undo(func(string) bool { return true }, false)
			return "", errors.Join(err, back)
		}
	}
	return folder, nil
}

// prepare copies the files that are to be changed, and saves the receipt.
func (r *receipt) prepare(changes []Change) (files []*state.File, err error) {
	for i, c := range changes {
		f, err := state.OpenFile(c.Path)
		if err == nil && !bytes.Equal(f.Text, c.Was) {
			err = fmt.Errorf("%s: was changed meanwhile; nothing was written", c.Path)
		}
		if err == nil {
			err = f.Writable()
		}
		if err != nil {
			return nil, err
		}
		c.After = digest(c.Text)
		if f.Exists {
			c.Kept = fmt.Sprintf("%d-%s", i, filepath.Base(c.Path))
			if err := keep(filepath.Join(r.folder, c.Kept), c.Was); err != nil {
				return nil, err
			}
		}
		files, r.Files = append(files, f), append(r.Files, &c)
	}
	return files, r.save()
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

func (r *receipt) save() error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return keep(filepath.Join(r.folder, "run.json"), append(data, '\n'))
}

// Undo reverts imports, the last one first, in the files for which only returns true. A
// file that has not changed since is restored byte for byte. In a client's file that has
// changed, the servers are restored and mcpschedd is removed. Files of mcpschedd are restored with the
// last client's file and after those of later imports, those with rules or hooks already with Claude Code's.
// It returns a line for each file.
func Undo(dir state.Dir, only func(path string) bool) (all []string, err error) {
	imports, err := load(dir)
	failed, later := []error{err}, false
	for _, r := range slices.Backward(imports) {
		done, err := r.undo(only, later)
		all, failed = append(all, done...), append(failed, err)
		later = later || slices.ContainsFunc(r.Files, func(c *Change) bool { return !c.isSettings() })
	}
	return all, errors.Join(failed...)
}

// Moved returns the servers of Claude Code that imports have moved.
func Moved(dir state.Dir) (all []Move, err error) {
	imports, err := load(dir)
	for _, r := range imports {
		for _, c := range r.Files {
			if isClaudes(c.Path) {
				all = append(all, c.Moves...)
			}
		}
	}
	return all, err
}

// isClaudes reports whether Claude Code has its servers in a file.
func isClaudes(path string) bool { return filepath.Base(path) == ".claude.json" }

// load reads the receipts of all imports that have not been undone, in order.
func load(dir state.Dir) (all []*receipt, err error) {
	names, err := fs.Glob(os.DirFS(dir.Path(receipts)), "*/run.json")
	failed := []error{err}
	for _, name := range names {
		path := filepath.Join(dir.Path(receipts), name)
		r := &receipt{folder: filepath.Dir(path)}
		data, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(data, r)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", path, err))
			continue
		}
		all = append(all, r)
	}
	return all, errors.Join(failed...)
}

// undo reverts one import, the last file first, and deletes its receipt if nothing is left. Files of mcpschedd
// are restored with the last client's file, unless a later import remains, which may have changed or may use
// them. Those of rules are with Claude Code's, as what they deny would be allowed at the servers that are back.
func (r *receipt) undo(only func(path string) bool, later bool) (all []string, err error) {
	var failed []error
	var left []*Change
	remains := func(c *Change) bool { return c.Client && !only(c.Path) }
	undone := (r.Sources == nil || slices.ContainsFunc(r.Sources, only)) && !slices.ContainsFunc(r.Files, remains)
	last := undone && !later
	rules := undone || slices.ContainsFunc(r.Sources, func(path string) bool { return isClaudes(path) && only(path) })
	var changed []byte // the configuration, if it has changed since: the files of variables that it names stay with it
	for _, c := range slices.Backward(r.Files) {
		isVariables, due := filepath.Ext(c.Path) == ".env", last
		if c.isSettings() {
			due = rules
		}
		switch {
		case remains(c), !c.Client && (!due || len(failed) > 0):
			if left = append(left, c); undone && later && r.Sources != nil && !isVariables { // said once
				all = append(all, c.Path+": left until the later imports are undone")
			}
			continue
		case isVariables && bytes.Contains(changed, []byte(filepath.Base(c.Path))):
			all = append(all, c.Path+": left with the configuration, which names it")
			continue
		}
		what, err := c.restore(r.folder)
		if err != nil {
			failed, left = append(failed, err), append(left, c)
		} else if what != "" {
			all = append(all, c.Path+": "+what)
		}
		if what == leftAlone && !isVariables && !c.isSettings() {
			changed, _ = os.ReadFile(c.Path) // nothing is named if it is gone
		}
	}
	slices.Reverse(left)
	if undone && len(failed) == 0 {
		r.Sources = nil
	}
	if r.Files = left; len(left) == 0 {
		failed = append(failed, os.RemoveAll(r.folder))
	} else {
		failed = append(failed, r.save())
	}
	return all, errors.Join(failed...)
}

// isSettings reports whether the file has rules or hooks of Claude Code.
func (c *Change) isSettings() bool { return len(c.Renamed) > 0 || c.Hooks }

const leftAlone = "changed since: left unchanged"

// restore reverts the file and returns what it did; "" if there was nothing to do.
func (c *Change) restore(folder string) (what string, err error) {
	f, err := state.OpenFile(c.Path)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Dir(c.Path)); c.Client && errors.Is(err, fs.ErrNotExist) { // as when the home directory has another name now
		return "", fmt.Errorf("%s: its folder is gone: create it, or take the original from %s", c.Path, filepath.Join(folder, c.Kept))
	}
	var was []byte
	if c.Kept != "" {
		if was, err = os.ReadFile(filepath.Join(folder, c.Kept)); err != nil {
			return "", err
		}
	}
	switch now := digest(f.Text); {
	case f.Exists == (c.Kept != "") && bytes.Equal(f.Text, was):
		return "", nil
	case c.Kept == "" && now == c.After:
		return "removed", f.Remove()
	case now == c.After, !f.Exists && c.Client:
		return "restored", f.Write(was)
	case c.Client:
		what = "changed since: only removed mcpschedd, and put the servers back"
		was, err = reverted(c.Path, f.Text, was, c.Moves)
	case f.Exists && c.isSettings():
		what = "changed since: only reverted the names of tools and the hooks"
		was = f.Text
	default:
		return leftAlone, nil
	}
	was = renamedBack(was, c.Renamed)
	if c.Hooks && err == nil {
		was, err = WithHooks(c.Path, was, nil)
	}
	if err != nil {
		return "", err
	}
	return what, f.Write(was)
}
