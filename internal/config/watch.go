package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	quiet   = 100 * time.Millisecond // how long nothing must happen before the file is read: editors write in steps
	longest = time.Second            // but no longer than this after the first step
)

// Watch calls changed for every new content of c's file, or of the tuned.toml beside it, with
// the new value or with why it cannot be used, until ctx ends. The same content is never
// reported twice in a row, be it good or bad. A file that disappears or becomes empty is
// an error, so that an editor's pause between truncating and writing, or a
// vanished mount, does not take every upstream away.
//
// What happened between loading c and the call is not lost: the file is
// compared with c.Digest first. A configuration without a file may name one
// that does not exist yet in c.Path. changed is called from Watch's own
// goroutine, which is the caller's. What further finds is an error as any other.
func Watch(ctx context.Context, c *Config, changed func(*Config, error), validators ...Validator) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Close()
	f := &follower{path: c.Path, last: c.Digest, changed: changed, validators: validators, rewatch: func() error { return watchFolders(w, c.Path) }}
	return f.run(ctx, w.Events, w.Errors)
}

// follower turns events of the file system into configurations.
type follower struct {
	path       string
	last       [32]byte             // digest of the contents last seen; zero: no file
	changed    func(*Config, error) // told about new content
	validators []Validator          // as for Parse
	rewatch    func() error         // watches the folders that matter now
}

// run reads the file whenever events of its folders have come to rest: which of them concern
// it is not told apart, as the same content is not reported again.
func (f *follower) run(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) error {
	if err := f.rewatch(); err != nil {
		return err
	}
	due := time.NewTimer(0)
	defer due.Stop()
	var first time.Time // of the events not yet acted on
	touch := func() {
		if first.IsZero() {
			first = time.Now()
		}
		due.Reset(max(0, min(quiet, time.Until(first.Add(longest)))))
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-events:
			if !ok {
				return errors.New("watch: ended by the system")
			}
			touch()
		case _, ok := <-errs:
			if !ok {
				return errors.New("watch: ended by the system")
			}
			touch() // most likely events were lost
		case <-due.C:
			first = time.Time{}
			f.look()
		}
	}
}

// look reads the file and reports what is new.
func (f *follower) look() {
	// Watching comes first, so that a change after the reading gives an event.
	// Its error repeats itself in the reading.
	_ = f.rewatch()
	data, err := read(f.path)
	var tuned []byte
	if err == nil {
		tuned, err = readTuned(f.path)
	}
	seen := digest(data, tuned)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		seen = [32]byte{}
	case err != nil:
		seen = sha256.Sum256([]byte("\x00" + err.Error())) // no file begins like that
	}
	if seen == f.last {
		return
	}
	f.last = seen
	switch {
	case err != nil:
		f.changed(nil, err)
	case len(bytes.TrimSpace(data)) == 0:
		f.changed(nil, &Error{Problems: []Problem{{File: f.path, Line: 1, Message: "the file is empty; a comment line is enough to say that the defaults are meant"}}})
	default:
		f.changed(parse(Default(), f.path, data, tuned, f.validators))
	}
}

// watchFolders watches the folders of the file, of the tuned.toml beside it and of what either
// links to, and the one above, in which its own may be replaced: a watch on a file itself would
// stay with the old one when an editor renames a new one over it. A folder that is missing is
// waited for in the one above it; its error counts if nothing can be watched.
func watchFolders(w *fsnotify.Watcher, path string) (missing error) {
	folders := []string{filepath.Dir(path), filepath.Dir(filepath.Dir(path))}
	for _, link := range []string{path, TunedPath(path)} {
		if file, err := filepath.EvalSymlinks(link); err == nil {
			folders = append(folders, filepath.Dir(file))
		}
	}
	watched := false
	for _, folder := range folders {
		// Adding again is how a folder that was replaced is found.
		if err := w.Add(folder); err != nil {
			missing = fmt.Errorf("watch %s: %w", folder, err)
		} else {
			watched = true
		}
	}
	for _, old := range w.WatchList() {
		if !slices.Contains(folders, old) {
			_ = w.Remove(old) // gone already, most likely
		}
	}
	if watched {
		return nil
	}
	return missing
}
