package config

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"
)

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-"

// validName takes letters, digits and -, with single _ between them: so the
// first __ of upstream__tool always ends the upstream's name.
func validName(name string) bool {
	for part := range strings.SplitSeq(name, "_") {
		if part == "" || strings.Trim(part, nameLetters) != "" {
			return false
		}
	}
	return true
}

func (b *binder) checkUpstream(u Upstream, plans bool) {
	key := join("upstreams", u.Name)
	if !validName(u.Name) {
		b.problem(key, "want a name of letters, digits and -, with single _ between them, so that upstream__tool has one reading, have %q", u.Name)
	}
	if plans && u.Name == "plan" {
		b.problem(key, `"plan" is taken: named plans are listed as plan__NAME`)
	}
	b.checkReach(key, u)
	if u.SharedIdentity && u.Instances != "shared" && !(u.Instances == "" && u.URL != "") {
		b.problem(join(key, "shared_identity"), `has no meaning without instances = "shared"`)
	}
	for i, folder := range u.Folders {
		if folder == "" || strings.HasPrefix(folder, "~") {
			b.problem(element(join(key, "folders"), i), `want the path of a folder; "~" is not expanded, have %q`, folder)
		}
	}
	b.globs(join(key, "tools", "allow"), u.Tools.Allow)
	b.globs(join(key, "tools", "deny"), u.Tools.Deny)
	b.checkVariables(key, u)
}

// checkReach holds command and url apart, each with the keys that belong to it.
func (b *binder) checkReach(key string, u Upstream) {
	switch {
	case u.Command != "" && u.URL != "":
		b.problem(join(key, "url"), "want either command or url, have both")
		return
	case u.Command == "" && u.URL == "":
		if !b.failed(join(key, "command")) && !b.failed(join(key, "url")) && !b.failed(key) {
			b.problem(key, "want command or url")
		}
		return
	}
	if program, rest, several := strings.Cut(u.Command, " "); several && !strings.ContainsAny(program, `/\$`) {
		quoted, _ := json.Marshal(strings.Fields(rest)) // strings always marshal
		b.problem(join(key, "command"), "is one program, without its arguments: split it into command = %q and args = %s", program, quoted)
	}
	stray := map[string]bool{"transport": u.Transport != "", "headers": len(u.Headers) > 0}
	other := "url"
	if u.URL != "" {
		stray = map[string]bool{"args": len(u.Args) > 0, "cwd": u.Cwd != "", "env": len(u.Env) > 0}
		other = "command"
		// A variable may hold any part of a url; 1 fits as a host, a port and a path,
		// and where it holds the scheme, only Resolve can tell.
		filled, err := expand(u.URL, func(string) (string, bool) { return "1", true })
		if message := urlProblem(filled); err == nil && message != "" && !strings.HasPrefix(u.URL, "${") {
			b.problem(join(key, "url"), "%s", message)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(stray)) {
		if stray[name] {
			b.problem(join(key, name), "has no meaning without %s", other)
		}
	}
}

// checkVariables reads every ${NAME} of an upstream, and the names around them.
func (b *binder) checkVariables(key string, u Upstream) {
	strs := map[string]string{"command": u.Command, "cwd": u.Cwd, "env_file": u.EnvFile, "url": u.URL} // key below the upstream → string
	for i, arg := range u.Args {
		strs[element("args", i)] = arg
	}
	for name, v := range u.Env {
		strs[join("env", name)] = v
		if name == "" || strings.ContainsAny(name, "=\x00") {
			b.problem(join(key, "env", name), "want the name of an environment variable, have %q", name)
		}
	}
	for name, v := range u.Headers {
		strs[join("headers", name)] = v
		if name == "" || strings.Trim(name, nameLetters+"!#$%&'*+.^_`|~") != "" {
			b.problem(join(key, "headers", name), "want the name of an HTTP header, have %q", name)
		}
		if strings.ContainsFunc(v, isControl) {
			b.problem(join(key, "headers", name), "want no control characters")
		}
	}
	for name, v := range strs {
		if _, err := split(v); err != nil {
			b.problem(key+"."+name, "%v", err)
		}
	}
	for _, name := range []string{"command", "cwd", "env_file"} {
		if strings.HasPrefix(strs[name], "~") {
			b.problem(join(key, name), `"~" is not expanded; write ${HOME}`)
		}
	}
}

func (b *binder) globs(key string, patterns []string) {
	for i, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			b.problem(element(key, i), "want the name of a tool or a glob such as \"delete_*\", have %q", p)
		}
	}
}
