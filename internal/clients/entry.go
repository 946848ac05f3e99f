package clients

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Server is one upstream.
type Server struct {
	Name       string        `json:"name"`                  // for [upstreams.NAME], and unlike all others
	Was        string        `json:"was,omitempty"`         // what the client calls it, if that is another name
	Client     string        `json:"client"`                // as [Client.Name]
	File       string        `json:"file"`                  // where it stands
	Pointer    string        `json:"pointer"`               // in that, as a JSON pointer
	Scope      string        `json:"scope,omitempty"`       // of Claude Code: user, local, project
	Command    string        `json:"command,omitempty"`     // "" for a url
	Args       []string      `json:"args,omitempty"`        //
	Cwd        string        `json:"cwd,omitempty"`         // "": the client's
	Env        []Pair        `json:"env,omitempty"`         // that name variables, in the order of the file
	EnvFile    string        `json:"env_file,omitempty"`    // the client's own
	URL        string        `json:"url,omitempty"`         //
	Transport  string        `json:"transport,omitempty"`   // sse, or "": streamable HTTP first
	Headers    []Pair        `json:"headers,omitempty"`     // in the order of the file
	Timeout    time.Duration `json:"timeout,omitempty"`     // of a call
	Disabled   bool          `json:"disabled,omitempty"`    //
	Folders    []string      `json:"folders,omitempty"`     // sessions elsewhere do not have it
	AllowTools []string      `json:"allow_tools,omitempty"` //
	DenyTools  []string      `json:"deny_tools,omitempty"`
	Trust      bool          `json:"trust,omitempty"`
	Values     []Value       `json:"values,omitempty"` // what goes into its file of variables
	Unset      []Unset       `json:"unset,omitempty"`  // variables that no file has a value for
	Stays      string        `json:"stays,omitempty"`  // why the client keeps it
	Notes      []string      `json:"notes,omitempty"`  // what did not come along, or is not what it was
	Approved   []string      `json:"-"`                // tools that the client calls without asking

	table []string // where it stands
	entry string   // under which name
}

// Pair is an environment variable of a server, or a header.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"` // with ${NAME} in it, no literal value
}

// Value is a variable of a server and what it stands for, which is never printed.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"-"`
}

// Unset is a variable that has to be set before a server runs.
type Unset struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// entry is a server that is being read.
type entry struct {
	server Server
	client *Client
	label  string            // what its variables are called after
	base   string            // the folder of the project whose file it is in; ""
	os     string            // as runtime.GOOS has it
	inputs map[string]string // of VS Code: what is asked for → its default
	file   func(path string) ([]byte, error)

	withoutToken bool // as in Options
	problems     []string
	left         []string // keys that mean nothing here

	command, cwd, envFile, url text
	args                       []text
	env, headers               []named
}

// named is an environment variable, or a header.
type named struct {
	name  string
	value text
}

const longest = 64 << 10 // bytes of a text that is taken over

func (e *entry) note(text string) {
	if !slices.Contains(e.server.Notes, text) {
		e.server.Notes = append(e.server.Notes, text)
	}
}

// want notes a value of the wrong kind.
func (e *entry) want(n node, what string) {
	e.problems = append(e.problems, fmt.Sprintf("%s: want %s, have %s", shown(n.pointer), what, n.kind()))
}

// field reads one member of an entry.
func (e *entry) field(m member) {
	switch m.name {
	case "command":
		e.program(m.node)
	case "args":
		e.arguments(m.node)
	case "env", "environment":
		e.env = append(e.env, e.pairs(m.node, true)...)
	case "headers", "http_headers":
		e.headers = append(e.headers, e.pairs(m.node, false)...)
	case "env_http_headers":
		for _, p := range e.pairs(m.node, false) {
			e.headers = append(e.headers, named{p.name, text{{variable: p.value.plain()}}})
		}
	case "bearer_token_env_var":
		if name, ok := m.value.(string); ok {
			e.headers = append(e.headers, named{"Authorization", text{{literal: "Bearer "}, {variable: name}}})
		}
	case "env_vars": // of Codex: what is passed on, which here everything is
	case "cwd":
		e.cwd = e.string(m.node, false)
	case "envFile", "env_file":
		e.envFile = e.string(m.node, false)
	case "url", "serverUrl", "httpUrl":
		e.url = e.string(m.node, false)
	case "type", "transport":
		e.kind(m.node)
	case "disabled":
		e.server.Disabled = e.server.Disabled || m.value == true
	case "enabled":
		e.server.Disabled = e.server.Disabled || m.value == false
	case "disabledTools", "excludeTools", "disabled_tools":
		e.server.DenyTools = append(e.server.DenyTools, globs(m.strings())...)
	case "includeTools", "enabled_tools":
		e.server.AllowTools = append(e.server.AllowTools, globs(m.strings())...)
	case "autoApprove", "alwaysAllow":
		e.server.Approved = append(e.server.Approved, m.strings()...)
	case "timeout", "tool_timeout_sec", "startup_timeout_sec", "startup_timeout_ms":
		e.timeout(m)
	case "oauth", "auth", "headersHelper", "oauth_resource", "scopes":
		if m.value != false {
			e.server.Stays = "the client signs in to it, which mcpschedd does not"
		}
	case "trust":
		if m.value == true {
			e.note("the client calls its tools without asking; mcpschedd's own it asks about")
		}
	case "description", "name", "icon", "iconUrl", "gallery", "version", "dev", "$schema", "registryBaseUrl", "source", "required":
	default:
		e.left = append(e.left, shown(m.name))
	}
}

// string reads one.
func (e *entry) string(n node, here bool) text {
	s, ok := n.value.(string)
	if !ok {
		e.want(n, "a string")
		return nil
	}
	return e.long(n, s, here)
}

func (e *entry) long(n node, s string, here bool) text {
	if len(s) > longest || strings.ContainsRune(s, 0) {
		e.problems = append(e.problems, fmt.Sprintf("%s: want at most %d KiB without NUL characters", shown(n.pointer), longest>>10))
		return nil
	}
	return e.read(s, here)
}

// program reads a command. An older Zed has its arguments and environment inside, OpenCode
// has it in one list with its arguments.
func (e *entry) program(n node) {
	if words, ok := n.value.([]node); ok && len(words) > 0 && e.client.shape == opencodeShape {
		rest := n
		rest.value = words[1:]
		e.program(words[0])
		e.arguments(rest)
		return
	}
	inner, ok := n.value.([]member)
	if !ok {
		e.command = e.string(n, false)
		return
	}
	for _, m := range inner {
		switch m.name {
		case "path":
			e.program(m.node)
		case "args", "env":
			e.field(m)
		}
	}
}

func (e *entry) arguments(n node) {
	elements, ok := n.value.([]node)
	if !ok {
		e.want(n, "a list of strings")
		return
	}
	for _, one := range elements {
		if s, ok := one.scalar(); ok {
			e.args = append(e.args, e.long(one, s, true))
		} else {
			e.want(one, "a string")
		}
	}
}

// pairs reads an object of texts.
func (e *entry) pairs(n node, here bool) []named {
	all, ok := n.members()
	if !ok {
		e.want(n, "an object of strings")
		return nil
	}
	var out []named
	for _, m := range all {
		s, ok := m.scalar()
		switch {
		case m.value == nil:
			e.note(shown(m.name) + " is taken out of the environment by the client; here it stays")
		case !ok:
			e.want(m.node, "a string")
		default:
			out = append(out, named{m.name, e.long(m.node, s, here)})
		}
	}
	return out
}

// kind reads how a server is spoken to.
func (e *entry) kind(n node) {
	switch s, ok := n.value.(string); {
	case !ok:
		e.want(n, "a string")
	case s == "sse":
		e.server.Transport = s
	case !slices.Contains([]string{"stdio", "http", "streamable-http", "streamableHttp", "streamable_http", "local", "remote"}, s):
		e.server.Transport = "?"
	}
}

// timeout reads how long a client waits: for a call, which is taken over, or for the start,
// which is one setting for all upstreams.
func (e *entry) timeout(m member) {
	value, ok := m.value.(number)
	amount, err := strconv.ParseFloat(string(value), 64)
	if !ok || err != nil || amount <= 0 || amount > 1e10 {
		e.left = append(e.left, shown(m.name))
		return
	}
	unit := time.Millisecond
	if strings.HasSuffix(m.name, "_sec") {
		unit = time.Second
	}
	wait := time.Duration(amount * float64(unit)).Round(time.Millisecond)
	switch start := strings.HasPrefix(m.name, "startup") || e.client.shape == opencodeShape; {
	case start && wait > defaultStart:
		e.note(fmt.Sprintf("the client lets it start for %v: [server] start_timeout = %q in mcpschedd's configuration", wait, wait))
	case e.client.shape == zedShape:
		e.left = append(e.left, shown(m.name))
	case !start:
		e.server.Timeout = wait
	}
}

const defaultStart = 30 * time.Second // of [server] start_timeout

// globs are names of tools as globs that mean these alone.
func globs(names []string) []string {
	var all []string
	for _, name := range names {
		if name != "" {
			all = append(all, strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name))
		}
	}
	return all
}
