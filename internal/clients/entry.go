package clients

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a server that is being read, as its client has it.
type entry struct {
	server    Server
	texts     *translator
	problems  []string // for which it is left out
	left      []string // keys that mean nothing here
	transport string   // "": it is not said

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

// want notes a value of the wrong kind.
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
	case "env_vars": // of Codex: what is passed on, which here everything is
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
			e.server.Stays = "the client signs in to it, which mcpschedd does not"
		}
	case "trust":
		if m.value() == true {
			e.texts.vault.note("the client calls its tools without asking; mcpschedd's own it asks about")
		}
	case "description", "name", "icon", "iconUrl", "gallery", "version", "dev", "$schema", "registryBaseUrl", "source", "required":
	default:
		e.left = append(e.left, shown(m.name))
	}
}

// string reads one.
func (e *entry) string(n node, here bool) text {
	s, ok := n.value().(string)
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
	return e.texts.read(s, here)
}

// program reads a command. An older Zed has its arguments and environment inside, OpenCode
// has it in one list with its arguments.
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
			e.command = e.long(n, program, false) // it has its arguments in one text
			var args []text
			for word := range strings.FieldsSeq(rest) {
				args = append(args, e.long(n, word, true))
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
		case m.value() == nil:
			e.texts.vault.note(shown(m.name) + " is taken out of the environment by the client; here it stays")
		case !ok:
			e.want(m.node, "a string")
		default:
			out = append(out, named{m.name, e.long(m.node, s, here)})
		}
	}
	return out
}

// timeout reads how long a client waits: for a call, which is taken over, or for the start,
// which is one setting for all upstreams.
func (e *entry) timeout(m member) {
	const defaultStart = 30 * time.Second // of [server] start_timeout
	value, ok := m.value().(number)
	amount, err := strconv.ParseFloat(string(value), 64)
	shape := e.texts.client.shape
	start := strings.HasPrefix(m.name, "startup") || shape == opencodeShape
	if !ok || err != nil || amount <= 0 || amount > 1e10 || shape == zedShape && !start {
		e.left = append(e.left, shown(m.name))
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
		e.texts.vault.note(fmt.Sprintf("the client lets it start for %v: [server] start_timeout = %q in mcpschedd's configuration", wait, wait))
	}
}

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

// transports are those that clients name, and ours.
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

// serves reports whether mcpschedd is started by serve, with nothing that connect does not take.
func (e *entry) serves() bool {
	return bare(e.command.plain()) == ownName && len(e.args) > 0 && e.args[0].plain() == "serve" &&
		!slices.ContainsFunc(e.args, func(t text) bool {
			return strings.HasPrefix(t.plain(), "--http") || strings.HasPrefix(t.plain(), "--auth")
		})
}

// bare is a program without its folder.
func bare(s string) string {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	for _, end := range []string{".exe", ".cmd", ".bat"} {
		if n := len(s) - len(end); n > 0 && strings.EqualFold(s[n:], end) {
			return s[:n]
		}
	}
	return s
}
