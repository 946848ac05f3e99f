package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/BurntSushi/toml"
)

// maxSize bounds a file in bytes. It also bounds how deep the decoder, which
// has no bound of its own, can be made to recurse.
const maxSize = 1 << 20

// Search says which file to read: flag if it is not "", else what the
// environment variable MCPSCHEDD_CONFIG names, else
// $XDG_CONFIG_HOME/mcpschedd/pipeline_config.toml or the same below
// ~/.config. A file that was named must exist; found is false if only the
// last resort is left and is missing, which leaves the built-in defaults.
// The working directory is never searched: a cloned repository must not be
// able to start commands.
func Search(flag string, env func(string) string) (path string, found bool, err error) {
	switch {
	case flag != "":
		path, err = filepath.Abs(flag)
	case env("MCPSCHEDD_CONFIG") != "":
		if path = env("MCPSCHEDD_CONFIG"); !filepath.IsAbs(path) {
			err = fmt.Errorf("MCPSCHEDD_CONFIG: want an absolute path, have %q", path)
		}
	default:
		dir, err := userDir("XDG_CONFIG_HOME", ".config", env)
		if err != nil {
			return "", false, nil // no home, no file of its own
		}
		path = filepath.Join(dir, "pipeline_config.toml")
		_, err = os.Stat(path)
		return path, !errors.Is(err, fs.ErrNotExist), nil
	}
	if err == nil {
		if _, err = os.Stat(path); err != nil {
			err = fmt.Errorf("config: %w", err)
		}
	}
	if err != nil {
		return "", false, err
	}
	return path, true, nil
}

// StateDir is where state is kept: server.state_dir if set, else
// $XDG_STATE_HOME/mcpschedd or the same below ~/.local/state.
func (c *Config) StateDir(env func(string) string) (string, error) {
	if c.Server.StateDir != "" {
		return c.Server.StateDir, nil
	}
	return userDir("XDG_STATE_HOME", filepath.Join(".local", "state"), env)
}

// userDir is our folder in one of the XDG base folders. As the XDG rules ask,
// a relative one counts as unset.
func userDir(variable, below string, env func(string) string) (string, error) {
	if base := env(variable); filepath.IsAbs(base) {
		return filepath.Join(base, "mcpschedd"), nil
	}
	for _, name := range []string{"HOME", "USERPROFILE"} {
		if home := env(name); filepath.IsAbs(home) {
			return filepath.Join(home, below, "mcpschedd"), nil
		}
	}
	return "", fmt.Errorf("neither %s nor HOME is an absolute path", variable)
}

// Further finds what is wrong with values that are read elsewhere, so that it is
// reported with the rest. It is also asked about a file that has mistakes
// already, whose values are then those that could be read. Its problems are made
// with [Config.Problem].
type Further func(*Config) []Problem

// Load reads and checks a file, and the tuned.toml beside it. What is wrong with the
// content of either is an [*Error].
func Load(path string, further ...Further) (*Config, error) {
	return LoadOver(Default(), path, further...)
}

// LoadOver is [Load] with the sections of another configuration in place of the defaults. Its
// blocks under a name (upstreams, limits, plans, tools) are not taken.
func LoadOver(base *Config, path string, further ...Further) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	tuned, err := readTuned(path)
	if err != nil {
		return nil, err
	}
	return parse(base, path, data, tuned, further)
}

// LoadUntuned is [Load] without the tuned.toml beside the file.
func LoadUntuned(path string, further ...Further) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, further...)
}

// read takes one byte more than allowed, for decode to refuse.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// Parse checks the content of the file named name, from whose folder relative
// paths start; no tuned.toml is read. The error is always an [*Error].
func Parse(name string, data []byte, further ...Further) (*Config, error) {
	return ParseOver(Default(), name, data, further...)
}

// ParseOver is to Parse what [LoadOver] is to Load.
func ParseOver(base *Config, name string, data []byte, further ...Further) (*Config, error) {
	return parse(base, name, data, nil, further)
}

func parse(base *Config, name string, data, tuned []byte, further []Further) (*Config, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, &Error{Problems: []Problem{{File: name, Line: 1, Message: err.Error()}}}
	}
	failed := &Error{path: path, digest: digest(data, tuned)}
	f := &findings{file: name}
	tree, broken := f.decode(data)
	if broken != nil {
		failed.Problems = []Problem{*broken}
		return nil, failed
	}
	c := new(*base)
	c.Upstreams, c.Limits, c.Plans, c.Tools, c.Tuned = nil, nil, nil, nil, nil
	c.Path, c.Digest = path, failed.digest
	if f.aliases(tree) {
		binder{f}.table("", tree, reflect.ValueOf(c).Elem())
		checker{findings: f}.check(c)
		c.Positions = f.pos
		c.complete(filepath.Dir(path))
		f.tuned(c, tuned)
		for _, find := range further {
			f.add(c, find(c))
		}
		failed.read = c
	}
	c.Warnings = sorted(f.warnings)
	if len(f.problems) > 0 {
		failed.Problems = sorted(f.problems)
		return nil, failed
	}
	return c, nil
}

// decode gives the file as plain tables, and keeps where their keys stand.
func (f *findings) decode(data []byte) (map[string]any, *Problem) {
	if len(data) > maxSize {
		return nil, &Problem{File: f.file, Line: 1, Column: 1, Message: fmt.Sprintf("want a file of at most %v", Bytes(maxSize))}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	// The parser of positions goes first: it bounds nesting, the decoder does not.
	pos, broken := locate(data)
	tree := map[string]any{}
	if broken == nil {
		if _, err := toml.Decode(string(data), &tree); err != nil {
			broken = &Problem{Line: 1, Column: 1, Message: err.Error()}
			if at, ok := errors.AsType[toml.ParseError](err); ok {
				broken.Line, broken.Column, broken.Message = max(1, at.Position.Line), max(1, at.Position.Col), at.Message
			}
		}
	}
	if broken != nil {
		broken.File = f.file
		return nil, broken
	}
	f.pos = pos
	return tree, nil
}

// complete fills in what depends on the file's folder or on other keys.
func (c *Config) complete(dir string) {
	for _, p := range []*string{&c.Server.StateDir, &c.Log.File} {
		if *p != "" {
			*p = absolute(*p, dir)
		}
	}
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		u.Dir = dir
		switch {
		case u.Instances == "" && u.URL != "":
			u.Instances = "shared"
		case u.Instances == "":
			u.Instances = "session"
		}
		if c.Positions[join("upstreams", u.Name, "tools", "allow")] == 0 {
			u.Tools.Allow = []string{"*"}
		}
	}
	for i := range c.Limits {
		l := &c.Limits[i]
		if l.Burst == 0 && l.Rate > 0 {
			l.Burst = int(math.Min(max(1, math.Ceil(l.Rate)), math.MaxInt32))
		}
		if l.SpeculativeShare == 0 {
			l.SpeculativeShare = 0.5
		}
	}
}

// add keeps the problems found elsewhere, but for those of keys with which,
// or inside which, something is known to be wrong: they would only repeat it.
func (f *findings) add(c *Config, found []Problem) {
	known := slices.Clone(f.problems)
	for _, p := range found {
		if !slices.ContainsFunc(known, func(k Problem) bool { return within(k.Key, p.Key) }) {
			if p.File == c.Path {
				p.File = f.file
			}
			f.problems = append(f.problems, p)
		}
	}
}

// Problem is what is wrong with a key, which stands where the file states it or
// else what is nearest around it.
func (c *Config) Problem(key, format string, args ...any) Problem {
	return Problem{File: c.Path, Line: positions(c.Positions).line(key), Key: key, Message: fmt.Sprintf(format, args...)}
}

// Where is FILE:LINE of a key that the file states, for saying which layer set
// a value; "" if it does not.
func (c *Config) Where(key string) string {
	if line, ok := c.Positions[key]; ok {
		return fmt.Sprintf("%s:%d", c.Path, line)
	}
	return ""
}

// Diff names the changed keys that only a restart can bring into effect: those
// of [server], [http] and [daemon], and dedup.store. Everything else is for a reload.
func Diff(old, new *Config) (restart []string) {
	changed := func(section string, x, y any) {
		a, b := reflect.ValueOf(x), reflect.ValueOf(y)
		for key, f := range fields(a.Type()) {
			if !reflect.DeepEqual(a.FieldByIndex(f.Index).Interface(), b.FieldByIndex(f.Index).Interface()) {
				restart = append(restart, join(section, key))
			}
		}
	}
	changed("server", old.Server, new.Server)
	changed("http", old.HTTP, new.HTTP)
	changed("daemon", old.Daemon, new.Daemon)
	if old.Dedup.Store != new.Dedup.Store {
		restart = append(restart, "dedup.store")
	}
	slices.Sort(restart)
	return restart
}
