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

// maxSize is the largest accepted file in bytes. It also bounds the recursion of the decoder,
// which has no limit of its own.
const maxSize = 1 << 20

// Search returns the path of the configuration file: flag if it is not "", else $MCPSCHEDD_CONFIG,
// an absolute path, else mcpschedd/pipeline_config.toml in $XDG_CONFIG_HOME or ~/.config. A file
// named by flag or $MCPSCHEDD_CONFIG must exist. If the last of these files does not exist, found
// is false and the built-in defaults apply. Search never looks in the working directory, because a
// cloned repository must not be able to start commands.
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
			return "", false, nil // without a home directory the defaults apply
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

// StateDir returns the state directory: server.state_dir if set, else mcpschedd in
// $XDG_STATE_HOME or ~/.local/state.
func (c *Config) StateDir(env func(string) string) (string, error) {
	if c.Server.StateDir != "" {
		return c.Server.StateDir, nil
	}
	return userDir("XDG_STATE_HOME", filepath.Join(".local", "state"), env)
}

// userDir returns $variable/mcpschedd, or HOME/below/mcpschedd if the variable is not set. As the
// XDG specification requires, it ignores a relative path in the variable.
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

// A Validator checks values that other packages interpret. Its problems, made with
// [Config.Problem], are reported together with those of the file. It also runs if the file has
// other problems; the Config then contains only the values that could be read.
type Validator func(*Config) []Problem

// Load reads and checks a file and the tuned.toml beside it. It returns an [*Error] if the
// content of either is invalid.
func Load(path string, validators ...Validator) (*Config, error) {
	return LoadOver(Default(), path, validators...)
}

// LoadOver is like [Load], but takes the sections of base as defaults. It ignores the named blocks
// of base (upstreams, limits, plans and tools).
func LoadOver(base *Config, path string, validators ...Validator) (*Config, error) {
	data, tuned, err := readBoth(path)
	if err != nil {
		return nil, err
	}
	return parse(base, path, data, tuned, validators)
}

// LoadUntuned is like [Load], but does not read tuned.toml.
func LoadUntuned(path string, validators ...Validator) (*Config, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, validators...)
}

// readBoth reads a file and the tuned.toml beside it, which counts as empty if it does not exist.
func readBoth(path string) (data, tuned []byte, err error) {
	if data, err = read(path); err == nil {
		tuned, err = read(TunedPath(path))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return data, tuned, err
}

// read returns the content of the file, or its first maxSize+1 bytes, which decode rejects.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxSize+1))
}

// Parse checks data as the content of the file name. Relative paths in it are relative to the
// directory of name. Parse does not read tuned.toml. A non-nil error is always an [*Error].
func Parse(name string, data []byte, validators ...Validator) (*Config, error) {
	return ParseOver(Default(), name, data, validators...)
}

// ParseOver is like [Parse], with base as in [LoadOver].
func ParseOver(base *Config, name string, data []byte, validators ...Validator) (*Config, error) {
	return parse(base, name, data, nil, validators)
}

func parse(base *Config, name string, data, tuned []byte, validators []Validator) (*Config, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return nil, &Error{Problems: []Problem{{File: name, Line: 1, Message: err.Error()}}}
	}
	failed := &Error{path: path, digest: digest(data, tuned)}
	f := &findings{file: name}
	if tree, ok := f.decode(data); ok && f.convertEarlier(tree) {
		c := new(*base)
		c.Upstreams, c.Limits, c.Plans, c.Tools, c.Tuned = nil, nil, nil, nil, nil
		c.Path, c.Digest, c.Positions = path, failed.digest, f.pos
		f.table("", tree, reflect.ValueOf(c).Elem())
		checker{findings: f}.check(c)
		c.complete(filepath.Dir(path))
		f.tuned(c, tuned)
		for _, validate := range validators {
			f.add(c, validate(c))
		}
		c.Warnings = sorted(f.warnings)
		failed.partial = c
	}
	if len(f.problems) > 0 {
		failed.Problems = sorted(f.problems)
		return nil, failed
	}
	return failed.partial, nil
}

// decode returns the file as plain tables and stores the positions of their keys in f. A syntax
// error becomes a problem.
func (f *findings) decode(data []byte) (tree map[string]any, ok bool) {
	fail := func(line, column int, message string) (map[string]any, bool) {
		f.problems = append(f.problems, Problem{File: f.file, Line: max(1, line), Column: max(1, column), Message: message})
		return nil, false
	}
	if len(data) > maxSize {
		return fail(1, 1, fmt.Sprintf("want a file of at most %v", Bytes(maxSize)))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	// locate runs first because its parser limits nesting, and the decoder does not.
	pos, syntaxErr := locate(data)
	if syntaxErr != nil {
		return fail(syntaxErr.Line, syntaxErr.Column, syntaxErr.Message)
	}
	f.pos = pos
	if _, err := toml.Decode(string(data), &tree); err != nil {
		if at, ok := errors.AsType[toml.ParseError](err); ok {
			return fail(at.Position.Line, at.Position.Col, at.Message)
		}
		return fail(1, 1, err.Error())
	}
	plain(tree)
	return tree, true
}

// plain returns a decoded value with every array as []any. The decoder gives [[x]] blocks another
// type than x = [...].
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = plain(item)
		}
	case []map[string]any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = plain(item)
		}
		return items
	case []any:
		for i, item := range v {
			v[i] = plain(item)
		}
	}
	return v
}

// complete makes paths absolute, relative to dir, and sets the defaults that depend on other keys.
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

// add appends the problems that a Validator found. It skips a problem of a key if that key, or a
// key inside it, already has one.
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

// Problem returns a problem of the key, at the line of the key or, if the file does not set it, of
// the innermost enclosing key that the file sets.
func (c *Config) Problem(key, format string, args ...any) Problem {
	return positions(c.Positions).problem(c.Path, key, format, args...)
}

// TunedProblem is [Config.Problem] for a key of tuned.toml.
func (c *Config) TunedProblem(key, format string, args ...any) Problem {
	return positions(c.TunedPositions).problem(TunedPath(c.Path), key, format, args...)
}

// Where returns FILE:LINE of a key, which identifies the layer that set a value. It returns "" if
// the file does not set the key.
func (c *Config) Where(key string) string {
	if line, ok := c.Positions[key]; ok {
		return fmt.Sprintf("%s:%d", c.Path, line)
	}
	return ""
}

// RestartKeys returns, sorted, the changed keys that take effect only after a restart: those of
// [server], [http] and [daemon], and dedup.store. A change of any other key takes effect on reload.
func RestartKeys(old, new *Config) (restart []string) {
	a, b := reflect.ValueOf(old).Elem(), reflect.ValueOf(new).Elem()
	for section, f := range fields(a.Type()) {
		if section != "server" && section != "http" && section != "daemon" && section != "dedup" {
			continue
		}
		for key, in := range fields(f.Type) {
			x, y := a.FieldByIndex(f.Index).FieldByIndex(in.Index), b.FieldByIndex(f.Index).FieldByIndex(in.Index)
			if (section != "dedup" || key == "store") && !reflect.DeepEqual(x.Interface(), y.Interface()) {
				restart = append(restart, join(section, key))
			}
		}
	}
	slices.Sort(restart)
	return restart
}
