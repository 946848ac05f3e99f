package upstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// resolve finds the file to execute as exec.LookPath does, but in the PATH that the
// process gets. It skips relative entries of PATH, as exec.LookPath does.
func (c Command) resolve() (string, error) {
	if c.Dir != "" {
		if info, err := os.Stat(c.Dir); err != nil {
			return "", fmt.Errorf("working directory %q: %w", c.Dir, cause(err))
		} else if !info.IsDir() {
			return "", fmt.Errorf("working directory %q: not a directory", c.Dir)
		}
	}
	if c.Path == "" {
		return "", errors.New("no command")
	}
	if filepath.Base(c.Path) != c.Path {
		return c.resolvePath()
	}
	search := c.searchPath()
	for _, dir := range filepath.SplitList(search) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if path, err := exec.LookPath(filepath.Join(dir, c.Path)); err == nil {
			return path, nil
		}
	}
	if search == "" {
		return "", fmt.Errorf("command %q not found: it has no PATH", c.Path)
	}
	return "", &notFound{command: c.Path, path: search}
}

// notFound says that a command is in none of the folders of PATH.
type notFound struct{ command, path string }

func (e *notFound) Error() string { return fmt.Sprintf("command %q not found in PATH", e.command) }

// resolvePath is resolve for a command that is a path.
func (c Command) resolvePath() (string, error) {
	path := c.Path
	if !filepath.IsAbs(path) {
		var err error
		if path, err = filepath.Abs(filepath.Join(c.Dir, path)); err != nil {
			return "", fmt.Errorf("command %q: %w", c.Path, err)
		}
	}
	found, err := exec.LookPath(path)
	switch {
	case err == nil:
		return found, nil
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("command %q is not executable: %w", c.Path, cause(err))
	}
	return "", fmt.Errorf("command %q: %w", c.Path, cause(err))
}

// searchPath returns the PATH in Env; of several the last counts, as for exec.
func (c Command) searchPath() (path string) {
	for _, variable := range c.Env {
		name, value, _ := strings.Cut(variable, "=")
		if name == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			path = value
		}
	}
	return path
}

// startError says why a command that was found could not be started. The system
// reports "no such file" for a script if its interpreter is missing.
func (c Command) startError(path string, err error) error {
	if _, statErr := os.Stat(path); statErr == nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("command %q: what is to run %s (its #! line or its loader) does not exist", c.Path, path)
	}
	return fmt.Errorf("command %q: %w", c.Path, err)
}

// cause is err without the system call and the path, which the message names already.
func cause(err error) error {
	if lookup, ok := errors.AsType[*exec.Error](err); ok {
		err = lookup.Err
	}
	if access, ok := errors.AsType[*fs.PathError](err); ok {
		err = access.Err
	}
	return err
}
