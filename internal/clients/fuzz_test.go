package clients_test

import (
	"bytes"
	"testing"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
)

// FuzzRead: for any file, the servers make a configuration that loads and has each server once,
// under a name of its own.
func FuzzRead(f *testing.F) {
	for _, file := range realFiles {
		f.Add([]byte(file))
	}
	for _, seed := range []string{
		``, `{`, `[]`, `{"mcpServers":[]}`, `{"mcpServers":{"a":1}}`, `{"mcpServers":{"":{"command":"~x"},"_":{"command":"~"},"__":{"command":"./~"}}}`,
		`{"servers":{"a":{"url":"http://${"},"b":{"url":"https://x${env:"},"c":{"url":"${A}"},"d":{"url":"http://[::1"}}}`,
		`{"mcpServers":{"a":{"command":"$${A}${:-}${a b}${A:-${B}}","args":["$${","$","$${A}","\u0000","\ud800"],"env":{"":"x","a=b":"y","A\n":"z","é":1}}}}`,
		`{"mcpServers":{"plan":{"command":"x","excludeTools":["[","a*",""],"cwd":"~bob"},"plan ":{"command":"y","envFile":"~/x"}}}`,
		`{"mcpServers":{"a":{"command":" x"},"b":{"command":[" x"]}}}`,
		`{"mcpServers":{"a":{"command":"x","env":{"A=":0}},"b":{"url":"http://h","headers":{"A=":"x"}}}}`,
		`{"mcpServers":{"a":{"url":"http://h","headers":{"A b":"x","X":"\u0001","":"","Y":"a\nb"}}}}`,
		"{\"mcpServers\":{\"a\":{\"command\":\"\xff\"}}} // end", `{"mcp":{"servers":{"a\nb\u2028":{"command":"x","nope\n[upstreams.b]":1}}}}`,
		`{"mcpServers":{"a":{"command":"x","args":["--","--token","t","--token","--x","TOKEN=","=","token=;","Bearer ","Authorization: "]}}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 32<<10 {
			t.Skip("longer texts are too slow to fuzz")
		}
		r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}})
		_ = r.Read("/home/ann/.claude.json", data) // even after an error, what was read before must be valid
		text := clients.TOML(r.Servers())
		c, err := config.Default().Parse("/x/pipeline_config.toml", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(c.Upstreams) != len(r.Servers()) {
			t.Fatalf("got %d upstreams of %d servers:\n%s", len(c.Upstreams), len(r.Servers()), text)
		}
		if _, err := config.Default().Parse("/x/pipeline_config.toml", bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))); err != nil {
			t.Fatalf("with other line ends: %v", err)
		}
		pointed, err := r.Point([]string{"/bin/mcpschedd", "connect"}, 0)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, p := range pointed {
			again := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}})
			if err := again.Read(p.Path, p.Text); err != nil || len(itself(again)) == 0 {
				t.Fatalf("%v\n%s", err, p.Text)
			}
		}
	})
}
