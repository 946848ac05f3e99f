package clients

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mcpschedd/internal/secret"
)

// variables holds the syntax of variables by the client's name; "" for all other clients.
var variables = map[string]*regexp.Regexp{
	"":         regexp.MustCompile(`\$\{[^}]*\}`),
	"gemini":   regexp.MustCompile(`\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*`),
	"opencode": regexp.MustCompile(`\{(?:env|file):[^}]*\}`),
}

// ours matches variables in the syntax of our configuration, and escapes of "${".
var ours = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}`)

// translator translates the texts of one server to the syntax of our configuration, and
// collects its variables, for values that its block must not contain.
type translator struct {
	Variables
	client *Client
	base   string            // folder of the file's project; "" if none
	os     string            // as runtime.GOOS has it
	inputs map[string]string // of VS Code: id → default
	label  string            // prefix of the names of variables for unnamed values
	used   map[string]bool   // names of variables that the server uses otherwise
	notes  []string          // differences from the client's entry
}

func (t *translator) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.notes, text) {
		t.notes = append(t.notes, text)
	}
}

// text translates a string. A "${" without a meaning to the client stays literal.
// relative reports whether the text is used in the server's working directory, so that
// "." can replace the workspace.
func (t *translator) text(s string, relative bool) string {
	syntax := variables[t.client.Name]
	if syntax == nil {
		syntax = variables[""]
	}
	out, done := "", 0
	for _, at := range syntax.FindAllStringIndex(s, -1) {
		out = joined(out+escaped(s[done:at[0]]), t.variable(s[at[0]:at[1]], relative))
		done = at[1]
	}
	return out + escaped(s[done:])
}

// joined returns a text followed by another. "$${" is an escape, so a $ before a
// variable becomes a variable too.
func joined(s, next string) string {
	if bare := strings.TrimRight(s, "$"); strings.HasPrefix(next, "${") {
		s = bare + strings.Repeat("${DOLLAR:-$}", len(s)-len(bare))
	}
	return s + next
}

func escaped(s string) string   { return strings.ReplaceAll(s, "${", "$${") }
func unescaped(s string) string { return strings.ReplaceAll(s, "$${", "${") }

// plain returns a text without its variables.
func plain(s string) string { return unescaped(filled(s, "")) }

// filled returns a text with another in place of each variable.
func filled(s, with string) string {
	return replaced(s, func(string) string { return with })
}

// replaced returns a text with its variables replaced.
func replaced(s string, with func(variable string) string) string {
	return ours.ReplaceAllStringFunc(s, func(variable string) string {
		if variable == "$${" {
			return variable
		}
		return with(variable)
	})
}

// variable translates a variable of the client.
func (t *translator) variable(written string, relative bool) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(written, "$"), "{"), "}")
	kind, rest, named := strings.Cut(inner, ":")
	switch {
	case kind == "env" && validVariable(rest):
		return t.use(rest, "")
	case kind == "userHome" && !named:
		return t.use(t.home(), "")
	case kind == "workspaceFolder" && t.base != "", kind == "workspaceRoot" && t.base != "":
		return t.base
	case kind == "workspaceFolder" && relative, kind == "workspaceRoot" && relative:
		t.note("${WORKSPACE_FOLDER}, if it is not set, is the folder in which the client starts mcpschedd")
		return t.use(workspace, ":-.")
	case kind == "workspaceFolder" || kind == "workspaceRoot":
		return t.ask(workspace, "the folder that "+t.client.Title+" has open")
	case kind == "input" && t.inputs[rest] != "":
		return escaped(t.inputs[rest])
	case named && slices.Contains([]string{"input", "file", "config", "command", "env"}, kind):
		return t.ask(variableName(filepath.Base(rest)), t.client.Title+" fills in "+shown(inner))
	}
	if name, _, _ := strings.Cut(inner, ":-"); validVariable(name) {
		return t.use(name, inner[len(name):]) // with its default
	}
	return escaped(written)
}

const workspace = "WORKSPACE_FOLDER"

func (t *translator) use(name, fallback string) string {
	t.used[name] = true
	return "${" + name + fallback + "}"
}

// ask returns a variable without a known value.
func (t *translator) ask(name, why string) string {
	if name == "" {
		name = t.label + "_SECRET"
	}
	if !slices.ContainsFunc(t.Unset, func(u Unset) bool { return u.Name == name }) {
		t.Unset = append(t.Unset, Unset{Name: name, Why: why})
	}
	return t.use(name, "")
}

var absolute = regexp.MustCompile(`^(?:[/\\]|[A-Za-z]:|\$\{)`)

// path makes a path independent of the current directory: our configuration does not
// expand "~", and a relative path is relative to the project's folder.
func (t *translator) path(p, what string) string {
	switch {
	case p == "" || absolute.MatchString(p):
		return p
	case p == "~" || strings.HasPrefix(p, "~/") || strings.HasPrefix(p, `~\`):
		return t.use(t.home(), "") + p[1:]
	case t.base != "":
		return escaped(strings.TrimRight(t.base, `/\`)) + "/" + strings.TrimPrefix(p, "./")
	}
	t.note("%s is a path relative to wherever the client runs: make it absolute", what)
	if p[0] == '~' {
		return "./" + p
	}
	return p
}

// home returns the variable with the user's home folder.
func (t *translator) home() string {
	if t.os == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// hide moves the possible secrets in an argument, a URL, a command or a path to
// variables. before is the preceding argument.
func (t *translator) hide(s, before string) string {
	s = t.withoutDefaults(s, func(name, value string) bool {
		return len(secret.Find(value, before))+len(secret.Find(value, "--"+name)) > 0
	})
	opaque := replaced(s, func(variable string) string { return strings.Repeat("\x01", len(variable)) })
	for _, p := range slices.Backward(secret.Find(opaque, before)) {
		s = joined(s[:p.From], t.withheld(s[p.From:p.To], variableName(p.Name))) + s[p.To:]
	}
	return s
}

// value moves every literal part of an environment variable or a header to variables,
// except the scheme of credentials.
func (t *translator) value(s, label string) string {
	s = t.withoutDefaults(s, func(name, value string) bool { return name != workspace && !scheme.MatchString(value) })
	return t.withheld(s, label)
}

// withoutDefaults moves the defaults of variables to the file of variables, if may
// returns true.
func (t *translator) withoutDefaults(s string, may func(name, value string) bool) string {
	return ours.ReplaceAllStringFunc(s, func(variable string) string {
		m := ours.FindStringSubmatch(variable)
		i := t.index(m[1])
		if m[2] == "" || !may(m[1], m[2]) || i >= 0 && t.Values[i].Value != m[2] {
			return variable
		}
		t.add(m[1], m[2])
		t.note("${%s} has its default in the file of variables, which overrides the environment: change it there", m[1])
		return "${" + m[1] + "}"
	})
}

// scheme matches the name of an authentication scheme, punctuation.
var scheme = regexp.MustCompile(`^\s*(?:(?i)bearer|basic|token|api-?key|key|digest|negotiate)?\s*$`)

// withheld moves the literal parts of a text to variables.
func (t *translator) withheld(s, label string) string {
	out, done := "", 0
	literal := func(part string) {
		if out+part != "" && scheme.MatchString(part) || len(part) < len(s) && strings.Trim(part, " :,;/&?=\"'@") == "" {
			out += part
		} else {
			out = joined(out, "${"+t.hidden(label, unescaped(part))+"}")
		}
	}
	for _, at := range ours.FindAllStringIndex(s, -1) {
		if variable := s[at[0]:at[1]]; variable != "$${" {
			literal(s[done:at[0]])
			out = joined(out, variable)
			done = at[1]
		}
	}
	if done < len(s) || done == 0 {
		literal(s[done:])
	}
	return out
}

// hidden returns the variable for a value. Equal values with the same label share a
// variable.
func (t *translator) hidden(label, value string) string {
	if label == "" {
		label = t.label + "_SECRET"
	}
	for n := 1; ; n++ {
		name := label
		if n > 1 {
			name += fmt.Sprintf("_%d", n)
		}
		i := t.index(name)
		switch {
		case i >= 0 && t.Values[i].Value == value:
			return name
		case i < 0 && !t.used[name]:
			t.add(name, value)
			return name
		}
	}
}

func (t *translator) index(name string) int {
	return slices.IndexFunc(t.Values, func(v Pair) bool { return v.Name == name })
}

func (t *translator) add(name, value string) {
	if one := (Pair{name, value}); !slices.Contains(t.Values, one) {
		t.Values = append(t.Values, one)
	}
}

var (
	variableForm = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	notInNames   = regexp.MustCompile(`[^A-Z0-9]+`)
)

func validVariable(name string) bool { return variableForm.MatchString(name) }

// variableName derives the name of a variable from any name: letters, digits and single
// "_"; "" if nothing is left.
func variableName(s string) string {
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToUpper(s), "_"), "_")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
