package config

import (
	"bytes"
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

	"mcpschedd/internal/paths"
)

// unresolved is the error for a key of an upstream that cannot be resolved.
type unresolved struct {
	Key    string // as in [Config.Positions]
	Reason string // may name variables; of their values, only the path of env_file and the scheme of url
}

// Error returns "key: reason".
func (e *unresolved) Error() string { return e.Key + ": " + e.Reason }

// Resolve returns the upstream with every ${NAME} expanded, the lines of env_file added to Env, and
// absolute paths. It looks names up in env_file first, then in env, which is [os.LookupEnv] outside
// tests. It returns an error, u.Err or one or more joined [unresolved], if this upstream cannot run;
// others are not affected.
func (u Upstream) Resolve(env func(string) (string, bool)) (Upstream, error) {
	if u.Err != nil {
		return Upstream{}, u.Err
	}
	var errs []error // each an *unresolved
	fail := func(key, reason string) {
		errs = append(errs, &unresolved{join("upstreams", u.Name) + "." + key, reason})
	}
	file, err := u.envFile(env)
	vars := Secrets{}
	if err == nil && file != "" {
		vars, err = readEnvFile(file)
	}
	if err != nil {
		fail("env_file", err.Error())
		return Upstream{}, errors.Join(errs...) // without errors for the variables that the file would have set
	}
	lookup := func(name string) (string, bool) {
		if v, ok := vars[name]; ok {
			return v, true
		}
		return env(name)
	}
	out := u.expanded(lookup, func(key, unset string) {
		if file != "" {
			unset += ", nor in " + file
		}
		fail(key, unset)
	})
	if len(errs) == 0 {
		u.checkExpanded(out, fail)
	}
	if len(errs) > 0 {
		return Upstream{}, errors.Join(errs...)
	}
	maps.Copy(vars, out.Env)
	out.Env = vars
	// A command without a slash is looked up in PATH, never in u.Dir.
	if strings.ContainsRune(filepath.ToSlash(out.Command), '/') {
		out.Command = paths.Absolute(out.Command, u.Dir)
	}
	if out.Cwd != "" {
		out.Cwd = paths.Absolute(out.Cwd, u.Dir)
	}
	return out, nil
}

// envFile returns the absolute path of env_file, or "" if it is not set.
func (u Upstream) envFile(env func(string) (string, bool)) (string, error) {
	file, err := expand(u.EnvFile, env)
	if err != nil || file == "" {
		return "", err
	}
	return paths.Absolute(file, u.Dir), nil
}

// EnvFiles returns the paths of the env files of the enabled upstreams with the variables of env.
func (c *Config) EnvFiles(env func(string) (string, bool)) (files []string) {
	for _, u := range c.Upstreams {
		if file, err := u.envFile(env); err == nil && file != "" && u.Enabled {
			files = append(files, file)
		}
	}
	return files
}

// Unusable returns, with their positions, the reasons why enabled upstreams and the replicas' store
// cannot be used with the variables of env.
func (c *Config) Unusable(env func(string) (string, bool)) (all []Problem) {
	if _, err := c.StoreURL(env); err != nil {
		e := err.(*unresolved)
		all = append(all, c.Problem(e.Key, "%s", e.Reason))
	}
	for _, u := range c.Upstreams {
		if _, err := u.Resolve(env); err != nil && u.Enabled {
			for _, err := range err.(interface{ Unwrap() []error }).Unwrap() {
				e := err.(*unresolved) // as the configuration has no problems
				all = append(all, c.Problem(e.Key, "%s", e.Reason))
			}
		}
	}
	return all
}

// Variables returns, sorted, the names of the variables used by the enabled upstreams that
// sessions with the working directory dir are offered.
func (c *Config) Variables(dir string) []string {
	names := make(map[string]bool)
	record := func(name string) (string, bool) {
		names[name] = true
		return "", true
	}
	for _, u := range c.Upstreams {
		if u.Enabled && u.In(dir) {
			_, _ = expand(u.EnvFile, record) // Resolve reports the error
			u.expanded(record, func(string, string) {})
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// StoreURL returns dedup.store with its variables expanded. An error may name a variable, but
// never contains its value.
func (c *Config) StoreURL(env func(string) (string, bool)) (string, error) {
	url, err := expand(c.Dedup.Store, env)
	if err != nil {
		return "", &unresolved{"dedup.store", err.Error()}
	}
	return url, nil
}

// expanded returns the upstream with every ${NAME} expanded, except in EnvFile.
func (u Upstream) expanded(lookup func(string) (string, bool), fail func(key, reason string)) Upstream {
	return u.mapStrings(func(key, s string) string {
		v, err := expand(s, lookup) // no variable contains NUL
		if err != nil {
			fail(key, err.Error())
		}
		return v
	})
}

// checkExpanded repeats the checks that depend on variables.
func (u Upstream) checkExpanded(expanded Upstream, fail func(key, reason string)) {
	switch {
	case u.Command != "" && expanded.Command == "":
		fail("command", "empty after its variables are expanded")
	case u.URL != "":
		if message := urlProblem(expanded.URL); message != "" {
			fail("url", message)
		}
	}
}

// envLine matches NAME=value, optionally after "export ", at the start of a text. A quoted value
// ends at the second quote if a comment follows it, else at the first quote at the end of a line. That
// is a later line only if there is no second quote on the first one. Any other value ends at white space
// before a #, as for docker compose, godotenv and python-dotenv.
var envLine = sync.OnceValue(func() *regexp.Regexp {
	const noted, end = `[ \t]*#[^\n]*(?:\n|$)`, `[ \t\r]*(?:\n|$)`
	return regexp.MustCompile(`^[ \t]*(?:export )?[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=(?:[ \t]*(?:` +
		`"([^"]*)"` + noted + `|'([^']*)'` + noted +
		`|"([^\n]*?|[^"\n]*\n(?s:.*?))"` + end + `|'([^\n]*?|[^'\n]*\n(?s:.*?))'` + end + `)|([^\n]*?)(?:[ \t]#[^\n]*)?(?:\n|$))`)
})

// readEnvFile reads a file of NAME=value lines. A line that begins with # is a comment, and so is the
// rest of a line after white space and #, unless it is quoted. Values are not expanded.
func readEnvFile(path string) (Secrets, error) {
	vars := Secrets{}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := string(bytes.TrimPrefix(data, byteOrderMark))
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
		vars[m[1]] = strings.Join(m[2:6], "") + strings.TrimSpace(m[6])
		rest = rest[len(m[0]):]
	}
	return vars, nil
}

// urlProblem returns the problem of an upstream's URL, or "". The message does not contain the
// URL, because the URLs of some services contain their API key.
func urlProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "want an http or https url; it cannot be parsed"
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Sprintf("want an http or https url, have the scheme %q", u.Scheme)
	case u.Host == "":
		return "want an http or https url with a host"
	}
	return ""
}
