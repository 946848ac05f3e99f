package clients

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a server of a client while it is read.
type entry struct {
	server    Server
	texts     *translator
	problems  []string // reasons to leave it out
	ignored   []string // keys without a meaning here
	transport string   // "" if absent

	command, cwd, envFile, url text
	args                       []text
	env, headers               []named
}

// named is an environment variable or a header.
type named struct {
	name  string
	value text
}

const maxText = 64 << 10 // bytes of an imported text

// want records that a value has the wrong kind.
func (e *entry) want(n node, what string) {
	e.problems = append(e.problems, fmt.Sprintf("%s: want %s, have %s", shown(n.pointer), what, n.kind()))
}

// field reads one member of an entry.
func (e *entry) field(m member) {
	block := &e.server.Block
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
		if name, ok := m.value().(string); ok {
			e.headers = append(e.headers, named{"Authorization", text{{literal: "Bearer "}, {variable: name}}})
		}
	case "env_vars": // of Codex: variables to pass on; here all are
	case "cwd":
		e.cwd = e.string(m.node, false)
	case "envFile", "env_file":
		e.envFile = e.string(m.node, false)
	case "url", "serverUrl", "httpUrl":
		e.url = e.string(m.node, false)
	case "type", "transport":
		if s, ok := m.value().(string); ok {
			e.transport = s
		} else {
			e.want(m.node, "a string")
		}
	case "disabled", "enabled":
		block.Disabled = block.Disabled || m.value() == (m.name == "disabled")
	case "disabledTools", "excludeTools", "disabled_tools":
		block.DenyTools = append(block.DenyTools, globs(m.strings())...)
	case "includeTools", "enabled_tools":
		block.AllowTools = append(block.AllowTools, globs(m.strings())...)
	case "autoApprove", "alwaysAllow":
		e.server.Approved = append(e.server.Approved, m.strings()...)
	case "timeout", "tool_timeout_sec", "startup_timeout_sec", "startup_timeout_ms":
		e.timeout(m)
	case "oauth", "auth", "headersHelper", "oauth_resource", "scopes":
		if m.value() != false {
			e.server.Stays = "the client signs in to it, which mcpschedd does not support"
		}
	case "trust":
		if m.value() == true {
			e.texts.vault.note("the client calls its tools without asking, but asks about mcpschedd's")
		}
	case "description", "name", "icon", "iconUrl", "gallery", "version", "dev", "$schema", "registryBaseUrl", "source", "required":
	default:
		e.ignored = append(e.ignored, shown(m.name))
	}
}

// string reads a string. relative is passed to [translator.read].
func (e *entry) string(n node, relative bool) text {
	s, ok := n.value().(string)
	if !ok {
		e.want(n, "a string")
		return nil
	}
	return e.limited(n, s, relative)
}

// limited reads a string of at most maxText bytes.
func (e *entry) limited(n node, s string, relative bool) text {
	if len(s) > maxText || strings.ContainsRune(s, 0) {
		e.problems = append(e.problems, fmt.Sprintf("%s: want at most %d KiB without NUL characters", shown(n.pointer), maxText>>10))
		return nil
	}
	return e.texts.read(s, relative)
}

// program reads a command. Older versions of Zed nest its arguments and environment; OpenCode
// has the command and its arguments in one list.
func (e *entry) program(n node) {
	switch inner := n.value().(type) {
	case []node:
		if len(inner) > 0 && e.texts.client.shape == opencodeShape {
			e.program(inner[0])
			e.words(inner[1:])
			return
		}
	case []member:
		for _, m := range inner {
			switch m.name {
			case "path":
				e.program(m.node)
			case "args", "env":
				e.field(m)
			}
		}
		return
	case string:
		if program, rest, several := strings.Cut(strings.TrimSpace(inner), " "); several && !strings.ContainsAny(program, `/\$`) {
			e.command = e.limited(n, program, false) // one text with arguments
			var args []text
			for word := range strings.FieldsSeq(rest) {
				args = append(args, e.limited(n, word, true))
			}
			e.args = append(args, e.args...)
			return
		}
	}
	e.command = e.string(n, false)
}

func (e *entry) arguments(n node) {
	elements, ok := n.value().([]node)
	if !ok {
		e.want(n, "a list of strings")
	}
	e.words(elements)
}

func (e *entry) words(elements []node) {
	for _, one := range elements {
		if s, ok := one.scalar(); ok {
			e.args = append(e.args, e.limited(one, s, true))
		} else {
			e.want(one, "a string")
		}
	}
}

// pairs reads an object of strings.
func (e *entry) pairs(n node, relative bool) []named {
	all, ok := n.members()
	if !ok {
		e.want(n, "an object of strings")
		return nil
	}
	var out []named
	for _, m := range all {
		s, ok := m.scalar()
		switch {
		case m.value() == nil:
			e.texts.vault.note(shown(m.name) + " is removed from the environment by the client, but not by mcpschedd")
		case !ok:
			e.want(m.node, "a string")
		default:
			out = append(out, named{m.name, e.limited(m.node, s, relative)})
		}
	}
	return out
}

// timeout reads a timeout: for a call, which is imported, or for the start, which is one
// setting for all upstreams here.
func (e *entry) timeout(m member) {
	const defaultStart = 30 * time.Second // default of [server] start_timeout
	value, ok := m.value().(number)
	amount, err := strconv.ParseFloat(string(value), 64)
	shape := e.texts.client.shape
	start := strings.HasPrefix(m.name, "startup") || shape == opencodeShape
	if !ok || err != nil || amount <= 0 || amount > 1e10 || shape == zedShape && !start {
		e.ignored = append(e.ignored, shown(m.name))
		return
	}
	unit := time.Millisecond
	if strings.HasSuffix(m.name, "_sec") {
		unit = time.Second
	}
	wait := time.Duration(amount * float64(unit)).Round(time.Millisecond)
	if !start {
		e.server.Block.Timeout = wait
	} else if wait > defaultStart {
		e.texts.vault.note(fmt.Sprintf("the client waits %v for its start: set [server] start_timeout = %q in mcpschedd's configuration", wait, wait))
	}
}

// globs returns names of tools as globs that match only these names.
func globs(names []string) []string {
	var all []string
	for _, name := range names {
		if name != "" {
			all = append(all, strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name))
		}
	}
	return all
}

// transports maps the clients' names of transports to ours.
var transports = map[string]string{
	"": "", "stdio": "", "local": "", "sse": "sse",
	"http": "", "streamable-http": "", "streamableHttp": "", "streamable_http": "", "remote": "",
}

// isSelf reports whether a server is mcpschedd.
func (e *entry) isSelf() bool {
	if len(e.command) == 0 {
		return e.server.Was == ownName && loopback.MatchString(e.url.plain())
	}
	own := func(word string) bool { return bare(word) == ownName || bare(word) == ownSmall }
	program := e.command.plain()
	if !slices.Contains([]string{"sh", "bash", "zsh", "cmd", "env"}, bare(program)) {
		return own(program)
	}
	return slices.ContainsFunc(e.args, func(t text) bool { return slices.ContainsFunc(strings.Fields(t.plain()), own) })
}

// serves reports whether the entry starts mcpschedd serve, without flags that connect does not
// have.
func (e *entry) serves() bool {
	return bare(e.command.plain()) == ownName && len(e.args) > 0 && e.args[0].plain() == "serve" &&
		!slices.ContainsFunc(e.args, func(t text) bool {
			return strings.HasPrefix(t.plain(), "--http") || strings.HasPrefix(t.plain(), "--auth")
		})
}

// bare returns the name of a program without its folder and extension.
func bare(s string) string {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		if n := len(s) - len(end); n > 0 && strings.EqualFold(s[n:], end) {
			return s[:n]
		}
	}
	return s
}
