package clients

import (
	"strings"
)

// text is a value of a client's file, taken apart.
type text []piece

// piece is a part of a text: what stands there, a variable, or a secret.
type piece struct {
	literal  string // of a variable: its default
	variable string // "" for what stands there
	fallback bool   // the variable has a default, which may be ""
	ask      *node  // the variable may be none of the environment: where its value is asked for
	secret   *withheld
}

// withheld is a value that must not be written. Once all are known, each is given a variable.
type withheld struct {
	value string
	label string // how its variable would best be called
	where node
	part  bool // only a part of what stands there
	asked bool // there is no value, only a reference to one that no file has
}

// place is what is to be known of where a text stands, to fill in what clients do.
type place struct {
	node  node
	label string // for a variable that has no name
	here  bool   // the server's own working folder is "." there
	os    string
	note  func(string)
}

// read takes apart what a client would fill in: ${NAME} and ${NAME:-default} (Claude),
// ${env:NAME} (Cursor, VS Code, Windsurf), ${input:ID}, ${workspaceFolder},
// ${userHome}, ${file:PATH}. A "${" that means nothing to anyone stays as it is.
func (p place) read(s string) text {
	var t text
	for s != "" {
		before, rest, found := strings.Cut(s, "${")
		inner, after, closed := strings.Cut(rest, "}")
		if !found || !closed {
			return append(t, piece{literal: s})
		}
		if before != "" {
			t = append(t, piece{literal: before})
		}
		t = append(t, p.variable(inner))
		s = after
	}
	return t
}

// variable is what stands between ${ and }.
func (p place) variable(inner string) piece {
	kind, rest, named := strings.Cut(inner, ":")
	switch {
	case kind == "env" && validVariable(rest):
		return piece{variable: rest}
	case kind == "userHome" && !named:
		return piece{variable: home(p.os)}
	case kind == "pathSeparator" || inner == "/":
		return piece{literal: "/"}
	case kind == "workspaceFolder" || kind == "workspaceRoot":
		if !p.here {
			return piece{variable: "WORKSPACE_FOLDER", ask: &p.node}
		}
		p.note("${WORKSPACE_FOLDER}, if it is not set, is the folder in which the client starts mcpschedd")
		return piece{variable: "WORKSPACE_FOLDER", literal: ".", fallback: true}
	case kind == "file" && named:
		return piece{secret: &withheld{label: p.label, where: p.node, asked: true}}
	}
	if name, fallback, has := strings.Cut(inner, ":-"); validVariable(name) {
		return piece{variable: name, literal: fallback, fallback: has}
	}
	if named && (kind == "input" || kind == "config" || kind == "command" || kind == "env") {
		if name := variableName(rest); name != "" {
			return piece{variable: name, ask: &p.node}
		}
		return piece{secret: &withheld{label: p.label, where: p.node, asked: true}}
	}
	return piece{literal: "${" + inner + "}"}
}

// home is the variable of the user's home folder.
func home(os string) string {
	if os == "windows" {
		return "USERPROFILE"
	}
	return "HOME"
}

// String is the text as our configuration has it. A secret must have its variable.
func (t text) String() string {
	var b strings.Builder
	for _, p := range t {
		if p.variable == "" {
			b.WriteString(strings.ReplaceAll(p.literal, "${", "$${"))
			continue
		}
		// A $ before ${NAME} would make it no variable: it becomes one too.
		if before := strings.TrimRight(b.String(), "$"); len(before) < b.Len() {
			dollars := b.Len() - len(before)
			b.Reset()
			b.WriteString(before + strings.Repeat("${DOLLAR:-$}", dollars))
		}
		b.WriteString("${" + p.variable)
		if p.fallback {
			b.WriteString(":-" + p.literal)
		}
		b.WriteString("}")
	}
	return b.String()
}

// plain is what stands there, without what is filled in.
func (t text) plain() string { return t.filled("") }

// filled is the text with the same in the place of each variable and secret.
func (t text) filled(with string) string {
	var b strings.Builder
	for _, p := range t {
		if p.variable != "" || p.secret != nil {
			b.WriteString(with)
			continue
		}
		b.WriteString(p.literal)
	}
	return b.String()
}

// only is the one piece of a text that has one.
func (t text) only() piece {
	if len(t) != 1 {
		return piece{}
	}
	return t[0]
}

const nameLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

func validVariable(name string) bool {
	return name != "" && !strings.ContainsRune("0123456789", rune(name[0])) && strings.Trim(name, nameLetters+"0123456789_") == ""
}

// variableName makes a name of a variable out of any: letters, digits and single _;
// "" if nothing is left.
func variableName(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z':
			b.WriteRune(c - 'a' + 'A')
		case c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			b.WriteRune(c)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	name := strings.Trim(b.String(), "_")
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
