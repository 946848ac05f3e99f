package clients

import (
	"fmt"
	"slices"
	"strings"
)

// draft is a server whose secrets have no variables yet.
type draft struct {
	server             Server
	where              node
	label              string // what its variables are called after
	base, os           string
	command, cwd       text
	envFile, url       text
	args               []text
	env, headers       []named
	problems, leftOver []string
}

// named is an environment variable, or a header.
type named struct {
	name  string
	value text
	where node
}

const longest = 16 << 10 // bytes of a text that is taken over

// server reads one entry.
func (r *Reader) server(t table, m member) {
	d := &draft{where: m.node, label: variableName(m.name), base: t.base, os: r.options.OS}
	d.server = Server{Was: m.name, File: m.doc.name, Pointer: shown(m.pointer), Scope: t.scope}
	all, ok := m.members()
	if !ok {
		r.note(m.node, true, "left out: want an object, have "+m.kind())
		return
	}
	for _, field := range all {
		if !field.null() {
			d.field(field)
		}
	}
	if len(d.problems) > 0 {
		for _, p := range d.problems {
			r.notes = append(r.notes, Note{Where: m.at(), Text: "left out: " + p, Wrong: true})
		}
		return
	}
	if slices.Contains(t.off, m.name) {
		d.server.Disabled = true
	}
	if r.own(d) {
		r.self = append(r.self, m.doc.name)
		r.note(m.node, false, "left out: this is mcpschedd itself")
		return
	}
	if why := d.reach(); why != "" {
		r.note(m.node, false, "left out: "+why)
		return
	}
	if len(d.leftOver) > 0 {
		d.note("not taken over: " + strings.Join(d.leftOver, ", "))
	}
	r.drafts = append(r.drafts, d)
}

func (d *draft) note(text string) {
	if !slices.Contains(d.server.Notes, text) {
		d.server.Notes = append(d.server.Notes, text)
	}
}

// want notes a value of the wrong kind.
func (d *draft) want(n node, what string) {
	d.problems = append(d.problems, fmt.Sprintf("%s: want %s, have %s", shown(n.pointer), what, n.kind()))
}

// field reads one member of an entry.
func (d *draft) field(m member) {
	switch m.name {
	case "command":
		d.program(m.node)
	case "args":
		d.arguments(m.node)
	case "env":
		d.env = d.pairs(m.node, func(name string) context { return d.context(m.node, name, variableName(name)) })
	case "headers":
		d.headers = d.pairs(m.node, func(name string) context {
			label := variableName(name)
			if label == "AUTHORIZATION" {
				label = "TOKEN"
			}
			return d.context(m.node, name, join(d.label, label))
		})
	case "cwd":
		d.cwd = d.text(m.node, d.context(m.node, "", join(d.label, "CWD")))
	case "envFile", "env_file":
		d.envFile = d.text(m.node, d.context(m.node, "", join(d.label, "ENV_FILE")))
	case "url", "serverUrl", "httpUrl":
		d.url = d.text(m.node, d.context(m.node, "", join(d.label, "URL_SECRET")))
	case "type", "transport":
		d.kind(m.node)
	case "disabled":
		d.server.Disabled = d.server.Disabled || m.is(true)
	case "enabled":
		d.server.Disabled = d.server.Disabled || m.is(false)
	case "disabledTools", "excludeTools":
		d.server.DenyTools = append(d.server.DenyTools, globs(m.node)...)
	case "includeTools":
		d.server.AllowTools = append(d.server.AllowTools, globs(m.node)...)
	case "oauth", "auth":
		d.note("the client signs in (OAuth), which mcpschedd does not: without a token in its headers, its answers are \"needs sign-in\"")
	case "headersHelper":
		d.note("the client has a program make its headers, which mcpschedd does not")
	case "description", "name", "icon", "iconUrl", "gallery", "version", "dev", "$schema", "registryBaseUrl", "source":
	default:
		d.leftOver = append(d.leftOver, shown(m.name))
	}
}

func (d *draft) context(n node, name, label string) context {
	return context{
		place:  place{node: n, label: label, os: d.os, note: d.note},
		name:   name,
		server: d.label,
	}
}

// text reads a string, and hides what is secret in it.
func (d *draft) text(n node, c context) text {
	s, ok := n.string()
	if !ok {
		d.want(n, "a string")
		return nil
	}
	return d.hide(n, s, c)
}

func (d *draft) hide(n node, s string, c context) text {
	if len(s) > longest || strings.ContainsRune(s, 0) {
		d.problems = append(d.problems, fmt.Sprintf("%s: want at most %d KiB without NUL characters", shown(n.pointer), longest>>10))
		return nil
	}
	c.node = n
	return c.hide(c.read(s))
}

// program reads a command. An older Zed has its arguments and environment inside.
func (d *draft) program(n node) {
	inner, ok := n.members()
	if !ok {
		d.command = d.text(n, d.context(n, "", join(d.label, "COMMAND")))
		return
	}
	for _, m := range inner {
		switch m.name {
		case "path":
			d.program(m.node)
		case "args", "env":
			d.field(m)
		}
	}
}

func (d *draft) arguments(n node) {
	elements, ok := n.elements()
	if !ok {
		d.want(n, "a list of strings")
		return
	}
	before := ""
	for _, e := range elements {
		s, ok := e.scalar()
		if !ok {
			d.want(e, "a string")
			continue
		}
		label := "SECRET"
		if name := variableName(before); strings.HasPrefix(before, "-") && len(name) > 1 {
			label = name
		}
		c := d.context(e, "", join(d.label, label))
		c.before, c.here = before, true
		d.args = append(d.args, d.hide(e, s, c))
		before = s
	}
}

// pairs reads an object of texts.
func (d *draft) pairs(n node, context func(name string) context) []named {
	all, ok := n.members()
	if !ok {
		d.want(n, "an object of strings")
		return nil
	}
	var out []named
	for _, m := range all {
		s, ok := m.scalar()
		if m.null() {
			d.note(shown(m.name) + " is taken out of the environment by the client; here it stays")
			continue
		}
		if !ok {
			d.want(m.node, "a string")
			continue
		}
		c := context(m.name)
		c.here = true
		out = append(out, named{m.name, d.hide(m.node, s, c), m.node})
	}
	return out
}

// kind reads how a server is spoken to.
func (d *draft) kind(n node) {
	switch s, ok := n.string(); {
	case !ok:
		d.want(n, "a string")
	case s == "sse":
		d.server.Transport = s
	case !slices.Contains([]string{"stdio", "http", "streamable-http", "streamableHttp", "local", "remote"}, s):
		d.server.Transport = "?"
	}
}

// globs are the names of tools in a list, as globs that mean these alone.
func globs(n node) []string {
	var all []string
	for _, name := range n.strings() {
		if name != "" && shown(name) == name {
			all = append(all, strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name))
		}
	}
	return all
}
