package clients

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// reading is a server of a client while its entry is read.
type reading struct {
	*translator
	server    Server
	problems  []string // reasons to leave it out
	ignored   []string // keys without a meaning here
	transport string   // "" if absent
	envFile   string

	command, cwd, url string // in our syntax
	args              []string
	env, headers      []Pair // in our syntax, with literal values
}

const maxText = 64 << 10 // bytes of an imported text

// problem records a reason to leave the server out.
func (r *reading) problem(key, format string, args ...any) {
	at := r.server.From.Pointer + shown(pointer(key)) + ": "
	r.problems = append(r.problems, at+fmt.Sprintf(format, args...))
}

// want records that a value has the wrong kind.
func (r *reading) want(key string, value any, what string) {
	r.problem(key, "want %s, have %s", what, kindOf(value))
}

// field reads one member of an entry.
func (r *reading) field(key string, value any) {
	block := &r.server.Block
	switch key {
	case "command":
		r.program(key, value)
	case "args":
		list, ok := value.([]any)
		if !ok {
			r.want(key, value, "a list of strings")
		}
		r.words(key, list)
	case "env", "environment":
		r.env = append(r.env, r.pairs(key, value, variablePair)...)
	case "headers", "http_headers":
		r.headers = append(r.headers, r.pairs(key, value, headerPair)...)
	case "env_http_headers":
		for _, p := range r.pairs(key, value, headerPair) {
			r.headers = append(r.headers, Pair{p.Name, r.use(plain(p.Value), "")})
		}
	case "bearer_token_env_var":
		if name, ok := value.(string); ok {
			r.headers = append(r.headers, Pair{"Authorization", "Bearer " + r.use(name, "")})
		}
	case "env_vars": // of Codex: variables to pass on; here all are
	case "cwd":
		r.cwd = r.string(key, value, false)
	case "envFile", "env_file":
		r.envFile = r.string(key, value, false)
	case "url", "serverUrl", "httpUrl":
		r.url = r.string(key, value, false)
	case "type", "transport":
		if s, ok := value.(string); ok {
			r.transport = s
		} else {
			r.want(key, value, "a string")
		}
	case "disabled", "enabled":
		block.Disabled = block.Disabled || value == (key == "disabled")
	case "disabledTools", "excludeTools", "disabled_tools":
		block.DenyTools = append(block.DenyTools, globs(stringsAt(value))...)
	case "includeTools", "enabled_tools":
		block.AllowTools = append(block.AllowTools, globs(stringsAt(value))...)
	case "timeout", "tool_timeout_sec":
		r.timeout(key, value)
	case "oauth", "auth", "headersHelper", "oauth_resource", "scopes":
		if value != false {
			r.server.Stays = "the client signs in to it, which mcpschedd does not support"
		}
	case "trust":
		if value == true {
			r.note("the client calls its tools without asking, but asks about mcpschedd's")
		}
	case "autoApprove", "alwaysAllow", "startup_timeout_sec", "startup_timeout_ms", "description", "name", "icon", "iconUrl",
		"gallery", "version", "dev", "$schema", "registryBaseUrl", "source", "required":
	default:
		r.ignored = append(r.ignored, shown(key))
	}
}

// string translates a string. relative is passed to [translator.text].
func (r *reading) string(key string, value any, relative bool) string {
	s, ok := scalar(value)
	switch {
	case !ok:
		r.want(key, value, "a string")
	case len(s) > maxText || strings.ContainsRune(s, 0):
		r.problem(key, "want at most %d KiB without NUL characters", maxText>>10)
	default:
		return r.text(s, relative)
	}
	return ""
}

// program reads a command. OpenCode has the command and its arguments in one list.
func (r *reading) program(key string, value any) {
	switch inner := value.(type) {
	case []any:
		if len(inner) > 0 && r.client.shape == opencodeShape {
			r.program(key, inner[0])
			r.words(key, inner[1:])
			return
		}
	case string:
		if program, rest, several := strings.Cut(strings.TrimSpace(inner), " "); several && !strings.ContainsAny(program, `/\$`) {
			after := r.args // one text with arguments
			r.command, r.args = r.string(key, program, false), nil
			for word := range strings.FieldsSeq(rest) {
				r.args = append(r.args, r.string(key, word, true))
			}
			r.args = append(r.args, after...)
			return
		}
		r.command = r.string(key, inner, false)
		return
	}
	r.want(key, value, "a string")
}

func (r *reading) words(key string, list []any) {
	for _, one := range list {
		r.args = append(r.args, r.string(key, one, true))
	}
}

var (
	variablePair = regexp.MustCompile(`^[^=\x00]+=(?s:.*)$`)
	headerPair   = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+=[\t -~\u0080-\U0010ffff]*$")
)

// pairs reads an object of strings, whose names and values have the form NAME=VALUE.
func (r *reading) pairs(key string, value any, form *regexp.Regexp) (out []Pair) {
	object, ok := value.(map[string]any)
	if !ok {
		r.want(key, value, "an object of strings")
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if object[name] == nil {
			r.note("%s is removed from the environment by the client, but not by mcpschedd", shown(name))
			continue
		}
		p := Pair{name, r.string(key, object[name], form == variablePair)}
		if !form.MatchString(name+"="+p.Value) || shown(name) != name {
			r.problem(key, "not valid: %s", shown(name))
		}
		out = append(out, p)
	}
	return out
}

// timeout reads the timeout of a call. In OpenCode and Zed, the key has another meaning.
func (r *reading) timeout(key string, value any) {
	number, _ := value.(json.Number)
	amount, err := number.Float64()
	if err != nil || amount <= 0 || amount > 1e10 || r.client.shape == zedShape || r.client.shape == opencodeShape {
		r.ignored = append(r.ignored, shown(key))
		return
	}
	unit := time.Millisecond
	if strings.HasSuffix(key, "_sec") {
		unit = time.Second
	}
	r.server.Block.Timeout = time.Duration(amount * float64(unit)).Round(time.Millisecond)
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
func (r *reading) isSelf() bool {
	if r.command == "" {
		return r.server.Was == ownName && loopback.MatchString(r.url)
	}
	if !shell.MatchString(r.command) {
		return ownProgram.MatchString(r.command)
	}
	return slices.ContainsFunc(strings.Fields(strings.Join(r.args, " ")), ownProgram.MatchString)
}

// ownName is mcpschedd's name among a client's servers.
const ownName = "mcpschedd"

var (
	ownProgram = regexp.MustCompile(`^(?:.*[/\\])?mcpschedd(?:-small)?(?i:\.(?:exe|cmd|bat))?$`)
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
func (r *reading) complete(o Options) string {
	transport, known := transports[r.transport]
	switch {
	case !known:
		return "its type is not supported: want stdio, http or sse"
	case r.command == "" && r.url == "":
		return "it has neither a command nor a url"
	case r.command != "" && r.url != "":
		r.note("its url was left out, since it also has a command")
		r.url = ""
	}
	if r.url != "" {
		r.server.Block.Transport = transport
		if why := r.remote(o.WithoutToken); why != "" {
			return why
		}
	} else {
		r.local()
	}
	r.fill(o)
	return ""
}

// local checks a server with a command.
func (r *reading) local() {
	if len(r.headers) > 0 {
		r.note("its headers were left out: they have no meaning for a command")
		r.headers = nil
	}
	if command := plain(r.command); strings.ContainsAny(command, `/\`) || strings.HasPrefix(command, "~") {
		r.command = r.path(r.command, "its command")
	}
	if r.cwd == "${"+workspace+"}" || r.cwd == "." && r.base == "" {
		r.cwd = "" // the client's folder, which is our default
	}
	r.cwd = r.path(r.cwd, "its cwd")
}

// remote checks a server with a URL. It returns the reason why it cannot be imported, or
// "".
func (r *reading) remote(withoutToken bool) string {
	if len(r.args)+len(r.env)+len(r.cwd) > 0 {
		r.note("its args, env and cwd were left out: they have no meaning for a url")
		r.args, r.env, r.cwd = nil, nil, ""
	}
	u := filled(r.url, "1") // valid as a host, a port and a path
	if a, err := url.Parse(u); !strings.HasPrefix(r.url, "${") && (err != nil || !webURL.MatchString(u) || a.Host == "") {
		return "its url is not supported: want http or https"
	}
	switch {
	case len(r.headers) > 0 || loopback.MatchString(u) || strings.ContainsAny(u, "?@") || r.server.Stays != "":
	case withoutToken:
		r.note("none of its headers has a token: if the server requires sign-in by a browser, it will refuse mcpschedd, which does not support that")
	default:
		r.server.Stays = "none of its headers has a token: it may require sign-in by a browser, which mcpschedd does not support"
	}
	return ""
}

// fill sets the server's block and variables.
func (r *reading) fill(o Options) {
	s, b := &r.server, &r.server.Block
	for _, p := range r.env {
		label := variableName(p.Name)
		switch {
		case filled(p.Value, "") != p.Value:
			b.Env = append(b.Env, Pair{p.Name, r.value(p.Value, label+"_PART")})
		case validVariable(p.Name) && !r.used[p.Name]:
			r.add(p.Name, unescaped(p.Value))
		default:
			b.Env = append(b.Env, Pair{p.Name, "${" + r.hidden(label, unescaped(p.Value)) + "}"})
		}
	}
	for _, p := range r.headers {
		b.Headers = append(b.Headers, Pair{p.Name, r.value(p.Value, variableName(p.Name))})
	}
	b.Command, b.Cwd, b.URL = r.hide(r.command, ""), r.hide(r.cwd, ""), r.hide(r.url, "")
	before := ""
	for _, a := range r.args {
		b.Args = append(b.Args, r.hide(a, before))
		before = plain(a)
	}
	r.takeEnvFile(o)
	s.Variables, s.Notes = r.Variables, r.notes
	used := fmt.Sprint(s.Block)
	s.Variables.Unset = slices.DeleteFunc(s.Variables.Unset, func(u Unset) bool {
		return !strings.Contains(used, "${"+u.Name+"}")
	})
	for _, v := range s.Variables.Values {
		if _, ok := v.line(); !ok {
			s.Stays = "the value of " + shown(v.Name) + " cannot be written into a file of variables"
		}
	}
}

// takeEnvFile imports the file of variables that the client reads. If the server has
// other values too, they and the contents of the file are written to one.
func (r *reading) takeEnvFile(o Options) {
	path := r.path(r.envFile, "its env file")
	switch {
	case path == "":
	case strings.Contains(path, workspace):
		r.note("its env file depends on the folder that the client has open: name one in env_file")
	case len(r.Values)+len(r.Unset) == 0:
		r.server.Block.EnvFile = r.hide(path, "")
	default:
		data, err := o.ReadFile(plain(path))
		if err != nil || plain(path) != unescaped(path) {
			r.server.Stays = "it has an env file that cannot be read, and other values as well"
			return
		}
		r.note("the contents of %s were copied: change the copy from now on", shown(plain(path)))
		r.Base = strings.TrimRight(string(data), "\n") + "\n"
	}
}

// newReading returns an entry without any fields read.
func newReading(o Options, t table, name string) *reading {
	r := &reading{translator: &translator{
		client: t.client, base: t.base, os: o.OS, inputs: t.inputs,
		label: cmp.Or(variableName(name), "MCP"), used: make(map[string]bool),
	}}
	r.server = Server{
		Was:   name,
		From:  Origin{Client: t.client.Name, File: t.doc.path, Scope: t.scope, table: t.path, entry: name},
		Block: Block{Disabled: slices.Contains(t.disabled, name)},
	}
	r.server.From.Pointer = shown(pointer(append(slices.Clip(t.path), name)...))
	if t.base != "" {
		r.server.Block.Folders = []string{t.base}
	}
	return r
}
