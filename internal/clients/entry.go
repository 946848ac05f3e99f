package clients

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// entry is a client's server while it is read. The texts in its block have characters for
// variables until it is complete.
type entry struct {
	t        *translator
	server   *Server
	problems []string // reasons to leave it out
	ignored  []string // keys without a meaning here
}

const maxText = 64 << 10 // bytes of an imported text

// newEntry returns an entry without any fields read.
func newEntry(m Machine, t table, name string) *entry {
	s := &Server{
		Called: shown(name),
		From:   Origin{Client: t.client.Name, File: t.doc.path, Scope: t.scope, table: t.path, entry: name},
		Block:  Block{Disabled: slices.Contains(t.disabled, name)},
	}
	s.From.Pointer = shown(pointer(append(slices.Clip(t.path), name)...))
	if t.base != "" {
		s.Block.Folders = []string{t.base}
	}
	label := cmp.Or(variableName(name), "MCP")
	e := &entry{server: s, t: &translator{table: t, Machine: m, server: s, label: label}}
	if !isLiteral(t.base) {
		e.problem("", "its folder has characters for private use")
		e.t.base = "" // in a text they would stand for variables
	}
	return e
}

// problem records a reason to leave the server out.
func (e *entry) problem(key, format string, args ...any) {
	at := e.server.From.Pointer + shown(pointer(key)) + ": "
	e.problems = append(e.problems, at+fmt.Sprintf(format, args...))
}

// want records that a value has the wrong kind.
func (e *entry) want(key string, value any, what string) {
	e.problem(key, "want %s, have %s", what, kindOf(value))
}

// field reads one member of an entry.
func (e *entry) field(key string, value any) {
	block := &e.server.Block
	if slices.Contains(e.t.client.Ignored, key) {
		e.ignored = append(e.ignored, key)
		return
	}
	if names, ok := value.([]any); ok && key == "tools" { // of Copilot CLI, for which an empty list means none
		if !slices.Contains(names, any("*")) {
			block.AllowTools = append([]string{}, globs(stringsAt(value))...)
		}
		return
	}
	switch key {
	case "command":
		e.program(key, value)
	case "args":
		list, ok := value.([]any)
		if !ok {
			e.want(key, value, "a list of strings")
		}
		e.words(key, list)
	case "env", "environment":
		block.Env = append(block.Env, e.pairs(key, value, variablePair)...)
	case "headers", "http_headers":
		block.Headers = append(block.Headers, e.pairs(key, value, headerPair)...)
	case "env_http_headers":
		for _, p := range e.pairs(key, value, headerPair) {
			block.Headers = append(block.Headers, Pair{p.Name, e.named(key, withoutVariables(p.Value))})
		}
	case "bearer_token_env_var":
		name, _ := value.(string)
		block.Headers = append(block.Headers, Pair{"Authorization", "Bearer " + e.named(key, name)})
	case "env_vars": // of Codex: names of variables to pass on, if they are set; ours would pass on an unset one as ""
		list, _ := value.([]any)
		for _, one := range list {
			name, ok := one.(string)
			if !ok { // {name = NAME, source = WHERE}
				name, _ = at(one, "name").(string)
			}
			if _, isSet := os.LookupEnv(name); isSet && validVariable(name) && !slices.ContainsFunc(block.Env, func(p Pair) bool { return p.Name == name }) {
				block.Env = append(block.Env, Pair{name, e.t.use(name, ":-")})
			}
		}
	case "cwd":
		block.Cwd = e.string(key, value, false)
	case "envFile", "env_file":
		block.EnvFile = e.string(key, value, false)
	case "httpUrl", "serverUrl", "url": // Gemini CLI uses the first of several
		if block.URL == "" {
			block.URL = e.string(key, value, false)
		}
	case "type", "transport":
		if s, ok := value.(string); ok {
			block.Transport = s
		} else {
			e.want(key, value, "a string")
		}
	case "disabled", "enabled":
		block.Disabled = block.Disabled || value == (key == "disabled")
	case "disabledTools", "excludeTools", "disabled_tools":
		block.DenyTools = append(block.DenyTools, globs(stringsAt(value))...)
	case "includeTools", "enabled_tools":
		block.AllowTools = append(block.AllowTools, globs(stringsAt(value))...)
	case "timeout":
		e.timeout(value, time.Millisecond)
	case "tool_timeout_sec":
		e.timeout(value, time.Second)
	case "oauth", "auth", "authProviderType", "headersHelper", "oauth_resource", "scopes":
		if value != false {
			e.server.Stays = "the client signs in to it, which mcpschedd does not support"
		}
	case "trust":
		if value == true {
			e.t.note("the client calls its tools without asking, but asks about mcpschedd's")
		}
	case "default_tools_approval_mode", "tools": // of Codex
		if text := fmt.Sprint(value); e.t.client.TOML && (text == "prompt" || strings.Contains(text, "approval_mode:prompt")) {
			e.server.Stays = "the client asks before calls of its tools (approval_mode), which would not hold for those of mcpschedd"
		}
		e.ignored = append(e.ignored, key)
	case "autoApprove", "alwaysAllow", "startup_timeout_sec", "startup_timeout_ms", "description", "name", "icon", "iconUrl",
		"gallery", "version", "dev", "$schema", "registryBaseUrl", "source", "required":
	default:
		e.ignored = append(e.ignored, shown(key))
	}
}

// string translates a string, number or boolean. relative is passed to [translator.text].
func (e *entry) string(key string, value any, relative bool) string {
	switch value.(type) {
	case string, json.Number, bool:
		s := fmt.Sprint(value)
		if len(s) <= maxText && !strings.ContainsRune(s, 0) && isLiteral(s) {
			return e.t.text(s, relative)
		}
		e.problem(key, "want at most %d KiB without NUL and characters for private use", maxText>>10)
	default:
		e.want(key, value, "a string")
	}
	return ""
}

// named returns the character of a variable that is given by its name.
func (e *entry) named(key, name string) string {
	if !validVariable(name) {
		e.problem(key, "want the name of an environment variable")
	}
	return e.t.use(name, "")
}

// program reads a command, which may have arguments, in one text or in a list.
func (e *entry) program(key string, value any) {
	var words []any
	switch inner := value.(type) {
	case []any:
		words = inner
	case string:
		words = []any{inner}
		if fields := strings.Fields(inner); len(fields) > 1 && !strings.ContainsAny(fields[0], `/\$`) {
			words = nil
			for _, word := range fields {
				words = append(words, word)
			}
		}
	}
	if len(words) == 0 {
		e.want(key, value, "a string")
		return
	}
	block := &e.server.Block
	after := block.Args
	block.Command, block.Args = e.string(key, words[0], false), nil
	e.words(key, words[1:])
	block.Args = append(block.Args, after...)
}

func (e *entry) words(key string, list []any) {
	for _, one := range list {
		e.server.Block.Args = append(e.server.Block.Args, e.string(key, one, true))
	}
}

var (
	variablePair = regexp.MustCompile(`^[^=\x00]+=(?s:.*)$`)
	headerPair   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+=[\t -~\u0080-\U0010ffff]*$")
)

// pairs reads an object of strings. Their names and values have the form NAME=VALUE.
func (e *entry) pairs(key string, value any, form *regexp.Regexp) (out []Pair) {
	object, ok := value.(map[string]any)
	if !ok {
		e.want(key, value, "an object of strings")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if object[name] == nil {
			e.t.note("%s is removed from the environment by the client, but not by mcpschedd", shown(name))
			continue
		}
		p := Pair{name, e.string(key, object[name], form == variablePair)}
		if strings.Contains(name, "=") || !form.MatchString(name+"="+e.t.written(p.Value)) || shown(name) != name {
			e.problem(key, "not valid: %s", shown(name))
		}
		out = append(out, p)
	}
	return out
}

// timeout reads the timeout of a call.
func (e *entry) timeout(value any, unit time.Duration) {
	number, _ := value.(json.Number)
	if amount, err := number.Float64(); err == nil && amount > 0 && amount < 1e9 {
		e.server.Block.Timeout = time.Duration(amount * float64(unit)).Round(time.Millisecond)
	}
}

// globs returns names of tools as globs that match only these names.
func globs(names []string) (all []string) {
	for _, name := range names {
		if name != "" {
			all = append(all, strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name))
		}
	}
	return all
}

// isSelf reports whether a server is mcpschedd.
func (e *entry) isSelf() bool {
	block := e.server.Block
	command, line := e.t.written(block.Command), e.t.written(strings.Join(block.Args, " "))
	switch {
	case command == "":
		return e.server.From.entry == ownName && loopback.MatchString(e.t.written(block.URL))
	case shell.MatchString(command):
		return slices.ContainsFunc(strings.Fields(line), ownProgram.MatchString)
	}
	return ownProgram.MatchString(command)
}

// servesAll reports whether mcpschedd, which the entry is, is switched on and serves all servers.
func (e *entry) servesAll() bool {
	words := strings.Fields(e.t.written(strings.Join(e.server.Block.Args, " ")))
	return !e.server.Block.Disabled && !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, "--only") })
}

// ownName is mcpschedd's name among a client's servers.
const ownName = "mcpschedd"

var (
	ownProgram = regexp.MustCompile(`^(?:.*[/\\])?mcpschedd(?:-small|-full)?(?i:\.(?:exe|cmd|bat))?$`)
	shell      = regexp.MustCompile(`^(?:.*[/\\])?(?:sh|bash|zsh|cmd|env)(?i:\.exe)?$`)
	webURL     = regexp.MustCompile(`^(?i:https?)://`)
	loopback   = regexp.MustCompile(`^https?://(?:localhost|127\.[0-9.]+|\[::1\])(?:[:/]|$)`)
)

// transports maps the clients' names of transports to ours.
var transports = map[string]string{
	"": "", "stdio": "", "local": "", "sse": "sse",
	"http": "", "streamable-http": "", "streamableHttp": "", "streamable_http": "", "remote": "",
}

// complete converts the entry to a server with a command or URL that our configuration
// supports, and with literal values in variables. It returns the reason why that is
// impossible, or "".
func (e *entry) complete(o Options) string {
	b := &e.server.Block
	transport, known := transports[b.Transport]
	switch {
	case !known:
		return "its type is not supported: want stdio, http or sse"
	case b.Command == "" && b.URL == "":
		return "it has neither a command nor a url"
	case b.Command != "" && b.URL != "":
		e.t.note("its url was left out, since it also has a command")
		b.URL = ""
	}
	if b.Transport = transport; b.URL != "" {
		if why := e.remote(b, o.WithoutToken); why != "" {
			return why
		}
	} else {
		e.local(b)
	}
	e.fill(b)
	e.takeEnvFile(o)
	return ""
}

// local checks a server with a command.
func (e *entry) local(b *Block) {
	b.Transport = ""
	if b.Headers != nil {
		e.t.note("its headers were left out: they have no meaning for a command")
		b.Headers = nil
	}
	if command := withoutVariables(b.Command); strings.ContainsAny(command, `/\`) || strings.HasPrefix(command, "~") {
		b.Command = e.t.path(b.Command, "its command")
	}
	if cwd := e.t.written(b.Cwd); cwd == "${"+workspace+"}" || cwd == "." && e.t.base == "" {
		b.Cwd = "" // the client's folder, which is our default
	}
	b.Cwd = e.t.path(b.Cwd, "its cwd")
}

// remote checks a server with a URL. It returns the reason why it cannot be imported, or
// "".
func (e *entry) remote(b *Block, withoutToken bool) string {
	if b.Args != nil || b.Env != nil || b.Cwd != "" {
		e.t.note("its args, env and cwd were left out: they have no meaning for a url")
		b.Args, b.Env, b.Cwd = nil, nil, ""
	}
	u := variables.ReplaceAllString(b.URL, "1") // valid as a host, a port and a path
	a, err := url.Parse(u)
	if !startVariable.MatchString(b.URL) && (err != nil || !webURL.MatchString(u) || a.Host == "") {
		return "its url is not supported: want http://HOST or https://HOST"
	}
	if u == b.URL { // else a variable may follow the port
		if port, err := strconv.ParseUint(cmp.Or(a.Port(), "1"), 10, 16); err != nil || port == 0 {
			return "its url is not supported: want a port of 1 to 65535"
		}
	}
	switch {
	case b.Headers != nil || loopback.MatchString(u) || strings.ContainsAny(u, "?@") || e.server.Stays != "":
	case withoutToken:
		e.t.note("none of its headers has a token: if the server requires sign-in by a browser, it will refuse mcpschedd, which does not support that")
	default:
		e.server.Stays = "none of its headers has a token: it may require sign-in by a browser, which mcpschedd does not support"
	}
	return ""
}

// fill writes the texts of the block, and moves what it must not contain to variables.
func (e *entry) fill(b *Block) {
	t := e.t
	var env []Pair
	for _, p := range b.Env {
		label := variableName(p.Name)
		_, taken := e.server.Variables.value(p.Name) // by a name that is no variable
		switch {
		case !isLiteral(p.Value):
			env = append(env, Pair{p.Name, t.value(p.Value, label+"_PART")})
		case validVariable(p.Name) && !taken && !t.uses(p.Name):
			e.server.Variables.add(p.Name, p.Value)
		default:
			env = append(env, Pair{p.Name, t.value(p.Value, label)})
		}
	}
	b.Env = env
	for i, p := range b.Headers {
		b.Headers[i].Value = t.value(p.Value, variableName(p.Name))
	}
	b.Command, b.Cwd, b.URL = t.hide(b.Command, ""), t.hide(b.Cwd, ""), t.hide(b.URL, "")
	before := ""
	for i, a := range b.Args {
		b.Args[i] = t.hide(a, before)
		before = withoutVariables(a)
	}
}

// takeEnvFile imports the file of variables that the client reads. If the server has
// other values too, they and the contents of the file are written to one.
func (e *entry) takeEnvFile(o Options) {
	s, v := e.server, &e.server.Variables
	path := e.t.path(s.Block.EnvFile, "its env file")
	s.Block.EnvFile = ""
	if strings.Contains(e.t.written(path), "${"+workspace) {
		e.t.note("its env file depends on the folder that the client has open: name one in env_file")
		path = ""
	}
	used := fmt.Sprint(s.Block, e.t.written(path))
	v.Unset = slices.DeleteFunc(v.Unset, func(u Unset) bool { return !strings.Contains(used, "${"+u.Name+"}") })
	switch {
	case path == "":
	case len(v.Values)+len(v.Unset) == 0:
		s.Block.EnvFile = e.t.hide(path, "")
	default:
		file := strings.ReplaceAll(e.t.written(path), "${"+e.t.home()+"}", o.Home)
		data, err := o.ReadFile(file)
		if err != nil {
			s.Stays = "it has an env file that cannot be read, and other values as well"
			return
		}
		e.t.note("the contents of %s were copied: change the copy from now on", shown(file))
		v.Base = strings.TrimRight(string(data), "\n") + "\n"
	}
	for _, p := range v.Values {
		if _, ok := p.line(); !ok {
			s.Stays = "the value of " + shown(p.Name) + " cannot be written into a file of variables"
		}
	}
}
