package clients

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// Server is one server of a client, as an upstream.
type Server struct {
	Name      string // for [upstreams.NAME], and unlike all others
	Was       string // what the client calls it, if that is another name
	From      Origin
	Block     Block
	Variables Variables
	Stays     string   // why the client keeps it; "": it does not
	Notes     []string // what did not come along, or is not what it was
	Approved  []string // tools that the client calls without asking
	Upstream  string   // that it becomes, which is the caller's to say; "": it stays with its client
}

// Origin is where a server stands.
type Origin struct {
	Client  string // as [Client.Name]
	File    string
	Pointer string // in that, as a JSON pointer
	Scope   string // of Claude Code: user, local, project

	table []string // of which it is an entry
	entry string   // and the name of that
}

// Block is what [upstreams.NAME] says of a server. No literal value of its environment or its
// headers is in it, and nothing else that may be a secret.
type Block struct {
	Command    string // "" for a url
	Args       []string
	Cwd        string // "": the client's
	Env        []Pair // that name variables, in the order of the file
	EnvFile    string // the client's own
	URL        string
	Transport  string        // sse, or "": streamable HTTP first
	Headers    []Pair        // in the order of the file
	Timeout    time.Duration // of a call
	Disabled   bool
	Folders    []string // sessions elsewhere do not have it
	AllowTools []string
	DenyTools  []string
	Trust      bool
}

// Pair is an environment variable of a server, or a header.
type Pair struct {
	Name  string
	Value string // with ${NAME} in it, no literal value
}

// Variables are what a server's file of variables has.
type Variables struct {
	Values []Value
	Unset  []Unset // that have to be set before it runs
}

// Value is a variable of a server and what it stands for, which is never printed.
type Value struct {
	Name  string
	Value string
}

// Unset is a variable of which no file has a value.
type Unset struct {
	Name string
	Why  string
}

// Called is a server's name in the client's file.
func (s Server) Called() string {
	if s.Was != "" {
		return s.Was
	}
	return s.Name
}

// TOML is servers as blocks of our configuration, with their files of variables in a folder
// of that name below it. What is to be said of them is in comments.
func TOML(servers []Server, folder string) []byte {
	var b bytes.Buffer
	for i, s := range servers {
		if i > 0 {
			b.WriteByte('\n')
		}
		s.write(&b, folder)
	}
	return b.Bytes()
}

// VariablesFile is where a server's variables stand, and what that file says; nil if it needs
// none.
func (s Server) VariablesFile(folder string) (name string, text []byte) {
	name = folder + "/" + s.Name + ".env"
	if len(s.Variables.Values)+len(s.Variables.Unset) == 0 {
		return name, nil
	}
	text = []byte(Comment("Variables of [upstreams." + s.Name + "]: NAME=\"value\" lines."))
	for _, v := range s.Variables.Values {
		line, _ := v.line()
		text = append(text, line...)
	}
	for _, u := range s.Variables.Unset {
		text = append(text, Comment(u.Name+"=  ("+u.Why+")")...)
	}
	return name, text
}

// line is a variable as a line of the file; false if no line can say its value.
func (v Value) line() (string, bool) {
	if !valid(v.Value) || strings.HasPrefix(v.Value, "\n") || strings.HasPrefix(v.Value, "\r") {
		return "", false
	}
	for _, mark := range []string{`"`, `'`} {
		looksLast := func(line string) bool { return strings.HasSuffix(strings.TrimRight(line, " \t\r"), mark) }
		lines := strings.Split(v.Value, "\n")
		if !slices.ContainsFunc(lines[:len(lines)-1], looksLast) {
			return fmt.Sprintf("%s=%s%s%s\n", v.Name, mark, v.Value, mark), true
		}
	}
	return "", false
}

// Comment is a line of TOML that says nothing, whatever the text.
func Comment(text string) string { return "# " + OneLine(text) + "\n" }

func (s Server) write(b *bytes.Buffer, folder string) {
	if s.Was != "" {
		b.WriteString(Comment("there: " + s.Was))
	}
	for _, note := range s.Notes {
		b.WriteString(Comment(note))
	}
	for _, u := range s.Variables.Unset {
		b.WriteString(Comment("set " + u.Name + ": " + u.Why))
	}
	block := s.Block
	if name, text := s.VariablesFile(folder); text != nil {
		block.EnvFile = name
	}
	fmt.Fprintf(b, "[%s]\n", toml.Key{"upstreams", s.Name})
	block.write(b)
}

func (s Block) write(b *bytes.Buffer) {
	set := func(key string, value any, there bool) {
		if there {
			b.WriteString(assignment(key, value) + "\n")
		}
	}
	set("command", s.Command, s.Command != "")
	set("args", s.Args, len(s.Args) > 0)
	set("cwd", s.Cwd, s.Cwd != "")
	set("url", s.URL, s.URL != "")
	set("transport", s.Transport, s.Transport != "")
	for _, p := range s.Env {
		b.WriteString("env." + assignment(p.Name, p.Value) + "\n")
	}
	for _, p := range s.Headers {
		b.WriteString("headers." + assignment(p.Name, p.Value) + "\n")
	}
	set("env_file", s.EnvFile, s.EnvFile != "")
	set("enabled", false, s.Disabled)
	set("trust", true, s.Trust)
	set("folders", s.Folders, len(s.Folders) > 0)
	set("timeout", s.Timeout.String(), s.Timeout > 0)
	if len(s.AllowTools) > 0 {
		b.WriteString("tools." + assignment("allow", s.AllowTools) + "\n")
	}
	if len(s.DenyTools) > 0 {
		b.WriteString("tools." + assignment("deny", s.DenyTools) + "\n")
	}
}

// assignment is one line, key = value.
func assignment(key string, value any) string {
	out, err := toml.Marshal(map[string]any{key: value})
	if err != nil {
		panic(err) // strings, lists of them and truth values always marshal
	}
	return strings.TrimSuffix(string(out), "\n")
}
