package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/state"
)

// load finds and reads the configuration. Without a file it returns the defaults.
func load(file string) (*config.Config, error) { return loadWith(file, config.Default().Load) }

// loadWith is load with a function that reads the file.
func loadWith(file string, read func(string) (*config.Config, error)) (*config.Config, error) {
	path, found, err := paths.Search(file, os.Getenv)
	if err != nil {
		return nil, hinted{misused{err}, "mcpschedd help lists where the configuration is searched for"}
	}
	if !found {
		c := config.Default()
		c.Path = path
		return c, nil
	}
	c, err := read(path)
	if _, invalid := errors.AsType[*config.Error](err); err != nil && !invalid {
		err = misused{err}
	}
	return c, err
}

// loadToEdit reads the configuration to change, or the defaults if the file does not exist yet.
func loadToEdit(file string) (*config.Config, error) {
	have, err := load(file)
	if named := cmp.Or(file, os.Getenv("MCPSCHEDD_CONFIG")); named != "" && errors.Is(err, fs.ErrNotExist) {
		have = config.Default()
		have.Path, err = filepath.Abs(named)
	}
	return have, err
}

// stateDir returns the state directory, and creates it.
func stateDir(c *config.Config) (state.Dir, error) {
	dir, err := stateToRead(c)
	if err != nil {
		return dir, err
	}
	if dir, err = state.Open(dir.Path("")); err != nil {
		err = hinted{err, otherFolder}
	}
	return dir, err
}

// otherFolder is the hint if the state directory cannot be used.
const otherFolder = "[server] state_dir can name another folder"

// stateToRead returns the state directory, which need not exist, for a command that only reads.
func stateToRead(c *config.Config) (state.Dir, error) {
	path, err := paths.StateDir(c.Server.StateDir, os.Getenv)
	if err != nil {
		return state.Dir{}, hinted{misused{err}, "set HOME, or [server] state_dir"}
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: not a directory", path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return state.Dir{}, hinted{fmt.Errorf("state folder: %w", err), otherFolder}
	}
	return state.OnlyRead(path), nil
}

// readOrCreate returns the content of a file in the state directory, and creates the file at first
// use. Of several processes that create it, all return the content of the first.
func readOrCreate(dir state.Dir, name string, create func() []byte) (data []byte, err error) {
	if data, err = dir.Read(name); errors.Is(err, fs.ErrNotExist) {
		err = dir.Update(name, func(old []byte) ([]byte, error) {
			if data = old; data == nil {
				data = create()
			}
			return data, nil
		})
	}
	return data, err
}

// daemonOf returns where the daemon of a configuration listens, and whether it is running. It
// creates no directory.
func daemonOf(c *config.Config) (daemon.Place, bool) {
	path, err := paths.StateDir(c.Server.StateDir, os.Getenv)
	if err != nil {
		return daemon.Place{}, false
	}
	return daemon.Find(path, c.Path)
}

// orDefaults returns the path of a configuration for messages.
func orDefaults(path string) string { return cmp.Or(path, "the built-in defaults") }

// loadServed returns the configuration and, by stateDir or stateToRead, its state directory for commands
// that run despite mistakes in the file: see [config.Error.Salvage].
func loadServed(file string, stateOf func(*config.Config) (state.Dir, error)) (c *config.Config, dir state.Dir, mistakes *config.Error, err error) {
	c, err = load(file)
	if mistakes, _ = errors.AsType[*config.Error](err); mistakes != nil {
		c = mistakes.Salvage(nil)
	} else if err != nil {
		return nil, dir, nil, err
	}
	if dir, err = stateOf(c); err != nil || mistakes == nil {
		return c, dir, mistakes, err
	}
	var good *config.Config
	if data, err := dir.Read(lastGoodPath(c.Path)); err == nil {
		good, _ = config.Default().Parse(c.Path, data) // a copy of an older version may be invalid now
	}
	return mistakes.Salvage(good), dir, mistakes, nil
}

// orMistakes returns the error, or nil, of looking up a tool of an upstream or, if mistakes in the file disable
// that upstream or all, the mistakes. If they do not, it prints the first of them.
func orMistakes(err error, mistakes *config.Error, c *config.Config, upstream string, stderr io.Writer) error {
	if mistakes == nil {
		return err
	}
	if u, _ := upstreamNamed(c, upstream); u.Err != nil || len(c.Upstreams) == 0 {
		return mistakes
	}
	say(stderr, "note: the configuration has mistakes: %s", mistakes.Problems[0])
	return err
}

// lastGoodPath returns where the last valid content of a configuration is kept.
func lastGoodPath(path string) string { return "config/" + fingerprint(path)[:16] + ".toml" }

// saveLastGood saves the content of the configuration in force, for start-ups with mistakes.
func (s *servedProxy) saveLastGood(c *config.Config) {
	data, err := paths.Read(c.Path)
	if err != nil {
		return // no file
	}
	if kept, err := s.dir.Read(lastGoodPath(c.Path)); err == nil && bytes.Equal(kept, data) {
		return
	}
	if _, err = config.Default().Parse(c.Path, data); err == nil { // else changed meanwhile
		err = s.dir.Write(lastGoodPath(c.Path), data)
	}
	if err != nil {
		if hint := ownerHint(err); hint != "" {
			err = fmt.Errorf("%w; %s", err, hint)
		}
		s.log.Warn("no copy of the configuration was kept for a later start-up with mistakes", "err", err)
	}
}
