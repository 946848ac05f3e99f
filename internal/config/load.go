package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/limit"
	"mcpschedd/internal/paths"
	"mcpschedd/internal/valuemodel"
)

// Load reads and checks a file and the tuned.toml beside it, with the sections of c, such as
// [Default], as defaults. It ignores the named blocks of c (upstreams, limits, plans and tools). It
// returns an [*Error] if the content of either file is invalid.
func (c *Config) Load(path string) (*Config, error) {
	data, tuned, err := readBoth(path)
	if err != nil {
		return nil, err
	}
	return parse(c, path, data, tuned)
}

// readBoth reads a file and the tuned.toml beside it, which counts as empty if it does not exist.
func readBoth(path string) (data, tuned []byte, err error) {
	if data, err = paths.Read(path); err == nil {
		tuned, err = paths.Read(TunedPath(path))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return data, tuned, err
}

// digest returns a hash of both files, to detect changes.
func digest(configuration, tuned []byte) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(configuration), configuration, tuned))
}

// Parse is like [Config.Load], with data as the content of the file name. Relative paths in it are
// relative to the directory of name. Parse does not read tuned.toml. A non-nil error is always an
// [*Error].
func (c *Config) Parse(name string, data []byte) (*Config, error) { return parse(c, name, data, nil) }

func parse(base *Config, name string, data, tuned []byte) (*Config, error) {
	path, _ := filepath.Abs(name) // fails only for a relative name, if the working directory was deleted
	failed := &Error{path: path, digest: digest(data, tuned)}
	f := &findings{file: name}
	if tree, ok := f.decode(data); ok && f.convertEarlier(tree) {
		c := new(*base)
		c.Upstreams, c.Limits, c.Plans, c.Tools, c.Tuned = nil, nil, nil, nil, nil
		c.Path, c.Digest, c.Positions = path, failed.digest, f.pos
		f.bindTable("", tree, reflect.ValueOf(c).Elem())
		c.complete(filepath.Dir(path))
		f.check(c)
		f.bindTuned(c, tuned)
		f.compile(c)
		if len(f.problems) == 0 {
			f.checkHosts(c)
		}
		c.Limits = f.lowerHosts(c.Limits)
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
	if len(data) > paths.MaxSize {
		return fail(1, 1, fmt.Sprintf("want a file of at most %d bytes", paths.MaxSize))
	}
	data = bytes.TrimPrefix(data, byteOrderMark)
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
	return tree, true
}

// complete makes paths absolute, relative to dir, and sets what depends on several keys.
func (c *Config) complete(dir string) {
	for _, p := range []*string{&c.Server.StateDir, &c.Log.File} {
		if *p != "" {
			*p = paths.Absolute(*p, dir)
		}
	}
	c.Enrichment.MaxAgeSet = c.Enrichment.MaxAgeSet || c.Positions["enrichment.max_age"] > 0
	for i := range c.Upstreams {
		u := &c.Upstreams[i]
		u.Dir, u.Domain = dir, strings.ToLower(u.Domain)
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
	keys := slices.Sorted(maps.Keys(c.Positions)) // those of a block are adjacent
	for i := range c.Tools {
		t := &c.Tools[i]
		block := join("tools", t.Pattern)
		t.Host, t.Source, t.Sources = strings.ToLower(t.Host), c.Where(block), make(map[string]string)
		first, _ := slices.BinarySearch(keys, block+".")
		for _, key := range keys[first:] {
			field, ok := strings.CutPrefix(key, block+".")
			if !ok {
				break
			}
			t.Sources[field] = c.Where(key)
		}
	}
}

// lowerHosts returns the limits with their hosts in lower case, except upstream:NAME.
func (f *findings) lowerHosts(limits map[string]limit.Rule) map[string]limit.Rule {
	out := make(map[string]limit.Rule, len(limits))
	for _, host := range slices.Sorted(maps.Keys(limits)) {
		name := host
		if !strings.HasPrefix(host, limit.LocalPrefix) {
			name = strings.ToLower(host)
		}
		if _, twice := out[name]; twice {
			f.problem(join("limits", host), "%s has two blocks, which differ in the case of letters", name)
		}
		out[name] = limits[host]
	}
	return out
}

// compile compiles the rules of tools, and reports what is wrong with them and with the plans. It
// omits a problem of a key if that key, or a key inside it, already has one.
func (f *findings) compile(c *Config) {
	var found []Problem
	var wrong []valuemodel.Problem
	c.Models, wrong = valuemodel.Compile(c.Rules())
	for _, p := range wrong {
		found = append(found, c.RuleProblem(p))
	}
	for _, p := range c.Plans {
		for _, d := range p.Check(c.Plan.Limits) {
			found = append(found, c.Problem(join("plans", p.Name)+d.Key, "%s", d.Text))
		}
	}
	known := slices.Clone(f.problems)
	for _, p := range found {
		if slices.ContainsFunc(known, func(k Problem) bool { return within(k.Key, p.Key) }) {
			continue
		}
		if p.File == c.Path {
			p.File = f.file
		}
		f.problems = append(f.problems, p)
	}
}

// RuleProblem returns a problem of one of c.Rules with its position.
func (c *Config) RuleProblem(p valuemodel.Problem) Problem {
	file, at, rules := c.Path, c.Positions, c.Rules()
	if p.Rule >= len(c.Tools) {
		file, at = TunedPath(c.Path), c.TunedPositions
	}
	key := join("tools", rules[p.Rule].Pattern)
	if p.Key != "" {
		key += "." + p.Key
	}
	return positions(at).problem(file, key, "%s", p.Text)
}

// Problem returns a problem of the key, at the line of the key or, if the file does not set it, of
// the innermost enclosing key that the file sets.
func (c *Config) Problem(key, format string, args ...any) Problem {
	return positions(c.Positions).problem(c.Path, key, format, args...)
}

// Where returns FILE:LINE of a key, which identifies the layer that set a value. It returns "" if
// the file does not set the key.
func (c *Config) Where(key string) string {
	if line, ok := c.Positions[key]; ok {
		return fmt.Sprintf("%s:%d", c.Path, line)
	}
	return ""
}

// KeepUntilRestart replaces the sections and keys of c that take effect only after a restart by those of
// the start, and returns the keys that differ. Every other key takes effect on reload.
func (c *Config) KeepUntilRestart(start *Config) (differ []string) {
	keep := func(key string, now, old any) {
		if n, o := reflect.ValueOf(now).Elem(), reflect.ValueOf(old).Elem(); !reflect.DeepEqual(n.Interface(), o.Interface()) {
			if n.Kind() == reflect.Struct {
				differ = append(differ, differing(key, n, o)...)
			} else {
				differ = append(differ, key)
			}
			n.Set(o)
		}
	}
	keep("server", &c.Server, &start.Server)
	keep("http", &c.HTTP, &start.HTTP)
	keep("daemon", &c.Daemon, &start.Daemon)
	keep("dedup.store", &c.Dedup.Store, &start.Dedup.Store)
	if start.Dedup.Store != "" { // marks in the store last for it, so it is the same at all replicas
		keep("dedup.write_settle", &c.Dedup.WriteSettle, &start.Dedup.WriteSettle)
	}
	return differ
}

// differing returns the keys of a section in which two of its values differ.
func differing(section string, a, b reflect.Value) (keys []string) {
	for name, f := range fields(a.Type()) {
		if !reflect.DeepEqual(a.FieldByIndex(f.Index).Interface(), b.FieldByIndex(f.Index).Interface()) {
			keys = append(keys, join(section, name))
		}
	}
	slices.Sort(keys)
	return keys
}
