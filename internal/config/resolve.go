package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Unresolved is one key of an upstream that lacks something to run with.
type Unresolved struct {
	Key    string // as in [Config.Positions]
	Reason string // names the variable, never a value
}

// Error is key: reason.
func (e *Unresolved) Error() string { return e.Key + ": " + e.Reason }

// Resolve fills in every ${NAME}. Names are looked up in env_file first, then in
// env, which is [os.LookupEnv] outside tests. An error, of one or more joined
// [Unresolved], says why this upstream cannot run; it concerns no other.
func (u Upstream) Resolve(env func(string) (string, bool)) (Resolved, error) {
	if u.Err != nil {
		return Resolved{}, u.Err
	}
	var errs []error // each an *Unresolved
	fail := func(key, reason string) {
		errs = append(errs, &Unresolved{join("upstreams", u.Name) + "." + key, reason})
	}
	file, note := u.envFile(env)
	vars, err := envFile(file)
	if err != nil {
		fail("env_file", err.Error())
		return Resolved{}, errors.Join(errs...) // what the file would have set is no further mistake
	}
	lookup := func(name string) (string, bool) {
		if v, ok := vars[name]; ok {
			return v, true
		}
		return env(name)
	}
	filled := u.filled(lookup, fail)
	if len(errs) == 0 {
		u.checkFilled(filled, fail)
	}
	if len(errs) > 0 {
		return Resolved{}, errors.Join(append(errs, note)...)
	}
	maps.Copy(vars, filled.Env)
	out := Resolved{Name: u.Name, Command: filled.Command, Args: filled.Args, Cwd: filled.Cwd, Env: vars, URL: filled.URL, Headers: filled.Headers, Warning: note}
	// A bare name is looked up in PATH, never in a folder of ours.
	if strings.ContainsRune(filepath.ToSlash(out.Command), '/') {
		out.Command = absolute(out.Command, u.Dir)
	}
	if out.Cwd != "" {
		out.Cwd = absolute(out.Cwd, u.Dir)
	}
	return out, nil
}

// Variables are the names of the variables that the upstreams of sessions in a folder are filled
// in with.
func (c *Config) Variables(folder string) []string {
	names := make(map[string]bool)
	note := func(name string) (string, bool) {
		names[name] = true
		return "", true
	}
	for _, u := range c.Upstreams {
		if u.Enabled && u.In(folder) {
			_, _ = expand(u.EnvFile, note) // what is wrong with it is told by Resolve
			u.filled(note, func(string, string) {})
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// StoreURL is dedup.store with its variables filled in. An error names the variable, never a
// value.
func (c *Config) StoreURL(env func(string) (string, bool)) (string, error) {
	url, err := expand(c.Dedup.Store, env)
	if err != nil {
		return "", &Unresolved{"dedup.store", err.Error()}
	}
	return url, nil
}

// filled is the upstream with every ${NAME} filled in.
func (u Upstream) filled(lookup func(string) (string, bool), fail func(key, reason string)) Upstream {
	return u.mapStrings(func(key, s string) string {
		v, err := expand(s, lookup)
		if err == nil && strings.ContainsRune(v, 0) {
			err = errors.New("want no NUL characters once its variables are filled in")
		}
		if err != nil {
			fail(key, err.Error())
		}
		return v
	})
}

// checkFilled repeats those checks whose outcome depends on variables.
func (u Upstream) checkFilled(filled Upstream, fail func(key, reason string)) {
	switch {
	case u.Command != "" && filled.Command == "":
		fail("command", "empty once its variables are filled in")
	case u.URL != "":
		if message := urlProblem(filled.URL); message != "" {
			fail("url", message)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(filled.Headers)) {
		if strings.ContainsFunc(filled.Headers[name], isControl) {
			fail(join("headers", name), "want no control characters once its variables are filled in")
		}
	}
}

// envFile is the path of env_file. One whose path has a variable that is not set is left
// out, as the note says: it may be for the folders of some clients alone, and what it would
// have set may not be needed.
func (u Upstream) envFile(env func(string) (string, bool)) (path string, note error) {
	path, err := expand(u.EnvFile, env)
	if err != nil {
		return "", &Unresolved{join("upstreams", u.Name, "env_file"), "left out: " + err.Error()}
	}
	if path == "" {
		return "", nil
	}
	return absolute(path, u.Dir), nil
}

// envLine is NAME=value, with "export " in front or not, at the start of a text. A value may
// stand in quotes, which go on to the next line that ends with one.
var envLine = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[ \t]*(?:export )?[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*(?:"((?s:.*?))"[ \t\r]*(?:\n|$)|'((?s:.*?))'[ \t\r]*(?:\n|$)|([^\n]*)(?:\n|$))`)
})

// envFile reads NAME=value lines: a line that begins with # is a comment, and nothing is
// expanded.
func envFile(path string) (Secrets, error) {
	vars := Secrets{}
	if path == "" {
		return vars, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return vars, err
	}
	text := string(data)
	for rest := text; rest != ""; {
		line, below, _ := strings.Cut(rest, "\n")
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			rest = below
			continue
		}
		m := envLine().FindStringSubmatch(rest)
		if m == nil || strings.ContainsRune(m[0], 0) {
			return vars, fmt.Errorf("%s:%d: want NAME=value", path, 1+strings.Count(text[:len(text)-len(rest)], "\n"))
		}
		vars[m[1]] = m[2] + m[3] + strings.TrimSpace(m[4])
		rest = rest[len(m[0]):]
	}
	return vars, nil
}

// absolute is path as seen from dir.
func absolute(path, dir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// urlProblem says what is wrong with an upstream's url, without repeating it:
// some services take their key in it.
func urlProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "want an http or https url; this one does not parse"
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("want an http or https url, have the scheme %q", u.Scheme)
	case u.Host == "":
		return "want an http or https url with a host"
	}
	return ""
}

func isControl(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }
