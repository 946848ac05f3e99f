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

// text is a text of a client: literal parts and variables by turns.
type text []part

// part is a literal, or a variable if it has the name of one.
type part struct {
	literal  string
	variable string
	fallback string // ":-" and the variable's default; "" if it has none
}

// String returns the text in the syntax of our configuration. "$${" is an escape, so a $
// before a variable becomes a variable too.
func (t text) String() (s string) {
	for _, p := range t {
		if p.variable == "" {
			s += strings.ReplaceAll(p.literal, "${", "$${")
			continue
		}
		bare := strings.TrimRight(s, "$")
		s = bare + strings.Repeat("${DOLLAR:-$}", len(s)-len(bare)) + "${" + p.variable + p.fallback + "}"
	}
	return s
}

// filled returns the text with another in place of each variable.
func (t text) filled(with string) (s string) {
	for _, p := range t {
		if p.variable != "" {
			s += with
		}
		s += p.literal
	}
	return s
}

// isLiteral reports whether the text has no variables.
func (t text) isLiteral() bool { return t.filled("") == t.filled("-") }

// slice returns a part of the text, in which a variable is as long as one byte.
func (t text) slice(from, to int) (out text) {
	for _, p := range t {
		length := len(p.literal)
		if p.variable != "" {
			length = 1
		}
		if a, b := max(from, 0), min(to, length); a < b {
			if p.variable == "" {
				p.literal = p.literal[a:b]
			}
			out = append(out, p)
		}
		from, to = from-length, to-length
	}
	return out
}

// plus returns the text with another behind it.
func (t text) plus(next ...part) text {
	for _, p := range next {
		if n := len(t); n > 0 && p.variable == "" && t[n-1].variable == "" {
			t[n-1].literal += p.literal
		} else {
			t = append(t, p)
		}
	}
	return t
}

// translator translates the texts of one server to the syntax of our configuration, and
// moves what its block must not contain to its variables.
type translator struct {
	table
	os     string          // as runtime.GOOS has it
	server *Server         // gets variables, and notes on differences from the client's entry
	label  string          // prefix of the names of variables for unnamed values
	used   map[string]bool // names of variables that the server uses otherwise
}

func (t *translator) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(t.server.Notes, text) {
		t.server.Notes = append(t.server.Notes, text)
	}
}

// text reads a string of the client. A "${" without a meaning to the client is literal.
// relative reports whether the text is used in the server's working directory, so that
// "." can replace the workspace.
func (t *translator) text(s string, relative bool) (out text) {
	done := 0
	for _, at := range t.client.syntax().FindAllStringIndex(s, -1) {
		out = out.plus(part{literal: s[done:at[0]]}, t.variable(s[at[0]:at[1]], relative))
		done = at[1]
	}
	return out.plus(part{literal: s[done:]})
}

// syntax returns the expression for the client's variables.
func (c *Client) syntax() *regexp.Regexp {
	return regexp.MustCompile(cmp.Or(c.Variables, `\$\{[^}]*\}`)) // a test reads all
}

// variable translates a variable of the client.
func (t *translator) variable(written string, relative bool) part {
	inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(written, "$"), "{"), "}")
	kind, rest, named := strings.Cut(inner, ":")
	folder := kind == "workspaceFolder" || kind == "workspaceRoot"
	switch {
	case kind == "env" && validVariable(rest):
		return t.use(rest, "")
	case kind == "userHome" && !named:
		return t.use(t.home(), "")
	case folder && t.base != "":
		return part{literal: t.base}
	case folder && relative:
		t.note("${WORKSPACE_FOLDER}, if it is not set, is the folder in which the client starts mcpschedd")
		return t.use(workspace, ":-.")
	case folder:
		return t.ask(workspace, "the folder that "+t.client.Title+" has open")
	case kind == "input" && t.inputs[rest] != "":
		return part{literal: t.inputs[rest]}
	case named && slices.Contains([]string{"input", "file", "config", "command", "env"}, kind):
		return t.ask(variableName(filepath.Base(rest)), t.client.Title+" fills in "+shown(inner))
	}
	if name, _, _ := strings.Cut(inner, ":-"); validVariable(name) {
		return t.use(name, inner[len(name):]) // with its default
	}
	return part{literal: written}
}

const workspace = "WORKSPACE_FOLDER"

func (t *translator) use(name, fallback string) part {
	t.used[name] = true
	return part{variable: name, fallback: fallback}
}

// ask returns a variable without a known value.
func (t *translator) ask(name, why string) part {
	name = cmp.Or(name, t.label+"_SECRET")
	v := &t.server.Variables
	if !slices.ContainsFunc(v.Unset, func(u Unset) bool { return u.Name == name }) {
		v.Unset = append(v.Unset, Unset{Name: name, Why: why})
	}
	return t.use(name, "")
}

var (
	absolute = regexp.MustCompile(`^(?:[/\\]|[A-Za-z]:|$)`)
	atHome   = regexp.MustCompile(`^~(?:[/\\]|$)`)
)

// path makes a path independent of the current directory: our configuration does not
// expand "~", and a relative path is relative to the project's folder.
func (t *translator) path(p text, what string) text {
	if len(p) == 0 || absolute.MatchString(p[0].literal) {
		return p
	}
	start := p[0].literal
	switch {
	case atHome.MatchString(start):
		return text{t.use(t.home(), "")}.plus(p.slice(1, len(p.filled("-")))...)
	case t.base != "":
		p[0].literal = strings.TrimRight(t.base, `/\`) + "/" + strings.TrimPrefix(start, "./")
		return p
	}
	t.note("%s is a path relative to wherever the client runs: make it absolute", what)
	if start[0] == '~' {
		p[0].literal = "./" + start
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
func (t *translator) hide(s text, before string) string {
	s = t.withoutDefaults(s, func(name, value string) bool {
		return len(secret.Find(value, before))+len(secret.Find(value, "--"+name)) > 0
	})
	var out text
	done, all := 0, s.filled("\x01")
	for _, p := range secret.Find(all, before) {
		out = out.plus(s.slice(done, p.From)...)
		out = out.plus(t.withheld(s.slice(p.From, p.To), variableName(p.Name))...)
		done = p.To
	}
	return out.plus(s.slice(done, len(all))...).String()
}

// value moves every literal part of an environment variable or a header to variables,
// except the scheme of credentials.
func (t *translator) value(s text, label string) string {
	if s.isLiteral() {
		return "${" + t.hidden(label, s.filled("")) + "}"
	}
	s = t.withoutDefaults(s, func(name, value string) bool { return name != workspace && !scheme.MatchString(value) })
	return t.withheld(s, label).String()
}

// withoutDefaults moves the defaults of variables to the file of variables, if may
// returns true.
func (t *translator) withoutDefaults(s text, may func(name, value string) bool) text {
	s = slices.Clone(s)
	for i, p := range s {
		value := strings.TrimPrefix(p.fallback, ":-")
		known, ok := t.server.Variables.value(p.variable)
		if value == "" || !may(p.variable, value) || ok && known != value {
			continue
		}
		t.server.Variables.add(p.variable, value)
		t.note("${%s} has its default in the file of variables, which overrides the environment: change it there", p.variable)
		s[i].fallback = ""
	}
	return s
}

// scheme matches the name of an authentication scheme.
var scheme = regexp.MustCompile(`^\s*(?:(?i)bearer|basic|token|api-?key|key|digest|negotiate)?\s*$`)

// withheld moves the literal parts of a text to variables, except the scheme of
// credentials, and punctuation between variables.
func (t *translator) withheld(s text, label string) (out text) {
	for _, p := range s {
		isPunctuation := len(s) > 1 && strings.Trim(p.literal, " :,;/&?=\"'@") == ""
		if p.variable == "" && !isPunctuation && !scheme.MatchString(p.literal) {
			p = part{variable: t.hidden(label, p.literal)}
		}
		out = out.plus(p)
	}
	return out
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
		case !ok && !t.used[name]:
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
