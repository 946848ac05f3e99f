package clients

import (
	"regexp"
	"slices"
	"strings"
)

// text is a parsed value of a client's file.
type text []piece

// piece is a part of a text: a literal or a variable.
type piece struct {
	literal  string // for a variable, its default
	variable string // "" for a literal
	fallback bool   // the variable has a default, which may be empty
}

// variables holds the syntax of variables by the client's name; "" for all other clients.
var variables = map[string]*regexp.Regexp{
	"":         regexp.MustCompile(`\$\{[^}]*\}`),
	"gemini":   regexp.MustCompile(`\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*`),
	"opencode": regexp.MustCompile(`\{(?:env|file):[^}]*\}`),
}

// translator parses the texts of one server.
type translator struct {
	client *Client
	base   string            // folder of the file's project; "" if none
	os     string            // as runtime.GOOS has it
	inputs map[string]string // of VS Code: id → default
	file   func(path string) ([]byte, error)
	vault  *vault // collects the variables without a value
}

// read parses a string. A "${" without a meaning to the client stays literal. relative reports
// whether the text is used in the server's working directory, so that "." can replace the
// workspace.
func (t *translator) read(s string, relative bool) text {
	var out text
	add := func(p piece) {
		if n := len(out); p.variable == "" && n > 0 && out[n-1].variable == "" {
			out[n-1].literal += p.literal
		} else if p.variable != "" || p.literal != "" {
			out = append(out, p)
		}
		t.vault.used[p.variable] = true
	}
	syntax := variables[t.client.Name]
	if syntax == nil {
		syntax = variables[""]
	}
	done := 0
	for _, at := range syntax.FindAllStringIndex(s, -1) {
		add(piece{literal: s[done:at[0]]})
		add(t.variable(s[at[0]:at[1]], relative))
		done = at[1]
	}
	add(piece{literal: s[done:]})
	return out
}

// variable translates a variable of the client.
func (t *translator) variable(written string, relative bool) piece {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(written, "$"), "{"), "}")
	kind, rest, named := strings.Cut(inner, ":")
	switch {
	case kind == "env" && validVariable(rest):
		return piece{variable: rest}
	case kind == "userHome" && !named:
		return piece{variable: home(t.os)}
	case kind == "pathSeparator" || inner == "/":
		return piece{literal: "/"}
	case kind == "workspaceFolder" || kind == "workspaceRoot" || kind == "workspaceFolderBasename":
		return t.workspace(kind, relative)
	case kind == "input" && named && t.inputs[rest] != "":
		return piece{literal: t.inputs[rest]}
	case kind == "input" && named:
		return t.vault.ask(variableName(rest), t.client.Title+" asks for it")
	case kind == "file" && named:
		return t.vault.ask(variableName(rest[strings.LastIndexAny(rest, `/\`)+1:]), "the content of "+shown(rest))
	}
	if name, fallback, has := strings.Cut(inner, ":-"); validVariable(name) {
		return piece{variable: name, literal: fallback, fallback: has}
	}
	if named && slices.Contains([]string{"config", "command", "env"}, kind) {
		return t.vault.ask(variableName(rest), t.client.Title+" fills in "+shown(inner))
	}
	return piece{literal: written}
}

const workspace = "WORKSPACE_FOLDER"

// workspace translates a variable for the folder that a client has open.
func (t *translator) workspace(kind string, relative bool) piece {
	switch {
	case t.base != "" && kind == "workspaceFolderBasename":
		return piece{literal: t.base[strings.LastIndexAny(t.base, `/\`)+1:]}
	case t.base != "":
		return piece{literal: t.base}
	case relative && kind != "workspaceFolderBasename":
		t.vault.note("${WORKSPACE_FOLDER}, if it is not set, is the folder in which the client starts mcpschedd")
		return piece{variable: workspace, literal: ".", fallback: true}
	}
	return t.vault.ask(workspace, "the folder that "+t.client.Title+" has open")
}

var absolute = regexp.MustCompile(`^(?:[/\\]|[A-Za-z]:)`)

// path makes a path independent of the current directory: our configuration does not expand
// "~", and a relative path is relative to the project's folder.
func (t *translator) path(p text, what string) text {
	if len(p) == 0 || p[0].variable != "" {
		return p
	}
	first, rest := p[0].literal, p[1:]
	switch {
	case first == "":
		return nil
	case first == "~" || strings.HasPrefix(first, "~/") || strings.HasPrefix(first, `~\`):
		return append(text{{variable: home(t.os)}, {literal: first[1:]}}, rest...)
	case absolute.MatchString(first):
		return p
	case t.base != "":
		return append(text{{literal: strings.TrimRight(t.base, `/\`) + "/" + strings.TrimPrefix(first, "./")}}, rest...)
	}
	t.vault.note(what + " is a path relative to wherever the client runs: make it absolute")
	if first[0] == '~' {
		return append(text{{literal: "./" + first}}, rest...)
	}
	return p
}

// home returns the variable with the user's home folder.
func home(os string) string {
	if os == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// String returns the text in the syntax of our configuration.
func (t text) String() string {
	var b strings.Builder
	for _, p := range t {
		if p.variable == "" {
			b.WriteString(strings.ReplaceAll(p.literal, "${", "$${"))
			continue
		}
		// "$${" is an escape, so a $ before a variable becomes a variable too.
		if before := strings.TrimRight(b.String(), "$"); len(before) < b.Len() {
			signs := b.Len() - len(before)
			b.Reset()
			b.WriteString(before + strings.Repeat("${DOLLAR:-$}", signs))
		}
		b.WriteString("${" + p.variable)
		if p.fallback {
			b.WriteString(":-" + p.literal)
		}
		b.WriteString("}")
	}
	return b.String()
}

// filled returns the text with each variable replaced by the given text.
func (t text) filled(with string) string {
	var b strings.Builder
	for _, p := range t {
		if p.variable != "" {
			b.WriteString(with)
			continue
		}
		b.WriteString(p.literal)
	}
	return b.String()
}

func (t text) plain() string { return t.filled("") }

// isPlain reports whether a text has no variable.
func (t text) isPlain() bool { return len(t) == 0 || len(t) == 1 && t[0].variable == "" }

var (
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	notInNames   = regexp.MustCompile(`[^A-Z0-9]+`)
)

func validVariable(name string) bool { return variableForm.MatchString(name) }

// variableName derives the name of a variable from any name: letters, digits and single "_"; ""
// if nothing is left.
func variableName(s string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToUpper(s), "_"), "_")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
