package clients

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mcpschedd/internal/secret"
)

// In a text of a client, one character stands for each variable while the text is translated.
// It is from a plane for private use, which package secret takes for something unknown.
const firstVariable = '\U000F0000'

var (
	variables     = regexp.MustCompile(`\$*[\x{F0000}-\x{FFFFD}]`) // with each $ before it
	literals      = regexp.MustCompile(`[^\x{F0000}-\x{FFFFD}]+`)
	startVariable = regexp.MustCompile(`^[\x{F0000}-\x{FFFFD}]`)
)

// variable is a variable of our configuration.
type variable struct {
	name     string
	fallback string // ":-" and its default; "" if it has none
}

// translator translates the texts of one server to the syntax of our configuration, and
// moves what its block must not contain to its variables.
type translator struct {
	table
	Machine
	own    map[string]any // variables that the entry sets for the server
	server *Server        // gets variables, and notes on differences from the client's entry
	label  string         // prefix of the names of variables for unnamed values
	used   []variable     // in texts, in the order of their characters
}

// use returns the character of a variable.
func (t *translator) use(name, fallback string) string {
	v := variable{name, fallback}
	if !slices.Contains(t.used, v) {
		t.used = append(t.used, v)
	}
	return string(firstVariable + rune(slices.Index(t.used, v)))
}

// uses reports whether a text has the variable.
func (t *translator) uses(name string) bool {
	return slices.ContainsFunc(t.used, func(v variable) bool { return v.name == name })
}

// written returns a text in the syntax of our configuration. "$${" is an escape, so a $
// before a variable becomes a variable too.
func (t *translator) written(s string) string {
	return variables.ReplaceAllStringFunc(strings.ReplaceAll(s, "${", "$${"), func(part string) string {
		c := strings.TrimLeft(part, "$")
		v := t.used[[]rune(c)[0]-firstVariable]
		return strings.Repeat("${DOLLAR:-$}", len(part)-len(c)) + "${" + v.name + v.fallback + "}"
	})
}

// withoutVariables returns the literal parts of a text.
func withoutVariables(s string) string { return strings.Join(literals.FindAllString(s, -1), "") }

func isLiteral(s string) bool { return !variables.MatchString(s) }

func (t *translator) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.server.Notes, text) {
		t.server.Notes = append(t.server.Notes, text)
	}
}

// text reads a string of the client. A "${" without a meaning to the client is literal.
// relative reports whether the text is used in the server's working directory, so that
// "." can replace the workspace.
func (t *translator) text(s string, relative bool) string {
	return t.client.syntax().ReplaceAllStringFunc(s, func(name string) string { return t.variable(name, relative) })
}

// syntax returns the expression for the client's variables.
func (c *Client) syntax() *regexp.Regexp {
	return regexp.MustCompile(cmp.Or(c.Variables, `\$\{[^}]*\}`)) // a test reads all
}

// variable translates a variable of the client.
func (t *translator) variable(written string, relative bool) string {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(written, "$"), "{"), "}")
	kind, rest, named := strings.Cut(inner, ":")
	folder := kind == "workspaceFolder" || kind == "workspaceRoot"
	switch {
	case kind == "env" && validVariable(rest):
		return t.use(rest, "")
	case kind == "userHome" && !named:
		return t.use(t.home(), "")
	case inner == "/" || inner == "pathSeparator":
		if t.OS == "windows" {
			return `\`
		}
		return "/"
	case folder && t.base != "":
		return t.base
	case inner == "workspaceFolderBasename" && t.base != "":
		return filepath.Base(t.base)
	case folder && relative:
		t.note("${WORKSPACE_FOLDER}, if it is not set, is the folder in which the client starts mcpschedd")
		return t.use(workspace, ":-.")
	case folder:
		return t.ask(workspace, "the folder that "+t.client.Title+" has open")
	case kind == "input" && t.inputs[rest] != "" && isLiteral(t.inputs[rest]):
		return t.inputs[rest]
	case named && slices.Contains([]string{"input", "file", "config", "command", "env"}, kind):
		return t.ask(variableName(filepath.Base(rest)), t.client.Title+" fills in "+shown(inner))
	}
	name, _, _ := strings.Cut(inner, ":-")
	if !validVariable(name) || name == inner && t.fillsIn(name) {
		return written
	}
	return t.use(name, inner[len(name):]) // with its default
}

// fillsIn reports whether the server itself must replace a variable, as mcp-remote does in its arguments: the
// client's environment does not have it, and the entry sets it to a value of its own.
func (t *translator) fillsIn(name string) bool {
	value, ok := t.own[name].(string)
	return ok && t.Env(name) == "" && !t.client.syntax().MatchString(value)
}

const workspace = "WORKSPACE_FOLDER"

// ask returns a variable without a known value.
func (t *translator) ask(name, why string) string {
	name = cmp.Or(name, t.label+"_SECRET")
	v := &t.server.Variables
	if !slices.ContainsFunc(v.Unset, func(u Unset) bool { return u.Name == name }) {
		v.Unset = append(v.Unset, Unset{Name: name, Why: why})
	}
	return t.use(name, "")
}

var (
	absolute = regexp.MustCompile(`^(?:[/\\]|[A-Za-z]:|[\x{F0000}-\x{FFFFD}]|$)`)
	atHome   = regexp.MustCompile(`^~(?:[/\\]|$)`)
)

// path makes a path independent of the current directory: our configuration does not
// expand "~", and a relative path is relative to the project's folder.
func (t *translator) path(p, what string) string {
	switch {
	case absolute.MatchString(p):
		return p
	case atHome.MatchString(p):
		return t.use(t.home(), "") + p[1:]
	case t.base != "":
		return strings.TrimRight(t.base, `/\`) + "/" + strings.TrimPrefix(p, "./")
	}
	t.note("%s is a path relative to wherever the client runs: make it absolute", what)
	if p[0] == '~' {
		return "./" + p
	}
	return p
}

// home returns the variable with the user's home folder.
func (t *translator) home() string {
	if t.OS == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// hide moves the possible secrets in an argument, a URL, a command or a path to
// variables. before is the preceding argument.
func (t *translator) hide(s, before string) string {
	s = t.withoutDefaults(s, func(v variable, value string) bool {
		return len(secret.Find(value, before))+len(secret.Find(value, "--"+v.name)) > 0
	})
	out, done := "", 0
	for _, p := range secret.Find(s, before) {
		out += s[done:p.From] + t.withheld(s[p.From:p.To], variableName(p.Name))
		done = p.To
	}
	return t.written(out + s[done:])
}

// value moves every literal part of an environment variable or a header to variables,
// except the scheme of credentials.
func (t *translator) value(s, label string) string {
	if isLiteral(s) {
		return "${" + t.hidden(label, s) + "}"
	}
	s = t.withoutDefaults(s, func(v variable, value string) bool { return v.name != workspace && !scheme.MatchString(value) })
	return t.written(t.withheld(s, label))
}

// withoutDefaults moves the defaults of variables to the file of variables, if may
// returns true.
func (t *translator) withoutDefaults(s string, may func(v variable, value string) bool) string {
	for i, v := range t.used {
		c, value := string(firstVariable+rune(i)), strings.TrimPrefix(v.fallback, ":-")
		known, ok := t.server.Variables.value(v.name)
		if !strings.Contains(s, c) || value == "" || !may(v, value) || ok && known != value {
			continue
		}
		t.server.Variables.add(v.name, value)
		t.note("${%s} has its default in the file of variables, which overrides the environment: change it there", v.name)
		if d := &t.server.Variables.Defaults; !slices.Contains(*d, Pair{v.name, value}) {
			*d = append(*d, Pair{v.name, value})
		}
		s = strings.ReplaceAll(s, c, t.use(v.name, ""))
	}
	return s
}

// scheme matches the name of an authentication scheme.
var scheme = regexp.MustCompile(`^\s*(?:(?i)bearer|basic|token|api-?key|key|digest|negotiate)?\s*$`)

// withheld moves the literal parts of a text to variables, except the scheme of
// credentials, and punctuation between variables.
func (t *translator) withheld(s, label string) string {
	return literals.ReplaceAllStringFunc(s, func(part string) string {
		isPunctuation := part != s && strings.Trim(part, " :,;/&?=\"'@") == ""
		if isPunctuation || scheme.MatchString(part) {
			return part
		}
		return t.use(t.hidden(label, part), "")
	})
}

// hidden returns the variable for a value. Equal values with the same label share a
// variable.
func (t *translator) hidden(label, value string) string {
	label = cmp.Or(label, t.label+"_SECRET")
	for n := 1; ; n++ {
		name := label
		if n > 1 {
			name += fmt.Sprintf("_%d", n)
		}
		known, ok := t.server.Variables.value(name)
		switch {
		case ok && known == value:
			return name
		case !ok && !t.uses(name):
			t.server.Variables.add(name, value)
			return name
		}
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
