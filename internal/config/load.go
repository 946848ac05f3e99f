package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return path, false, nil
		}
		return path, true, nil
	}
	if err != nil {
		return "", false, err
	}
	if _, err := os.Stat(path); err != nil {
		return "", false, fmt.Errorf("config: %w", err)
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
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	tuned, err := readTuned(path)
	if err != nil {
		return nil, err
	}
	return parse(path, data, tuned, further)
}

// LoadUntuned is [Load] without the tuned.toml beside the file.
func LoadUntuned(path string, further ...Further) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, further...)
}

// read takes one byte more than allowed, for Parse to refuse.
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
	return parse(name, data, nil, further)
}

func parse(name string, data, tuned []byte, further []Further) (*Config, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, &Error{Problems: []Problem{{File: name, Line: 1, Message: err.Error()}}}
	}
	b := &binder{file: name}
	failed := &Error{path: path, digest: digest(data, tuned)}
	tree, broken := b.decode(data)
	if broken != nil {
		broken.File = name
		failed.Problems = []Problem{*broken}
		return nil, failed
	}
	c := Default()
	c.Path, c.Digest = path, failed.digest
	if !b.newer(tree) {
		b.aliases(tree)
		b.table("", tree, reflect.ValueOf(c).Elem())
		b.check(c)
		c.Positions = b.pos.lines()
		b.finish(c, filepath.Dir(path))
		b.tuned(c, tuned)
		for _, find := range further {
			b.further(c, find(c))
		}
		failed.read = c
	}
	sortProblems(b.warnings)
	c.Warnings = b.warnings
	if len(b.problems) > 0 {
		sortProblems(b.problems)
		failed.Problems = b.problems
		return nil, failed
	}
	return c, nil
}

// finish fills in what depends on the file's folder and on what it states.
func (b *binder) finish(c *Config, dir string) {
	c.fill(dir, b.pos.stated)
	for _, p := range []*string{&c.Server.StateDir, &c.Log.File} {
		if *p != "" {
			*p = absolute(*p, dir)
		}
	}
}

// further keeps the problems found elsewhere, but for those of keys with which,
// or inside which, something is known to be wrong: they would only repeat it.
func (b *binder) further(c *Config, found []Problem) {
	known := slices.Clone(b.problems)
	for _, p := range found {
		if !slices.ContainsFunc(known, func(k Problem) bool { return within(k.Key, p.Key) }) {
			if p.File == c.Path {
				p.File = b.file
			}
			b.problems = append(b.problems, p)
		}
	}
}

// decode gives the file as plain tables, and keeps where their keys stand.
func (b *binder) decode(data []byte) (map[string]any, *Problem) {
	if len(data) > maxSize {
		return nil, &Problem{Line: 1, Column: 1, Message: fmt.Sprintf("want a file of at most %v", Bytes(maxSize))}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	// The parser of positions goes first: it bounds nesting, the decoder does not.
	pos, broken := locate(data)
	if broken != nil {
		return nil, broken
	}
	b.pos = pos
	tree := map[string]any{}
	if _, err := toml.Decode(string(data), &tree); err != nil {
		broken := &Problem{Line: 1, Column: 1, Message: err.Error()}
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			broken.Line, broken.Column, broken.Message = max(1, at.Position.Line), max(1, at.Position.Col), at.Message
		}
		return nil, broken
	}
	return tree, nil
}

// Problem is what is wrong with a key, which stands where the file states it or
// else what is nearest around it.
func (c *Config) Problem(key, format string, args ...any) Problem {
	at := around(key, func(key string) bool { return c.Positions[key] > 0 })
	return Problem{File: c.Path, Line: max(1, c.Positions[at]), Key: key, Message: fmt.Sprintf(format, args...)}
}

// Where is FILE:LINE of a key that the file states, for saying which layer set
// a value; "" if it does not.
func (c *Config) Where(key string) string {
	if line, ok := c.Positions[key]; ok {
		return fmt.Sprintf("%s:%d", c.Path, line)
	}
	return ""
}
