package clients

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// TOML is servers as blocks of our configuration. What is to be said of them is in
// comments; what is only proposed is one too.
func TOML(servers []Server) []byte {
	var b bytes.Buffer
	for i, s := range servers {
		if i > 0 {
			b.WriteByte('\n')
		}
		s.write(&b)
	}
	return b.Bytes()
}

// Comment is a line of TOML that says nothing, whatever the text.
func Comment(text string) string { return "# " + OneLine(text) + "\n" }

func (s Server) write(b *bytes.Buffer) {
	if s.Was != "" {
		b.WriteString(Comment("there: " + s.Was))
	}
	for _, note := range s.Notes {
		b.WriteString(Comment(note))
	}
	fmt.Fprintf(b, "[%s]\n", toml.Key{"upstreams", s.Name})
	set := func(prefix, key string, value any, unset bool) {
		if !unset {
			b.WriteString(prefix + assignment(key, value) + s.remark(value) + "\n")
		}
	}
	set("", "command", s.Command, s.Command == "")
	set("", "args", s.Args, len(s.Args) == 0)
	set("", "cwd", s.Cwd, s.Cwd == "")
	set("", "url", s.URL, s.URL == "")
	set("", "transport", s.Transport, s.Transport == "")
	for _, p := range s.Env {
		set("env.", p.Name, p.Value, false)
	}
	for _, p := range s.Headers {
		set("headers.", p.Name, p.Value, false)
	}
	set("", "env_file", s.EnvFile, s.EnvFile == "")
	set("", "enabled", false, !s.Disabled)
	set("tools.", "allow", s.AllowTools, len(s.AllowTools) == 0)
	set("tools.", "deny", s.DenyTools, len(s.DenyTools) == 0)
	if s.Provider != "" {
		b.WriteString(Comment(assignment("provider", s.Provider) + " # your word for which server this is: its tools are then taken for what they are known to be"))
	}
}

// remark names the variables of a value that have to be set.
func (s Server) remark(value any) string {
	text := fmt.Sprint(value)
	var names []string
	for _, v := range s.Variables {
		if strings.Contains(text, "${"+v.Name+"}") && !strings.Contains(strings.Join(names, " ")+" ", v.Name+" ") {
			names = append(names, v.Name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return " # set this variable"
	}
	return " # set these variables: " + strings.Join(names, ", ")
}

// assignment is one line, key = value.
func assignment(key string, value any) string {
	out, err := toml.Marshal(map[string]any{key: value})
	if err != nil {
		panic(err) // strings, lists of them and truth values always marshal
	}
	return strings.TrimSuffix(string(out), "\n")
}
