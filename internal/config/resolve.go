package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Unresolved is one key of an upstream that lacks something to run with.
type Unresolved struct {
	Key    string // as in [Config.Positions]
	Reason string // names the variable, never a value
}

// Error is key: reason.
func (e *Unresolved) Error() string { return e.Key + ": " + e.Reason }

// resolver expands the strings of one upstream and collects what is missing.
type resolver struct {
	lookup func(string) (string, bool)
	key    string  // upstreams.NAME
	errs   []error // each an *Unresolved
}

func (r *resolver) fail(key, reason string) {
	r.errs = append(r.errs, &Unresolved{r.key + "." + key, reason})
}

// Resolve fills in every ${NAME}. Names are looked up in env_file first, then in
// env, which is [os.LookupEnv] outside tests. An error, of one or more joined
// [Unresolved], says why this upstream cannot run; it concerns no other.
func (u Upstream) Resolve(env func(string) (string, bool)) (Resolved, error) {
	if u.Mistake != nil {
		return Resolved{}, u.Mistake
	}
	r := &resolver{lookup: env, key: join("upstreams", u.Name)}
	file, note := r.envFile(u)
	fromFile, err := envFile(file)
	if err != nil {
		r.fail("env_file", err.Error())
		return Resolved{}, errors.Join(r.errs...) // what the file would have set is no further mistake
	}
	r.lookup = func(name string) (string, bool) {
		if v, ok := fromFile[name]; ok {
			return v, true
		}
		return env(name)
	}
	out := Resolved{
		Name:    u.Name,
		Cwd:     r.path(u.Cwd, "cwd", u.Dir),
		URL:     r.string(u.URL, "url"),
		Env:     fromFile,
		Headers: r.table(u.Headers, "headers"),
	}
	// A bare name is looked up in PATH, never in a folder of ours.
	if out.Command = r.string(u.Command, "command"); strings.ContainsRune(filepath.ToSlash(out.Command), '/') {
		out.Command = absolute(out.Command, u.Dir)
	}
	for i, arg := range u.Args {
		out.Args = append(out.Args, r.string(arg, element("args", i)))
	}
	maps.Copy(out.Env, r.table(u.Env, "env"))
	r.expanded(u, out)
	if len(r.errs) > 0 {
		if note != nil {
			r.errs = append(r.errs, note)
		}
		return Resolved{}, errors.Join(r.errs...)
	}
	out.Note = note
	return out, nil
}

// envFile is the path of env_file. One whose path has a variable that is not set is left
// out: it may be for the folders of some clients alone, and what it would have set may not
// be needed.
func (r *resolver) envFile(u Upstream) (path string, note error) {
	expanded, err := expand(u.EnvFile, r.lookup)
	if err != nil {
		return "", &Unresolved{r.key + ".env_file", "left out: " + err.Error()}
	}
	if expanded == "" {
		return "", nil
	}
	return absolute(expanded, u.Dir), nil
}

// expanded repeats those checks whose outcome depends on variables.
func (r *resolver) expanded(u Upstream, out Resolved) {
	if len(r.errs) > 0 {
		return
	}
	switch {
	case u.Command != "" && out.Command == "":
		r.fail("command", "empty once its variables are filled in")
	case u.URL != "":
		if message := urlProblem(out.URL); message != "" {
			r.fail("url", message)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out.Headers)) {
		if strings.ContainsFunc(out.Headers[name], isControl) {
			r.fail(join("headers", name), "want no control characters once its variables are filled in")
		}
	}
}

func (r *resolver) string(s, key string) string {
	v, err := expand(s, r.lookup)
	if err == nil && strings.ContainsRune(v, 0) {
		err = errors.New("want no NUL characters once its variables are filled in")
	}
	if err != nil {
		r.fail(key, err.Error())
	}
	return v
}

func (r *resolver) path(s, key, dir string) string {
	if v := r.string(s, key); v != "" {
		return absolute(v, dir)
	}
	return ""
}

func (r *resolver) table(values Secrets, key string) Secrets {
	out := make(Secrets, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out[name] = r.string(values[name], join(key, name))
	}
	return out
}

// envFile reads NAME=value lines: # starts a comment line, "export " in front
// and one pair of quotes around the value are dropped, nothing is expanded. A value that
// begins with a quote goes on to the next line that ends with it.
func envFile(path string) (Secrets, error) {
	vars := Secrets{}
	if path == "" {
		return vars, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return vars, err
	}
	lines := slices.Collect(strings.Lines(string(data)))
	for n := 0; n < len(lines); n++ {
		line := strings.TrimSpace(lines[n])
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !validVariable(name) || strings.ContainsRune(value, 0) {
			return vars, fmt.Errorf("%s:%d: want NAME=value", path, n+1)
		}
		if more, end := quotedLines(lines[n:], value); end > 0 {
			value = more
			n += end
		} else if q := len(value) - 1; q > 0 && value[0] == value[q] && (value[0] == '"' || value[0] == '\'') {
			value = value[1:q]
		}
		vars[name] = value
	}
	return vars, nil
}

// quotedLines is a value that begins on the first of these lines and ends on another, which
// is returned too; 0: it ends where it begins.
func quotedLines(lines []string, first string) (string, int) {
	if first == "" || first[0] != '"' && first[0] != '\'' || len(first) > 1 && first[len(first)-1] == first[0] {
		return "", 0
	}
	mark := first[:1]
	_, all, _ := strings.Cut(lines[0], mark)
	for i, line := range lines[1:] {
		if trimmed, ok := strings.CutSuffix(strings.TrimRight(line, " \t\r\n"), mark); ok {
			return all + trimmed, i + 1
		}
		all += line
	}
	return "", 0
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
