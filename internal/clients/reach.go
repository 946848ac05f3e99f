package clients

import (
	"net/url"
	"regexp"
	"strings"
)

// reach makes a server's command or url one that our configuration takes; a reason if
// that cannot be.
func (d *draft) reach() string {
	switch {
	case d.server.Transport == "?":
		return "its type is none that mcpschedd speaks: want stdio, http or sse"
	case len(d.command) == 0 && len(d.url) == 0:
		return "it has neither a command nor a url"
	case len(d.command) > 0 && len(d.url) > 0:
		d.note("its url was left out, as it also has a command")
		d.url = nil
	}
	if len(d.url) > 0 {
		return d.remote()
	}
	d.server.Transport = ""
	if len(d.headers) > 0 {
		d.note("its headers were left out: they have no meaning for a command")
		d.headers = nil
	}
	d.keep(&d.env, func(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }, "environment variable")
	if strings.ContainsAny(d.command.plain(), `/\`) || strings.HasPrefix(d.command.plain(), "~") {
		d.command = d.path(d.command, "its command")
	}
	d.cwd = d.folder(d.cwd)
	d.envFile = d.path(d.envFile, "its env_file")
	return ""
}

// remote is a server with a url.
func (d *draft) remote() string {
	if len(d.args)+len(d.env)+len(d.cwd) > 0 {
		d.note("its args, env and cwd were left out: they have no meaning for a url")
		d.args, d.env, d.cwd = nil, nil, nil
	}
	d.envFile = d.path(d.envFile, "its env_file")
	u := d.url.filled("1") // which fits as a host, a port and a path
	if a, err := url.Parse(u); d.url[0].variable == "" && d.url[0].secret == nil && (err != nil || a.Scheme != "http" && a.Scheme != "https" || a.Host == "") {
		return "its url is none that mcpschedd speaks: want http or https"
	}
	d.keep(&d.headers, headerName.MatchString, "HTTP header")
	d.keep(&d.headers, func(name string) bool { return !d.control(name) }, "HTTP header")
	if len(d.headers) == 0 && !loopback.MatchString(u) && len(d.server.Notes) == 0 {
		d.note("if it asks for a sign-in (OAuth): mcpschedd does none, so give it a token in its headers")
	}
	return ""
}

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	loopback   = regexp.MustCompile(`^https?://(?:localhost|127\.[0-9.]+|\[::1\])(?:[:/]|$)`)
)

// control reports whether a header's value has characters that none may have.
func (d *draft) control(name string) bool {
	for _, h := range d.headers {
		if h.name == name {
			return strings.ContainsFunc(h.value.String(), func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
		}
	}
	return false
}

// keep drops the pairs whose names are not valid.
func (d *draft) keep(pairs *[]named, valid func(string) bool, what string) {
	var kept []named
	for _, p := range *pairs {
		if valid(p.name) && shown(p.name) == p.name {
			kept = append(kept, p)
		} else {
			d.note("left out, as it is no valid " + what + ": " + shown(p.name))
		}
	}
	*pairs = kept
}

// folder is a working folder. The client's is our default.
func (d *draft) folder(t text) text {
	if only := t.only(); only.variable == "WORKSPACE_FOLDER" || only.literal == "." && d.base == "" {
		return nil
	}
	return d.path(t, "its cwd")
}

// path is a path that does not depend on where it is read: "~" is not filled in by our
// configuration, and a relative path starts at the file that has it.
func (d *draft) path(t text, what string) text {
	if len(t) == 0 || t[0].variable != "" || t[0].secret != nil {
		return t
	}
	first, rest := t[0].literal, t[1:]
	switch {
	case first == "":
		return nil
	case first[0] == '~' && (first == "~" || first[1] == '/' || first[1] == '\\'):
		return append(text{{variable: home(d.os)}, {literal: first[1:]}}, rest...)
	case absolute.MatchString(first):
		return t
	case d.base != "":
		return append(text{{literal: strings.TrimRight(d.base, `/\`) + "/" + strings.TrimPrefix(first, "./")}}, rest...)
	}
	d.note(what + " is a path relative to wherever the client runs: make it absolute")
	if first[0] == '~' {
		return append(text{{literal: "./" + first}}, rest...)
	}
	return t
}

var absolute = regexp.MustCompile(`^(?:[/\\]|[A-Za-z]:)`)
