package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keepable makes the folder of [Options.Keep], and refuses one that holds something: what
// an earlier run has learned there would make this one another session, and the record
// would be of both.
func (o Options) keepable() error {
	if o.Keep == "" {
		return nil
	}
	entries, err := os.ReadDir(o.Keep)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(o.Keep, 0o700)
	case err == nil && len(entries) > 0:
		return fmt.Errorf("keep: %s is not empty: want a new folder", o.Keep)
	}
	if err != nil {
		return fmt.Errorf("keep: %w", err)
	}
	return nil
}

// sayKept says how to look at what was kept: beside the table, and elsewhere than the
// JSON.
func (o Options) sayKept() {
	if o.Keep == "" {
		return
	}
	w := o.Stdout
	if o.JSON {
		w = o.Stderr
	}
	record := quoted(filepath.Join(o.Keep, "events"))
	fmt.Fprintf(w, "\nThe record of the session through mcpschedd is kept. Look at it:\n  mcpschedd stats %s\n  mcpschedd dashboard %s\n", record, record)
}

// quoted is a path as a shell takes it.
func quoted(path string) string {
	safe := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+:@%\\", r)
	}
	if !strings.ContainsFunc(path, func(r rune) bool { return !safe(r) || r == '\\' && filepath.Separator != '\\' }) && !strings.HasPrefix(path, "-") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
