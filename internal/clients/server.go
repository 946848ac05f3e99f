package clients

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/BurntSushi/toml"

	"mcpschedd/internal/age"
)

// Server is a client's server as an upstream.
type Server struct {
	Name      string // unique name for [upstreams.NAME]
	Called    string // name in the client's file, for printing; Name if that is empty
	From      Origin
	Block     Block
	Variables Variables
	File      string   // of its variables, relative to the configuration
	Stays     string   // why it stays with the client; "" if it can be imported
	Notes     []string // differences from the client's entry
	New       bool     // set by the caller: the configuration does not have the upstream yet

	environment []string // names of variables that its block takes from the environment of mcpschedd
}

// Origin is the position of a server's entry.
type Origin struct {
	Client  string // as [Client.Name]
	File    string
	Pointer string // JSON pointer in File
	Scope   string // project in a file of a project; user or local in Claude Code's own; else ""

	table []string // path of the table with the entry
	entry string   // name in that table
}

// Block is the [upstreams.NAME] block of a server. It contains no literal values of the
// environment and headers, and nothing else that may be secret.
type Block struct {
	Command    string // "" for a url
	Args       []string
	Cwd        string // "" for the client's
	Env        []Pair // by name; those that Codex passes on are last
	EnvFile    string // file of the client
	URL        string
	Transport  string        // "sse", or "" for streamable HTTP first
	Headers    []Pair        // by name within each key of the entry
	Timeout    time.Duration // of a call
	Disabled   bool
	Folders    []string // only sessions in these folders have the server
	AllowTools []string
	DenyTools  []string
	Trust      bool
}

// Pair is an environment variable, a header, or the entry of a server as text. In a block, its
// value consists of references to variables, except for the scheme of credentials and punctuation.
// In a file of variables, its value is literal, and never printed.
type Pair struct{ Name, Value string }

// Variables is the contents of a server's file of variables.
type Variables struct {
	Base   string // contents of the client's own file of variables, which precede the others
	Values []Pair
	Unset  []Unset // must be set by the user

	Defaults []Pair // those of Values that the client uses only if its environment has no value
}

// Unset is a variable without a value in any file.
type Unset struct {
	Name string
	Why  string
}

func (v *Variables) value(name string) (value string, ok bool) {
	i := slices.IndexFunc(v.Values, func(p Pair) bool { return p.Name == name })
	if i < 0 {
		return "", false
	}
	return v.Values[i].Value, true
}

func (v *Variables) add(name, value string) {
	if one := (Pair{name, value}); !slices.Contains(v.Values, one) {
		v.Values = append(v.Values, one)
	}
}

// TOML returns the servers as blocks of our configuration, each with comments that name its source and have its
// notes, and are removed with it.
func TOML(servers []Server) []byte {
	var b bytes.Buffer
	for i, s := range servers {
		if i > 0 {
			b.WriteByte('\n')
		}
		if s.Called != s.Name {
			b.WriteString(comment("name in the client: " + s.Called))
		}
		if filepath.IsAbs(s.From.File) { // else it is from the command line
			b.WriteString(comment("From " + s.From.File + ", by mcpschedd import."))
		}
		for _, note := range s.Notes {
			b.WriteString(comment(note))
		}
		for _, u := range s.Variables.Unset {
			b.WriteString(comment("set " + u.Name + ": " + u.Why))
		}
		if s.VariablesText() != nil {
			s.Block.EnvFile = s.File
		}
		fmt.Fprintf(&b, "[%s]\n", toml.Key{"upstreams", s.Name})
		s.Block.write(&b)
	}
	return b.Bytes()
}

// VariablesText returns the text of the server's file of variables; nil if it needs none.
func (s Server) VariablesText() []byte {
	if len(s.Variables.Values)+len(s.Variables.Unset) == 0 {
		return nil
	}
	text := []byte(comment("Variables of [upstreams."+s.Name+"]: NAME=\"value\" lines.") + s.Variables.Base)
	for _, v := range s.Variables.Values {
		line, _ := v.line()
		text = append(text, line...)
	}
	for _, u := range s.Variables.Unset {
		text = append(text, comment(u.Name+"=  ("+u.Why+")")...)
	}
	return text
}

// line returns a variable as a line of the file, or false if the file format cannot
// represent its value.
func (v Pair) line() (string, bool) {
	if !utf8.ValidString(v.Value) || strings.ContainsRune(v.Value, 0) || strings.IndexAny(v.Value, "\r\n") == 0 {
		return "", false
	}
	for _, mark := range []string{`"`, `'`} {
		ends := regexp.MustCompile(mark + `[ \t\r]*\n|^[^` + mark + `]*` + mark + `[ \t]*#|^[^` + mark + `\n]*` + mark + `[^\n]*\n`) // where the value would end
		if !ends.MatchString(v.Value) {
			return fmt.Sprintf("%s=%s%s%s\n", v.Name, mark, v.Value, mark), true
		}
	}
	return "", false
}

// comment returns a text as a one-line TOML comment.
func comment(text string) string { return "# " + oneLine(text) + "\n" }

// write writes all keys that are set.
func (s Block) write(b *bytes.Buffer) {
	set := func(value any, key ...string) {
		if !reflect.ValueOf(value).IsZero() {
			fmt.Fprintf(b, "%s = %s\n", toml.Key(key), literal(value))
		}
	}
	set(s.Command, "command")
	set(s.Args, "args")
	set(s.Cwd, "cwd")
	set(s.URL, "url")
	set(s.Transport, "transport")
	for _, p := range s.Env {
		set(p.Value, "env", p.Name)
	}
	for _, p := range s.Headers {
		set(p.Value, "headers", p.Name)
	}
	set(s.EnvFile, "env_file")
	if s.Disabled {
		b.WriteString("enabled = false\n")
	}
	set(s.Trust, "trust")
	set(s.Folders, "folders")
	if s.Timeout > 0 {
		set(age.Text(s.Timeout), "timeout")
	}
	set(s.AllowTools, "tools", "allow")
	set(s.DenyTools, "tools", "deny")
}

// literal returns a value as TOML.
func literal(value any) string {
	out, err := toml.Marshal(map[string]any{"v": value})
	if err != nil {
		panic(err) // unreachable: strings, lists of them and booleans always marshal
	}
	return strings.TrimSuffix(strings.TrimPrefix(string(out), "v = "), "\n")
}
