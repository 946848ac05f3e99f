package importing_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/importing"
	"mcpschedd/internal/state"
)

// imported returns an import of a file below the home directory into a configuration, and what Decide returns.
func imported(t *testing.T, configuration, file, text string, trust ...string) (*importing.Import, error) {
	t.Helper()
	home := t.TempDir()
	have, err := config.Default().Parse(filepath.Join(home, "config.toml"), []byte(configuration))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, filepath.FromSlash(file))
	err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600), os.WriteFile(have.Path, []byte(configuration), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	machine := clients.Machine{OS: "linux", Home: home, Env: func(string) string { return "" }}
	im := &importing.Import{
		Config: have, Reader: clients.NewReader(clients.Options{Machine: machine, ReadFile: os.ReadFile}),
		Prefixed: func(_ string, upstreams int) bool { return upstreams != 1 },
	}
	if err := im.Read(path); err != nil {
		t.Fatal(err)
	}
	return im, im.Decide(trust)
}

// TestOutcome: a server is new, is configured already, or stays with its client.
func TestOutcome(t *testing.T) {
	const server = `{"mcpServers": {"db": {"command": "pg", "args": ["-x"], "cwd": "/d"}}}`
	for configuration, want := range map[string]string{
		"":                                      "would be imported",
		"[upstreams.DB]\ncommand = \"other\"\n": "would be imported as upstreams.db-2",
		"[upstreams.DB]\ncommand = \"pg\"\nargs = [\"-x\"]\ncwd = \"/d\"\n":                  "is already configured as upstreams.DB",
		"[upstreams.db-7]\ncommand = \"pg\"\nargs = [\"-x\"]\ncwd = \"/d\"\n":                "is already configured as upstreams.db-7",
		"[upstreams.else]\ncommand = \"pg\"\nargs = [\"-x\"]\ncwd = \"/d\"\n":                "would be imported",
		"[upstreams.db]\ncommand = \"pg\"\nargs = [\"-x\"]\n":                                "stays with its client: upstreams.db is the same server with other settings (cwd): ",
		"[upstreams.db]\ncommand = \"pg\"\nargs = [\"-x\"]\ncwd = \"/d\"\nenabled = false\n": "stays with its client: upstreams.db is the same server and disabled: ",
	} {
		im, err := imported(t, configuration, "mcp.json", server)
		if got := im.Outcome(im.Reader.Servers()[0]); err != nil || !strings.HasPrefix(got, want) || !strings.HasSuffix(want, ": ") && got != want {
			t.Errorf("%s: got %q, %v, want %q", configuration, got, err, want)
		}
	}
}

// TestTrust: trust in a server that is not read, or configured already, is refused with a hint.
func TestTrust(t *testing.T) {
	for name, hint := range map[string]string{"db": "", "all": "", "mine": "set trust = true in [upstreams.mine]", "none": "lists the servers"} {
		im, err := imported(t, "[upstreams.mine]\ncommand = \"x\"\n", "mcp.json", `{"mcpServers": {"db": {"command": "pg"}}}`, name)
		refusal, refused := errors.AsType[*importing.Refusal](err)
		if trusted := im.Reader.Servers()[0].Block.Trust; trusted != (hint == "") || refused == trusted || refused && !strings.Contains(refusal.Hint, hint) {
			t.Errorf("%s: got trust %v, %v", name, trusted, err)
		}
	}
}

// TestOwnTimeout: a client waits for mcpschedd as long as for a server that was configured earlier, and as long as for
// one that is imported later, for which the user is told to change the entry.
func TestOwnTimeout(t *testing.T) {
	for _, tt := range []struct{ name, file, text, want, step string }{
		{"Codex", ".codex/config.toml", "[mcp_servers.s]\ncommand = \"s\"\n", "tool_timeout_sec = 600\n", ""},
		{"OpenCode", ".config/opencode/opencode.json", `{"mcp": {"s": {"type": "local", "command": ["s"]}}}`, `"timeout": 600000}`, ""},
		{"another client", ".cursor/mcp.json", `{"mcpServers": {"s": {"command": "s"}}}`, `["connect"]}`, ""},
		{"later for Codex", ".codex/config.toml", "[mcp_servers.mcpschedd]\ncommand = \"mcpschedd\"\ntool_timeout_sec = 900\n[mcp_servers.s]\ncommand = \"s\"\ntool_timeout_sec = 901\n", "tool_timeout_sec = 900\n", "set tool_timeout_sec of mcpschedd to at least 901, as s needs it"},
		{"later for Codex, not longer", ".codex/config.toml", "[mcp_servers.mcpschedd]\ncommand = \"mcpschedd\"\ntool_timeout_sec = 900\n[mcp_servers.s]\ncommand = \"s\"\ntool_timeout_sec = 900\n", "tool_timeout_sec = 900\n", ""},
		{"later for Copilot CLI", ".copilot/mcp-config.json", `{"mcpServers": {"mcpschedd": {"type": "local", "command": "mcpschedd", "args": ["connect"], "tools": ["*"]}, "s": {"type": "local", "command": "s", "tools": ["*"], "timeout": 5000}}}`, `"tools": ["*"]}`, "set timeout of mcpschedd to at least 300000, as s needs it"},
		{"later for another client", ".cursor/mcp.json", `{"mcpServers": {"mcpschedd": {"command": "mcpschedd"}, "s": {"command": "s", "timeout": 5000}}}`, `"mcpschedd"}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			im, err := imported(t, "[upstreams.slow]\ncommand = \"x\"\ntimeout = \"10m\"\n", tt.file, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			parts := importing.Parts{Servers: true, Line: []string{"/bin/mcpschedd", "connect"}}
			changes, err := im.Changes(state.OnlyRead(t.TempDir()), parts)
			if err != nil || len(changes) != 2 || !strings.Contains(string(changes[1].Text), tt.want) {
				t.Fatalf("got %v, %v, want %s in it", changes, err, tt.want)
			}
			steps := strings.Join(im.Steps(parts, changes), "\n")
			if !strings.Contains(steps, tt.step) || tt.step == "" && strings.Contains(steps, "at least") {
				t.Errorf("got the steps %s, want %q", steps, tt.step)
			}
		})
	}
}
