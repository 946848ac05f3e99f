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
	"time"
)

// Command is how a server process is started.
type Command struct {
	Path string   // a name to find in the PATH of Env, or a path; a relative one starts at Dir
	Args []string // without the name of the command
	Dir  string   // "": the proxy's own
	Env  []string // complete: nothing is inherited

	grace time.Duration // of tests, in place of stopGrace
}

// start starts the command in a process group of its own, and returns our ends of its
// pipes.
func (c Command) start() (p *os.Process, stdin, stdout, stderr *os.File, err error) {
	path, err := c.resolve()
	if err != nil {
		return nil, nil, nil, nil, err
	}
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{c.Path}, c.Args...), Dir: c.Dir,
		Env:         append([]string{}, c.Env...), // nil would inherit ours
		SysProcAttr: groupAttr(),
	}
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	errs, errsErr := cmd.StderrPipe()
	if err := errors.Join(inErr, outErr, errsErr); err != nil {
		return nil, nil, nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, nil, c.startError(path, err)
	}
	return cmd.Process, in.(*os.File), out.(*os.File), errs.(*os.File), nil
}

// resolve finds the file to execute as exec.LookPath does, but in the PATH that the
// process gets. It skips relative entries of PATH, as exec.LookPath does.
func (c Command) resolve() (string, error) {
	if info, err := os.Stat(c.Dir); c.Dir != "" && (err != nil || !info.IsDir()) {
		return "", fmt.Errorf("working directory %q: %w", c.Dir, cause(err, "not a directory"))
	}
	if c.Path == "" {
		return "", errors.New("no command")
	}
	if filepath.Base(c.Path) != c.Path {
		return c.resolvePath()
	}
	for _, dir := range filepath.SplitList(c.searchPath()) {
		if path, err := exec.LookPath(filepath.Join(dir, c.Path)); err == nil && filepath.IsAbs(dir) {
			return path, nil
		}
	}
	return "", fmt.Errorf("command %q not found in PATH", c.Path)
}

// resolvePath is resolve for a command that is a path.
func (c Command) resolvePath() (string, error) {
	path := c.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	path, err := filepath.Abs(path)
	if err == nil {
		path, err = exec.LookPath(path)
	}
	if err != nil {
		return "", fmt.Errorf("command %q: %w", c.Path, cause(err, ""))
	}
	return path, nil
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

// cause is err without the system call and the path, which the message names already;
// what it says itself if it is nil.
func cause(err error, otherwise string) error {
	if err == nil {
		return errors.New(otherwise)
	}
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err
}
