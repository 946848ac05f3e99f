package clients

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// complete converts the entry to a server with a command or URL that our configuration
// supports, and with literal values in variables. It returns the reason why that is impossible,
// or "".
func (e *entry) complete(withoutToken bool) string {
	transport, known := transports[e.transport]
	switch {
	case !known:
		return "its type is not supported: want stdio, http or sse"
	case len(e.command) == 0 && len(e.url) == 0:
		return "it has neither a command nor a url"
	case len(e.command) > 0 && len(e.url) > 0:
		e.note("its url was left out, since it also has a command")
		e.url = nil
	}
	if len(e.url) > 0 {
		e.server.Block.Transport = transport
		if why := e.remote(withoutToken); why != "" {
			return why
		}
	} else {
		e.local()
	}
	e.fill()
	return ""
}

func (e *entry) note(text string) { e.texts.vault.note(text) }

// local checks a server with a command.
func (e *entry) local() {
	if len(e.headers) > 0 {
		e.note("its headers were left out: they have no meaning for a command")
		e.headers = nil
	}
	e.env = e.valid(e.env, "environment variable", func(p named) bool { return p.name != "" && !strings.ContainsAny(p.name, "=\x00") })
	if command := e.command.plain(); strings.ContainsAny(command, `/\`) || strings.HasPrefix(command, "~") {
		e.command = e.texts.path(e.command, "its command")
	}
	if t := e.cwd; len(t) == 1 && (t[0].variable == workspace || t[0].literal == "." && e.texts.base == "") {
		e.cwd = nil // the client's folder, which is our default
	}
	e.cwd = e.texts.path(e.cwd, "its cwd")
}

// remote checks a server with a URL. It returns the reason why it cannot be imported, or "".
func (e *entry) remote(withoutToken bool) string {
	if len(e.args)+len(e.env)+len(e.cwd) > 0 {
		e.note("its args, env and cwd were left out: they have no meaning for a url")
		e.args, e.env, e.cwd = nil, nil, nil
	}
	u := e.url.filled("1") // valid as a host, a port and a path
	if a, err := url.Parse(u); e.url[0].variable == "" && (err != nil || a.Scheme != "http" && a.Scheme != "https" || a.Host == "") {
		return "its url is not supported: want http or https"
	}
	e.headers = e.valid(e.headers, "HTTP header", func(p named) bool {
		return headerName.MatchString(p.name) && !strings.ContainsFunc(p.value.String(), func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
	})
	switch {
	case len(e.headers) > 0 || loopback.MatchString(u) || strings.ContainsAny(u, "?@") || e.server.Stays != "":
	case withoutToken:
		e.note("none of its headers has a token: if the server requires sign-in by a browser, it will refuse mcpschedd, which does not support that")
	default:
		e.server.Stays = "none of its headers has a token: it may require sign-in by a browser, which mcpschedd does not support"
	}
	return ""
}

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	loopback   = regexp.MustCompile(`^https?://(?:localhost|127\.[0-9.]+|\[::1\])(?:[:/]|$)`)
)

// valid returns the pairs that are valid and whose names contain no secret; it adds notes about
// the others.
func (e *entry) valid(pairs []named, what string, good func(named) bool) (kept []named) {
	for _, p := range pairs {
		if good(p) && shown(p.name) == p.name {
			kept = append(kept, p)
		} else {
			e.note("left out, since it is not a valid " + what + ": " + shown(p.name))
		}
	}
	return kept
}

// fill sets the server's block and variables.
func (e *entry) fill() {
	s, vault := &e.server, e.texts.vault
	b := &s.Block
	e.envFile = e.texts.path(e.envFile, "its env file")
	for _, p := range e.env {
		label := variableName(p.name)
		switch {
		case !p.value.isPlain():
			b.Env = append(b.Env, Pair{p.name, vault.value(p.value, label+"_PART").String()})
		case validVariable(p.name) && !vault.used[p.name]:
			vault.add(p.name, p.value.plain())
		default:
			b.Env = append(b.Env, Pair{p.name, "${" + vault.hidden(label, p.value.plain()) + "}"})
		}
	}
	for _, p := range e.headers {
		b.Headers = append(b.Headers, Pair{p.name, vault.value(p.value, variableName(p.name)).String()})
	}
	hide := func(t text, before string) string { return vault.hide(t, before).String() }
	b.Command, b.Cwd, b.URL = hide(e.command, ""), hide(e.cwd, ""), hide(e.url, "")
	before := ""
	for _, a := range e.args {
		b.Args = append(b.Args, hide(a, before))
		before = a.plain()
	}
	e.takeEnvFile()
	s.Variables, s.Notes = vault.Variables, vault.notes
	used := s.identity()
	s.Variables.Unset = slices.DeleteFunc(s.Variables.Unset, func(u Unset) bool { return !strings.Contains(used, "${"+u.Name+"}") })
	for _, v := range s.Variables.Values {
		if _, ok := v.line(); !ok {
			s.Stays = "the value of " + shown(v.Name) + " cannot be written into a file of variables"
		}
	}
}

// takeEnvFile imports the file of variables that the client reads.
func (e *entry) takeEnvFile() {
	vault := e.texts.vault
	if len(e.envFile) == 0 {
		return
	}
	if slices.ContainsFunc(e.envFile, func(p piece) bool { return p.variable == workspace }) {
		e.note("its env file depends on the folder that the client has open: name one in env_file")
		return
	}
	if len(vault.Values)+len(vault.Unset) == 0 {
		e.server.Block.EnvFile = vault.hide(e.envFile, "").String()
		return
	}
	data, err := e.texts.file(e.envFile.plain())
	if !e.envFile.isPlain() || err != nil {
		e.server.Stays = "it has an env file that cannot be read, and other values as well"
		return
	}
	e.note("the contents of " + shown(e.envFile.plain()) + " were copied: change the copy from now on")
	for line := range strings.Lines(string(data)) {
		name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if name = strings.TrimSpace(name); ok && validVariable(name) && vault.index(name) < 0 {
			vault.add(name, unquoted(strings.TrimSpace(value)))
		}
	}
}

func unquoted(s string) string {
	if n := len(s) - 1; n > 0 && s[0] == s[n] && (s[0] == '"' || s[0] == '\'') {
		return s[1:n]
	}
	return s
}
