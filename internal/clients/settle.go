package clients

import (
	"fmt"
	"iter"
	"net/url"
	pathpkg "path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// self reports whether a server is mcpschedd.
func (e *entry) self() bool {
	if len(e.command) == 0 {
		return e.server.Was == ownName && loopback.MatchString(e.url.plain())
	}
	if program := bare(e.command.plain()); program != ownName {
		if !slices.Contains([]string{"sh", "bash", "zsh", "cmd", "env"}, program) {
			return false
		}
		return slices.ContainsFunc(e.args, func(t text) bool {
			return slices.ContainsFunc(strings.Fields(t.plain()), func(word string) bool { return bare(word) == ownName })
		})
	}
	return true
}

// bare is a program without its folder.
func bare(s string) string {
	s = pathpkg.Base(strings.ReplaceAll(s, `\`, "/"))
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		if n := len(s) - len(end); n > 0 && strings.EqualFold(s[n:], end) {
			return s[:n]
		}
	}
	return s
}

// reach makes a server's command or url one that our configuration takes; a reason if
// that cannot be.
func (e *entry) reach() string {
	switch {
	case e.server.Transport == "?":
		return "its type is none that mcpschedd speaks: want stdio, http or sse"
	case len(e.command) == 0 && len(e.url) == 0:
		return "it has neither a command nor a url"
	case len(e.command) > 0 && len(e.url) > 0:
		e.note("its url was left out, as it also has a command")
		e.url = nil
	}
	if len(e.url) > 0 {
		return e.remote()
	}
	e.server.Transport = ""
	if len(e.headers) > 0 {
		e.note("its headers were left out: they have no meaning for a command")
		e.headers = nil
	}
	e.keep(&e.env, func(p named) bool { return p.name != "" && !strings.ContainsAny(p.name, "=\x00") }, "environment variable")
	if command := e.command.plain(); strings.ContainsAny(command, `/\`) || strings.HasPrefix(command, "~") {
		e.command = e.path(e.command, "its command")
	}
	if t := e.cwd; len(t) == 1 && (t[0].variable == workspace || t[0].literal == "." && e.base == "") {
		e.cwd = nil // the client's, which is our default
	}
	e.cwd = e.path(e.cwd, "its cwd")
	return ""
}

// remote is a server with a url.
func (e *entry) remote() string {
	if len(e.args)+len(e.env)+len(e.cwd) > 0 {
		e.note("its args, env and cwd were left out: they have no meaning for a url")
		e.args, e.env, e.cwd = nil, nil, nil
	}
	u := e.url.filled("1") // which fits as a host, a port and a path
	if a, err := url.Parse(u); e.url[0].variable == "" && (err != nil || a.Scheme != "http" && a.Scheme != "https" || a.Host == "") {
		return "its url is none that mcpschedd speaks: want http or https"
	}
	e.keep(&e.headers, func(p named) bool {
		return headerName.MatchString(p.name) && !strings.ContainsFunc(p.value.String(), func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
	}, "HTTP header")
	if len(e.headers) == 0 && !loopback.MatchString(u) && !strings.ContainsAny(u, "?@") && e.server.Stays == "" {
		if e.withoutToken {
			e.note("no header of it has a token: if the server wants its users to sign in by a browser, it will refuse mcpschedd, which does not")
		} else {
			e.server.Stays = "it has no token in its headers: it may sign in by a browser, which mcpschedd does not"
		}
	}
	return ""
}

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	loopback   = regexp.MustCompile(`^https?://(?:localhost|127\.[0-9.]+|\[::1\])(?:[:/]|$)`)
	absolute   = regexp.MustCompile(`^(?:[/\\]|[A-Za-z]:)`)
)

// keep drops the pairs that are not valid.
func (e *entry) keep(pairs *[]named, good func(named) bool, what string) {
	var kept []named
	for _, p := range *pairs {
		if good(p) && shown(p.name) == p.name {
			kept = append(kept, p)
		} else {
			e.note("left out, as it is no valid " + what + ": " + shown(p.name))
		}
	}
	*pairs = kept
}

// path is a path that does not depend on where it is read: "~" is not filled in by our
// configuration, and a relative path starts at the file that has it.
func (e *entry) path(t text, what string) text {
	if len(t) == 0 || t[0].variable != "" {
		return t
	}
	first, rest := t[0].literal, t[1:]
	switch {
	case first == "":
		return nil
	case first[0] == '~' && (first == "~" || first[1] == '/' || first[1] == '\\'):
		return append(text{{variable: home(e.os)}, {literal: first[1:]}}, rest...)
	case absolute.MatchString(first):
		return t
	case e.base != "":
		return append(text{{literal: strings.TrimRight(e.base, `/\`) + "/" + strings.TrimPrefix(first, "./")}}, rest...)
	}
	e.note(what + " is a path relative to wherever the client runs: make it absolute")
	if first[0] == '~' {
		return append(text{{literal: "./" + first}}, rest...)
	}
	return t
}

// settle turns what was read into the server: its literal values go into variables.
func (e *entry) settle() {
	s := &e.server
	e.envFile = e.path(e.envFile, "its env file")
	for _, p := range e.env {
		if len(p.value) > 1 || len(p.value) == 1 && p.value[0].variable != "" {
			s.Env = append(s.Env, Pair{p.name, e.value(p.value, variableName(p.name)+"_PART").String()})
		} else if validVariable(p.name) && !e.means(p.name) {
			e.add(p.name, p.value.plain())
		} else {
			s.Env = append(s.Env, Pair{p.name, "${" + e.hidden(variableName(p.name), p.value.plain()) + "}"})
		}
	}
	for _, p := range e.headers {
		s.Headers = append(s.Headers, Pair{p.name, e.value(p.value, variableName(p.name)).String()})
	}
	s.Command, s.Cwd, s.URL = e.hide(e.command, "").String(), e.hide(e.cwd, "").String(), e.hide(e.url, "").String()
	before := ""
	for _, a := range e.args {
		s.Args = append(s.Args, e.hide(a, before).String())
		before = a.plain()
	}
	e.ownEnvFile()
	used := s.means()
	s.Unset = slices.DeleteFunc(s.Unset, func(u Unset) bool { return !strings.Contains(used, "${"+u.Name+"}") })
	for _, v := range s.Values {
		if _, ok := v.line(); !ok {
			s.Stays = "the value of " + shown(v.Name) + " cannot be written into a file of variables"
		}
	}
}

// ownEnvFile takes over the file of variables that the client itself reads.
func (e *entry) ownEnvFile() {
	s := &e.server
	if len(e.envFile) == 0 {
		return
	}
	if slices.ContainsFunc(e.envFile, func(p piece) bool { return p.variable == workspace }) {
		e.note("its env file depends on the folder that the client has open: name one in env_file")
		return
	}
	if len(s.Values)+len(s.Unset) == 0 {
		s.EnvFile = e.hide(e.envFile, "").String()
		return
	}
	file := e.envFile.filled("")
	if len(e.envFile) == 1 && e.envFile[0].variable == "" {
		if data, err := e.file(file); err == nil {
			e.note("what is in " + shown(file) + " was copied: it changes here from now on")
			for line := range strings.Lines(string(data)) {
				name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
				if name = strings.TrimSpace(name); ok && validVariable(name) && !slices.ContainsFunc(s.Values, func(v Value) bool { return v.Name == name }) {
					e.add(name, unquoted(strings.TrimSpace(value)))
				}
			}
			return
		}
	}
	s.Stays = "it has an env file, which cannot be read, beside values of its own"
}

func unquoted(s string) string {
	if n := len(s) - 1; n > 0 && s[0] == s[n] && (s[0] == '"' || s[0] == '\'') {
		return s[1:n]
	}
	return s
}

// means reports whether a variable means something outside of the server's own values.
func (e *entry) means(name string) bool {
	if name == "DOLLAR" {
		return true
	}
	for t := range e.texts() {
		if slices.ContainsFunc(t, func(p piece) bool { return p.variable == name }) {
			return true
		}
	}
	return false
}

func (e *entry) texts() iter.Seq[text] {
	return func(yield func(text) bool) {
		all := append([]text{e.command, e.cwd, e.envFile, e.url}, e.args...)
		for _, p := range slices.Concat(e.env, e.headers) {
			all = append(all, p.value)
		}
		for _, t := range all {
			if !yield(t) {
				return
			}
		}
	}
}

// line is a variable as a line of the file; false if no line can say its value.
func (v Value) line() (string, bool) {
	if !valid(v.Value) {
		return "", false
	}
	for _, mark := range []string{`"`, `'`} {
		ends := false // a line within the value looks like its last
		for line := range strings.Lines(v.Value) {
			ends = ends || strings.HasSuffix(line, "\n") && strings.HasSuffix(strings.TrimRight(line, " \t\r\n"), mark)
		}
		if !ends && !(strings.HasPrefix(v.Value, "\n") || strings.HasPrefix(v.Value, "\r")) {
			return fmt.Sprintf("%s=%s%s%s\n", v.Name, mark, v.Value, mark), true
		}
	}
	return "", false
}

func itoa(n int) string { return strconv.Itoa(n) }

// upstreamName is a name for [upstreams.NAME]: letters, digits and -, with single _
// inside, and none that is used.
func upstreamName(was string, used map[string]bool) string {
	var b strings.Builder
	for _, c := range was {
		switch {
		case c < 0x80 && strings.ContainsRune(nameLetters+"0123456789", c):
			b.WriteRune(c)
		case c == '_' && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		case c != '_' && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-_")
	if name == "" || name == "plan" { // plan__NAME are the named plans
		name = strings.TrimPrefix(name+"-server", "-")
	}
	unique := name
	for n := 2; used[strings.ToLower(unique)]; n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	used[strings.ToLower(unique)] = true
	return unique
}
