package clients

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

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

// Variables is a server's file of variables; nil if it needs none.
func (s Server) Variables() []byte {
	if len(s.Values)+len(s.Unset) == 0 {
		return nil
	}
	var b bytes.Buffer
	b.WriteString(Comment("Variables of [upstreams." + s.Name + "]: NAME=\"value\" lines."))
	for _, v := range s.Values {
		line, _ := v.line()
		b.WriteString(line)
	}
	for _, u := range s.Unset {
		b.WriteString(Comment(u.Name + "=  (" + u.Why + ")"))
	}
	return b.Bytes()
}

// VariablesFile is where that stands.
func (s Server) VariablesFile(folder string) string { return folder + "/" + s.Name + ".env" }

// Comment is a line of TOML that says nothing, whatever the text.
func Comment(text string) string { return "# " + OneLine(text) + "\n" }

func (s Server) write(b *bytes.Buffer, folder string) {
	if s.Was != "" {
		b.WriteString(Comment("there: " + s.Was))
	}
	for _, note := range s.Notes {
		b.WriteString(Comment(note))
	}
	for _, u := range s.Unset {
		b.WriteString(Comment("set " + u.Name + ": " + u.Why))
	}
	fmt.Fprintf(b, "[%s]\n", toml.Key{"upstreams", s.Name})
	set := func(key string, value any, unset bool) {
		if !unset {
			b.WriteString(assignment(key, value) + "\n")
		}
	}
	set("command", s.Command, s.Command == "")
	set("args", s.Args, len(s.Args) == 0)
	set("cwd", s.Cwd, s.Cwd == "")
	set("url", s.URL, s.URL == "")
	set("transport", s.Transport, s.Transport == "")
	for _, p := range s.Env {
		b.WriteString("env." + assignment(p.Name, p.Value) + "\n")
	}
	for _, p := range s.Headers {
		b.WriteString("headers." + assignment(p.Name, p.Value) + "\n")
	}
	if s.Variables() != nil {
		s.EnvFile = s.VariablesFile(folder)
	}
	set("env_file", s.EnvFile, s.EnvFile == "")
	set("enabled", false, !s.Disabled)
	set("trust", true, !s.Trust)
	set("folders", s.Folders, len(s.Folders) == 0)
	set("timeout", s.Timeout.String(), s.Timeout == 0)
	for _, f := range []struct {
		key   string
		tools []string
	}{{"allow", s.AllowTools}, {"deny", s.DenyTools}} {
		if len(f.tools) > 0 {
			b.WriteString("tools." + assignment(f.key, f.tools) + "\n")
		}
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
