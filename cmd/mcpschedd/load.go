package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"

	"mcpschedd/internal/config"
	"mcpschedd/internal/daemon"
	"mcpschedd/internal/nearest"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/state"
)

// load finds and reads the configuration. Without a file it returns the defaults.
func load(file string) (*config.Config, error) { return loadBy(file, config.Default().Load) }

// loadBy is load with a function that reads the file.
func loadBy(file string, read func(string) (*config.Config, error)) (*config.Config, error) {
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
const otherFolder = "[server] state_dir names another folder"

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

// lastGoodPath returns where the last valid content of a configuration is kept.
func lastGoodPath(path string) string { return "config/" + fingerprint(path)[:16] + ".toml" }

// saveLastGood saves the content of the configuration in force, for start-ups with mistakes.
func saveLastGood(c *config.Config, dir state.Dir, log *slog.Logger) {
	data, err := paths.Read(c.Path)
	if err != nil {
		return // no file
	}
	if kept, err := dir.Read(lastGoodPath(c.Path)); err == nil && bytes.Equal(kept, data) {
		return
	}
	if _, err = config.Default().Parse(c.Path, data); err == nil { // else changed meanwhile
		err = dir.Write(lastGoodPath(c.Path), data)
	}
	if err != nil {
		log.Warn("no copy of the configuration was kept for a later start-up with mistakes", "err", err)
	}
}

// suggest adds a hint to the error of an unknown name: the most similar name of all behind a prefix, or
// else otherwise.
func suggest(err error, prefix, name string, all []string, otherwise string) error {
	if near := nearest.New(all).To(name); near != "" {
		return hinted{misused{err}, "did you mean " + prefix + near + "?"}
	}
	return hinted{misused{err}, otherwise}
}

// upstreamNamed returns the configured upstream of that name.
func upstreamNamed(c *config.Config, name string) (config.Upstream, error) {
	names := make([]string, len(c.Upstreams))
	for i, u := range c.Upstreams {
		if u.Name == name {
			return u, nil
		}
		names[i] = u.Name
	}
	if len(names) == 0 {
		return config.Upstream{}, noUpstream(c)
	}
	return config.Upstream{}, suggest(fmt.Errorf("%s has no upstream %q", c.Path, name), "", name, names, "there are: "+strings.Join(names, ", "))
}

// hasUpstream reports whether an upstream of that name is configured.
func hasUpstream(c *config.Config, name string) bool {
	return slices.ContainsFunc(c.Upstreams, func(u config.Upstream) bool { return u.Name == name })
}

// enabledNames returns the names of the enabled upstreams.
func enabledNames(c *config.Config) (names []string) {
	for _, u := range c.Upstreams {
		if u.Enabled {
			names = append(names, u.Name)
		}
	}
	return names
}

// withoutEntry returns the name of a tool without what Claude Code puts before it: mcp__, and the name
// under which it has the proxy.
func withoutEntry(c *config.Config, name string) string {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok || hasUpstream(c, "mcp") {
		return name
	}
	if entry, tool, ok := strings.Cut(rest, "__"); ok && !hasUpstream(c, entry) {
		return tool
	}
	return rest
}

// disabled returns an error if name begins with the name of a disabled upstream.
func disabled(c *config.Config, name string) error {
	for _, u := range c.Upstreams {
		if !u.Enabled && (strings.HasPrefix(name, u.Name+"/") || strings.HasPrefix(name, u.Name+"__")) {
			return hinted{misused{fmt.Errorf("upstream %q is disabled", u.Name)}, "mcpschedd enable " + u.Name}
		}
	}
	return nil
}

// noUpstream returns the error of a configuration without upstreams.
func noUpstream(c *config.Config) error {
	return hinted{misused{fmt.Errorf("no server is configured in %s", orDefaults(c.Path))}, toBegin}
}

// toBegin is the hint if nothing is configured.
const toBegin = "mcpschedd import moves a client's servers here, mcpschedd add adds one"
