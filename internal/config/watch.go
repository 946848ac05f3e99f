package config

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	debounce = 100 * time.Millisecond // without events before the file is read; editors write in several steps
	maxDelay = time.Second            // from the first event to the reading
)

// Watch blocks until ctx ends, and then returns nil, or until it can no longer watch. Whenever the
// content of c's file or of the tuned.toml beside it changes, it calls changed in the same
// goroutine, with the new configuration or an error. It never reports the same content twice in a
// row, valid or not. A file that disappears or becomes empty is an error, so that an editor's pause
// between truncating and writing, or a vanished mount, does not remove every upstream.
//
// Watch first compares the file with c.Digest, so it also reports a change made since c was loaded.
// The file c.Path need not exist yet.
//
// files returns, in the same goroutine, the env files to watch too: see [Config.EnvFiles]. Watch calls
// envChanged, in the same goroutine, when the content of one changes.
//
// A value received from rescan is an event too, since files may return others then. rescan may be nil.
func Watch(ctx context.Context, c *Config, files func() []string, rescan <-chan struct{}, envChanged func(), changed func(*Config, error)) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Close()
	r := &reloader{path: c.Path, last: c.Digest, files: files, envChanged: envChanged, changed: changed}
	r.rewatch = func() error { return watchDirs(w, c.Path, files()) }
	return r.run(ctx, w.Events, w.Errors, rescan)
}

// reloader loads the configuration again after file system events.
type reloader struct {
	path       string
	last       [32]byte             // digest of the last content or error
	files      func() []string      // env files
	env        map[string][32]byte  // digest of the content of each; zero without any
	envChanged func()               // is called when one has new content
	changed    func(*Config, error) // receives new content of the configuration
	rewatch    func() error         // renews the watches; see watchDirs
}

// run reads the file after every burst of events in the watched directories. It does not check
// which events concern the file, because unchanged content is not reported.
func (r *reloader) run(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, rescan <-chan struct{}) error {
	if err := r.rewatch(); err != nil {
		return err
	}
	due := time.NewTimer(0)
	defer due.Stop()
	var latest time.Time // when the file is read though events keep coming
	for {
		ok := true
		select {
		case <-ctx.Done():
			return nil
		case <-due.C:
			latest = time.Time{}
			if err := r.reload(); err != nil {
				return err
			}
			continue
		case <-rescan:
		case _, ok = <-events:
		case _, ok = <-errs: // events were probably lost
		}
		if !ok {
			return errors.New("watch: ended by the system")
		}
		if latest.IsZero() {
			latest = time.Now().Add(maxDelay)
		}
		due.Reset(max(0, min(debounce, time.Until(latest))))
	}
}

// reload reads the env files, the file, and the env files that it names now, and reports new content. It
// returns an error if later changes cause no event.
func (r *reloader) reload() error {
	unwatched := r.rewatch() // before the reading, so that a change after it causes an event
	env := r.readEnv()       // before new content is applied with them, so that a change after it is noticed
	r.reloadFile()
	unwatched = cmp.Or(unwatched, r.rewatch())
	if r.readEnv() || env {
		r.envChanged()
	}
	return unwatched
}

// readEnv reads the env files, and reports whether one that was known before has other content now. One
// that is missing or empty has not changed, since its writer may not be done. A pipe is not read, because what
// is read from it is lost to the upstream.
func (r *reloader) readEnv() (changed bool) {
	last, none := r.env, [32]byte{}
	r.env = make(map[string][32]byte)
	for _, file := range r.files() {
		now := none
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			data, err := os.ReadFile(file)
			now = sha256.Sum256(fmt.Append(data, err))
		}
		before, known := last[file]
		changed = changed || known && now != before && now != none
		r.env[file] = now
	}
	return changed
}

// reloadFile reads the file and reports new content, if there is any.
func (r *reloader) reloadFile() {
	data, tuned, err := readBoth(r.path)
	current := digest(data, tuned)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		current = [32]byte{}
	case err != nil:
		current = digest(nil, []byte(err.Error()))
	}
	if current == r.last {
		return
	}
	r.last = current
	switch {
	case err != nil:
		r.changed(nil, err)
	case len(bytes.TrimSpace(data)) == 0:
		r.changed(nil, &Error{Problems: []Problem{{File: r.path, Line: 1, Message: "the file is empty; write a comment line to use the defaults"}}})
	default:
		r.changed(parse(Default(), r.path, data, tuned))
	}
}

// watchDirs watches the directory of the file and of tuned.toml, those of the files that either
// links to, and the nearest existing directory above, in which the directory may be created or
// replaced: a new user has no ~/.config yet. It watches the directories of the env files likewise. It
// does not watch a file itself, because such a watch stays with the old file when an editor renames a
// new one over it. watchDirs returns an error only if no directory can be watched.
func watchDirs(w *fsnotify.Watcher, path string, envFiles []string) error {
	dirs := []string{filepath.Dir(path), existing(filepath.Dir(filepath.Dir(path)))}
	for _, file := range envFiles {
		dirs = append(dirs, existing(filepath.Dir(file)))
	}
	for _, link := range append([]string{path, TunedPath(path)}, envFiles...) {
		if file, err := filepath.EvalSymlinks(link); err == nil {
			dirs = append(dirs, filepath.Dir(file))
		}
	}
	for _, old := range w.WatchList() {
		if !slices.Contains(dirs, old) {
			_ = w.Remove(old) // fails if the directory no longer exists
		}
	}
	var missing error
	for _, dir := range dirs {
		// Add is repeated because the directory may have been replaced.
		if err := w.Add(dir); err != nil {
			missing = fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	if len(w.WatchList()) > 0 {
		return nil
	}
	return missing
}

// existing returns dir, or the nearest directory above that exists.
func existing(dir string) string {
	for _, err := os.Stat(dir); err != nil && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}
