package clients

import (
	"regexp"
	"slices"
	"strings"
)

// text is a value of a client's file, taken apart.
type text []piece

// piece is a part of a text: what stands there, or a variable.
type piece struct {
	literal  string // of a variable: its default
	variable string // "" for what stands there
	fallback bool   // the variable has a default, which may be ""
}

// variables are what a client fills in.
func (c *Client) variables() *regexp.Regexp {
	switch c.Name {
	case "gemini":
		return dollars
	case "opencode":
		return braces
	}
	return usual
}

var (
	usual   = regexp.MustCompile(`\$\{[^}]*\}`)
	dollars = regexp.MustCompile(`\$\{[^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*`)
	braces  = regexp.MustCompile(`\{(?:env|file):[^}]*\}`)
)

// read takes a string apart. A "${" that means nothing to any client stays as it is. here
// says that "." is the server's own working folder where the text is used.
func (e *entry) read(s string, here bool) text {
	var t text
	add := func(p piece) {
		if n := len(t); p.variable == "" && n > 0 && t[n-1].variable == "" {
			t[n-1].literal += p.literal
		} else if p.variable != "" || p.literal != "" {
			t = append(t, p)
		}
	}
	done := 0
	for _, at := range e.client.variables().FindAllStringIndex(s, -1) {
		add(piece{literal: s[done:at[0]]})
		written := s[at[0]:at[1]]
		inner := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(written, "$"), "{"), "}")
		add(e.variable(inner, written, here))
		done = at[1]
	}
	add(piece{literal: s[done:]})
	return t
}

// variable is what a client fills in for what stands between its signs.
func (e *entry) variable(inner, written string, here bool) piece {
	kind, rest, named := strings.Cut(inner, ":")
	switch {
	case kind == "env" && validVariable(rest):
		return piece{variable: rest}
	case kind == "userHome" && !named:
		return piece{variable: home(e.os)}
	case kind == "pathSeparator" || inner == "/":
		return piece{literal: "/"}
	case kind == "workspaceFolder" || kind == "workspaceRoot" || kind == "workspaceFolderBasename":
		return e.workspace(kind, here)
	case kind == "input" && named:
		if value, ok := e.inputs[rest]; ok && value != "" {
			return piece{literal: value}
		}
		return e.asked(variableName(rest), e.client.Title+" asks for it")
	case kind == "file" && named:
		return e.asked(variableName(rest[strings.LastIndexAny(rest, `/\`)+1:]), "the content of "+shown(rest))
	}
	if name, fallback, has := strings.Cut(inner, ":-"); validVariable(name) {
		return piece{variable: name, literal: fallback, fallback: has}
	}
	if named && slices.Contains([]string{"config", "command", "env"}, kind) {
		return e.asked(variableName(rest), e.client.Title+" fills in "+shown(inner))
	}
	return piece{literal: written}
}

// workspace is the folder that a client has open.
func (e *entry) workspace(kind string, here bool) piece {
	switch {
	case e.base != "" && kind == "workspaceFolderBasename":
		return piece{literal: e.base[strings.LastIndexAny(e.base, `/\`)+1:]}
	case e.base != "":
		return piece{literal: e.base}
	case here && kind != "workspaceFolderBasename":
		e.note("${WORKSPACE_FOLDER}, if it is not set, is the folder in which the client starts mcpschedd")
		return piece{variable: workspace, literal: ".", fallback: true}
	}
	return e.asked(workspace, "the folder that "+e.client.Title+" has open")
}

const workspace = "WORKSPACE_FOLDER"

// asked is a variable whose value no file has.
func (e *entry) asked(name, why string) piece {
	if name == "" {
		name = e.label + "_SECRET"
	}
	if !slices.ContainsFunc(e.server.Unset, func(u Unset) bool { return u.Name == name }) {
		e.server.Unset = append(e.server.Unset, Unset{Name: name, Why: why})
	}
	return piece{variable: name}
}

// home is the variable of the user's home folder.
func home(os string) string {
	if os == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// String is the text as our configuration has it.
func (t text) String() string {
	var b strings.Builder
	for _, p := range t {
		if p.variable == "" {
			b.WriteString(strings.ReplaceAll(p.literal, "${", "$${"))
			continue
		}
		// A $ before ${NAME} would make it no variable: it becomes one too.
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

// filled is the text with the same in the place of each variable.
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

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func validVariable(name string) bool {
	return name != "" && !strings.ContainsRune("0123456789", rune(name[0])) && strings.Trim(name, nameLetters+"0123456789_") == ""
}

// variableName makes a name of a variable out of any: letters, digits and single _;
// "" if nothing is left.
func variableName(s string) string {
	var b strings.Builder
	for _, c := range strings.ToUpper(s) {
		if c < 0x80 && strings.ContainsRune(nameLetters+"0123456789", c) {
			b.WriteRune(c)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "_") {
			b.WriteByte('_')
		}
	}
	name := strings.Trim(b.String(), "_")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
