package clients_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
)

// newReader returns a reader. Without other options, there are no variables and no other files.
func newReader(o clients.Options) *clients.Reader {
	if o.Env == nil {
		o.Env = func(string) string { return "" }
	}
	if o.ReadFile == nil {
		o.ReadFile = func(string) ([]byte, error) { return nil, os.ErrNotExist }
	}
	return clients.NewReader(o)
}

// entry returns the server "s" in a client's own file.
func entry(t *testing.T, path, key, text string) (clients.Server, []string) {
	t.Helper()
	r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann", Env: func(name string) string {
		return map[string]string{"OPENCODE_CONFIG": "/home/ann/dotfiles/opencode.json"}[name]
	}}, ReadFile: func(path string) ([]byte, error) {
		if path != "/home/ann/s.env" {
			return nil, errors.New("none")
		}
		return []byte("A=b"), nil
	}})
	if err := r.Read(path, []byte(`{"inputs": [{"id": "url", "default": "http://localhost"}], "`+key+`": {"s": `+text+`}}`)); err != nil {
		t.Fatal(err)
	}
	if len(r.Servers()) == 0 {
		return clients.Server{}, r.Notes()
	}
	return r.Servers()[0], r.Notes()
}

func TestTOML(t *testing.T) {
	tests := []struct{ name, in, want, variables string }{
		{"a command", `{"command": "x", "args": ["a", "b c"], "cwd": "/srv"}`, `command = "x"|args = ["a", "b c"]|cwd = "/srv"`, ""},
		{"a command with its arguments in it", `{"args": ["b"], "command": " npx -y x"}`, `command = "npx"|args = ["-y", "x", "b"]`, ""},
		{"a program with spaces in its path", `{"command": "/a b/x"}`, `command = "/a b/x"`, ""},
		{"a url", `{"type": "http", "url": "http://localhost:1/mcp"}`, `url = "http://localhost:1/mcp"`, ""},
		{"over SSE", `{"type": "sse", "url": "http://localhost:1/sse"}`, `url = "http://localhost:1/sse"|transport = "sse"`, ""},
		{"switched off", `{"command": "x", "disabled": true}`, `command = "x"|enabled = false`, ""},
		{"some tools", `{"command": "x", "includeTools": ["a"], "excludeTools": ["b*"]}`, `command = "x"|tools.allow = ["a"]|tools.deny = ["b\\*"]`, ""},
		{"a time-out in a unit of its own", `{"command": "x", "timeout": 60}`, `command = "x"`, ""},

		{"every literal value", `{"command": "x", "env": {"PORT": 80, "DEBUG": true, "A": "", "Q": "a \"b\" "}}`, `command = "x"|env_file = "env/s.env"`, `A=""|DEBUG="true"|PORT="80"|Q="a "b" "`},
		{"of many lines", `{"command": "x", "env": {"KEY": "-----BEGIN\nabc\n-----END\n"}}`, `command = "x"|env_file = "env/s.env"`, "KEY=\"-----BEGIN|abc|-----END|\""},
		{"a name that is no variable", `{"command": "x", "env": {"a.b": "c"}}`, `command = "x"|env."a.b" = "${A_B}"|env_file = "env/s.env"`, `A_B="c"`},
		{"a name like another's", `{"command": "x", "env": {"A-B": "1", "A_B": "2", "C": "3"}}`, `command = "x"|env.A-B = "${A_B}"|env.A_B = "${A_B_2}"|env_file = "env/s.env"`, `A_B="1"|A_B_2="2"|C="3"`},
		{"a name that means something here", `{"command": "x", "args": ["${T:-d}"], "env": {"T": "c"}}`, `command = "x"|args = ["${T:-d}"]|env.T = "${T_2}"|env_file = "env/s.env"`, `T_2="c"`},
		{"one that the server fills in", `{"command": "mcp-remote", "args": ["--header", "Authorization:${T}"], "env": {"T": "Bearer abc"}}`, `command = "mcp-remote"|args = ["--header", "Authorization:$${T}"]|env_file = "env/s.env"`, `T="Bearer abc"`},
		{"one that the client fills in", `{"command": "x", "args": ["${T}", "${OPENCODE_CONFIG}"], "env": {"T": "${T}", "OPENCODE_CONFIG": "c"}}`, `command = "x"|args = ["${T}", "${OPENCODE_CONFIG}"]|env.OPENCODE_CONFIG = "${OPENCODE_CONFIG_2}"|env.T = "${T}"|env_file = "env/s.env"`, `OPENCODE_CONFIG_2="c"`},
		{"a header", `{"url": "http://localhost/", "headers": {"Authorization": "Bearer abc", "X-Team": "blue"}}`, `url = "http://localhost/"|headers.Authorization = "${AUTHORIZATION}"|headers.X-Team = "${X_TEAM}"|env_file = "env/s.env"`, `AUTHORIZATION="Bearer abc"|X_TEAM="blue"`},
		{"a header with a variable", `{"url": "http://localhost/", "headers": {"Authorization": "Bearer ${A}"}}`, `url = "http://localhost/"|headers.Authorization = "Bearer ${A}"`, ""},
		{"a header with one of no process", `{"url": "http://localhost/", "headers": {"Authorization": "Bearer ${T}"}, "env": {"T": "c"}}`, `url = "http://localhost/"|headers.Authorization = "Bearer ${T}"`, ""},
		{"a header with a variable and more", `{"url": "http://localhost/", "headers": {"Authorization": "Bearer ${A}hunter"}}`, `url = "http://localhost/"|headers.Authorization = "Bearer ${A}${AUTHORIZATION}"|env_file = "env/s.env"`, `AUTHORIZATION="hunter"`},

		{"a variable", `{"command": "x", "env": {"A": "${B}"}}`, `command = "x"|env.A = "${B}"`, ""},
		{"as Cursor has it", `{"command": "x", "env": {"A": "${env:B}-${userHome}"}}`, `command = "x"|env.A = "${B}${A_PART}${HOME}"|env_file = "env/s.env"`, `A_PART="-"`},
		{"a default", `{"command": "x", "args": ["${A:-b}"]}`, `command = "x"|args = ["${A:-b}"]`, ""},
		{"a default that is a secret", `{"command": "x", "args": ["${TOKEN:-hunter2}"]}`, `command = "x"|args = ["${TOKEN}"]|env_file = "env/s.env"`, `TOKEN="hunter2"`},
		{"a default in the environment", `{"command": "x", "env": {"A": "${B:-c}"}}`, `command = "x"|env.A = "${B}"|env_file = "env/s.env"`, `B="c"`},
		{"one that is asked for", `{"command": "x", "env": {"A": "${input:my-key}"}}`, `command = "x"|env.A = "${MY_KEY}"|env_file = "env/s.env"`, `# MY_KEY=  (the client fills in input:my-key)`},
		{"its default", `{"url": "${input:url}/mcp"}`, `url = "http://localhost/mcp"`, ""},
		{"one that is a file", `{"command": "x", "env": {"A": "${file:/k}"}}`, `command = "x"|env.A = "${K}"|env_file = "env/s.env"`, `# K=  (the client fills in file:/k)`},
		{"none", `{"command": "x", "args": ["${", "${a b}", "$A", "$${A}"]}`, `command = "x"|args = ["$${", "$${a b}", "$A", "${DOLLAR:-$}${A}"]`, ""},
		{"the home folder", `{"command": "~/bin/x", "cwd": "~"}`, `command = "${HOME}/bin/x"|cwd = "${HOME}"`, ""},
		{"the project's folder", `{"command": "x", "args": ["${workspaceFolder}"], "cwd": "${workspaceFolder}", "envFile": "${workspaceFolder}/.env"}`, `command = "x"|args = ["${WORKSPACE_FOLDER:-.}"]`, ""},
		{"an env file", `{"command": "x", "envFile": "/p/.env"}`, `command = "x"|env_file = "/p/.env"`, ""},
		{"one in the home folder, and more", `{"command": "x", "envFile": "${userHome}/s.env", "env": {"C": "d"}}`, `command = "x"|env_file = "env/s.env"`, `A=b|C="d"`},

		{"an option", `{"command": "x", "args": ["--api-key", "k", "--verbose"]}`, `command = "x"|args = ["--api-key", "${API_KEY}", "--verbose"]|env_file = "env/s.env"`, `API_KEY="k"`},
		{"an option that takes nothing", `{"command": "x", "args": ["--no-auth", "--port", "80"]}`, `command = "x"|args = ["--no-auth", "--port", "80"]`, ""},
		{"an assignment", `{"command": "x", "args": ["--token=t", "-e", "KEY=u"]}`, `command = "x"|args = ["--token=${TOKEN}", "-e", "KEY=${KEY}"]|env_file = "env/s.env"`, `TOKEN="t"|KEY="u"`},
		{"a secret behind a variable", `{"command": "x", "args": ["-c", "x --password ${A}hunter"]}`, `command = "x"|args = ["-c", "x --password ${A}${PASSWORD}"]|env_file = "env/s.env"`, `PASSWORD="hunter"`},
		{"nothing behind one", `{"command": "x", "args": ["-c", "x --token ${A} --password ${B} key=${C}"]}`, `command = "x"|args = ["-c", "x --token ${A} --password ${B} key=${C}"]`, ""},
		{"a header among the arguments", `{"command": "x", "args": ["--header", "Authorization:Bearer abc"]}`, `command = "x"|args = ["--header", "Authorization:${AUTHORIZATION}"]|env_file = "env/s.env"`, `AUTHORIZATION="Bearer abc"`},
		{"a password in a url", `{"command": "x", "args": ["postgres://bob:p@ss@db/x"]}`, `command = "x"|args = ["postgres://bob:${S_SECRET}@db/x"]|env_file = "env/s.env"`, `S_SECRET="p@ss"`},
		{"a key in a url", `{"url": "http://localhost/s/abcdefghij0123456789abc/mcp?apiKey=k&v=2"}`, `url = "http://localhost/s/${S_SECRET}/mcp?apiKey=${APIKEY}&v=2"|env_file = "env/s.env"`, `S_SECRET="abcdefghij0123456789abc"|APIKEY="k"`},
		{"packages, hashes and models are no secrets", `{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-x@2025.1.1", "claude-3-5-sonnet-20241022", "/nix/store/abcdefghij0123456789abcdefghij01-x/bin"]}`, `command = "npx"|args = ["-y", "@modelcontextprotocol/server-x@2025.1.1", "claude-3-5-sonnet-20241022", "/nix/store/abcdefghij0123456789abcdefghij01-x/bin"]`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, notes := entry(t, "/f.json", "mcpServers", tt.in)
			wantServer(t, s, tt.want, tt.variables)
			if len(notes) > 0 {
				t.Errorf("got %q", notes)
			}
		})
	}
}

// wantServer compares a server's block and its variables with lines separated by |.
func wantServer(t *testing.T, s clients.Server, want, variables string) {
	t.Helper()
	s.Notes = nil
	withoutComments := func(text []byte) string {
		_, text2, _ := strings.Cut(string(text), "]\n")
		_, vars, found := strings.Cut(string(text), "lines.\n")
		if found {
			text2 = vars
		}
		return strings.ReplaceAll(strings.TrimSuffix(text2, "\n"), "\n", "|")
	}
	if diff := cmp.Diff(want, withoutComments(clients.TOML([]clients.Server{s}))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	vars := s.VariablesText()
	if diff := cmp.Diff(variables, withoutComments(vars)); diff != "" {
		t.Errorf("variables: -want +got:\n%s", diff)
	}
}

// TestClients: the peculiarities of each client's format.
func TestClients(t *testing.T) {
	tests := []struct{ name, path, key, in, want, variables string }{
		{"Gemini's variables", "/home/ann/.gemini/settings.json", "mcpServers", `{"command": "x", "env": {"T": "$MY_TOKEN", "U": "a$B"}, "timeout": 600000}`, `command = "x"|env.T = "${MY_TOKEN}"|env.U = "${U_PART}${B}"|env_file = "env/s.env"|timeout = "10m"`, `U_PART="a"`},
		{"Qwen Code's variables and time-out", "/home/ann/.qwen/settings.json", "mcpServers", `{"command": "x", "env": {"T": "$MY_TOKEN"}, "timeout": 600000}`, `command = "x"|env.T = "${MY_TOKEN}"|timeout = "10m"`, ""},
		{"Claude Desktop has no variables", "/home/ann/.config/Claude/claude_desktop_config.json", "mcpServers", `{"command": "sh", "args": ["-c", "for i in a; do x ${i}; done"]}`, `command = "sh"|args = ["-c", "for i in a; do x $${i}; done"]`, ""},
		{"Zed has none either", "/home/ann/.config/zed/settings.json", "context_servers", `{"command": "x", "args": ["${env:A}"], "env": {"A": "${B}"}}`, `command = "x"|args = ["$${env:A}"]|env_file = "env/s.env"`, `A="${B}"`},
		{"Gemini's two URLs", "/home/ann/.gemini/settings.json", "mcpServers", `{"url": "http://localhost/sse", "httpUrl": "http://localhost/mcp"}`, `url = "http://localhost/mcp"`, ""},
		{"Claude Code's time-out", "/home/ann/.claude.json", "mcpServers", `{"command": "x", "timeout": 90500}`, `command = "x"|timeout = "1m30.5s"`, ""},
		{"Cursor's variables", "/home/ann/.cursor/mcp.json", "mcpServers", `{"command": "x", "args": ["${userHome}${/}a${pathSeparator}b"]}`, `command = "x"|args = ["${HOME}/a/b"]`, ""},
		{"VS Code", "/home/ann/.config/Code/User/mcp.json", "servers", `{"type": "stdio", "command": "x", "env": {"A": "${input:url}", "B": "${input:id}"}}`, `command = "x"|env.B = "${ID}"|env_file = "env/s.env"`, `A="http://localhost"|# ID=  (VS Code fills in input:id)`},
		{"Windsurf", "/home/ann/.codeium/windsurf/mcp_config.json", "mcpServers", `{"serverUrl": "http://localhost/", "headers": {"K": "${env:K}"}, "disabledTools": ["rm"]}`, `url = "http://localhost/"|headers.K = "${K}"|tools.deny = ["rm"]`, ""},
		{"OpenCode", "/home/ann/.config/opencode/opencode.json", "mcp", `{"type": "local", "command": ["npx", "-y", "x"], "environment": {"A": "{env:B}", "C": "d"}, "enabled": false, "timeout": 5000}`, `command = "npx"|args = ["-y", "x"]|env.A = "${B}"|env_file = "env/s.env"|enabled = false|timeout = "5s"`, `C="d"`},
		{"Copilot CLI's tools", "/home/ann/.copilot/mcp-config.json", "mcpServers", `{"type": "local", "command": "x", "tools": ["a", "b"], "timeout": 5000}`, `command = "x"|timeout = "5s"|tools.allow = ["a", "b"]`, ""},
		{"all of Copilot CLI's tools", "/home/ann/.copilot/mcp-config.json", "mcpServers", `{"type": "local", "command": "x", "tools": ["*"]}`, `command = "x"`, ""},
		{"none of Copilot CLI's tools", "/home/ann/.copilot/mcp-config.json", "mcpServers", `{"type": "local", "command": "x", "tools": []}`, `command = "x"|tools.allow = []`, ""},
		{"OpenCode's of a project", "/p/opencode.jsonc", "mcp", `{"command": ["x"]}`, `command = "x"|folders = ["/p"]`, ""},
		{"OpenCode's in a folder of its own", "/p/.opencode/opencode.json", "mcp", `{"command": ["x"]}`, `command = "x"|folders = ["/p"]`, ""},
		{"OpenCode's of the home", "/home/ann/.opencode/opencode.json", "mcp", `{"command": ["x"]}`, `command = "x"`, ""},
		{"OpenCode's of the machine", "/etc/opencode/opencode.json", "mcp", `{"command": ["x"]}`, `command = "x"`, ""},
		{"OpenCode's in a variable", "/home/ann/dotfiles/opencode.json", "mcp", `{"command": ["x"]}`, `command = "x"`, ""},
		{"a project's", "/p/.vscode/mcp.json", "servers", `{"command": "./x", "args": ["${workspaceFolder}/a", "${workspaceFolderBasename}"], "envFile": "${workspaceFolder}/.env"}`, `command = "/p/x"|args = ["/p/a", "p"]|env_file = "/p/.env"|folders = ["/p"]`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := entry(t, tt.path, tt.key, tt.in)
			wantServer(t, s, tt.want, tt.variables)
		})
	}
}

func TestCodex(t *testing.T) {
	r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}})
	t.Setenv("B", "set") // and C is not
	t.Setenv("D", "set")
	err := r.Read("/home/ann/.codex/config.toml", []byte("model = \"o\"\n[mcp_servers.s]\ncommand = \"x\"\nargs = [\"a\", \"${A}\"]\nenv = { A = \"b\" }\ntool_timeout_sec = 90\ndisabled_tools = [\"rm\"]\nenv_vars = [\"A\", \"B\", \"C\", {name = \"D\", source = \"local\"}, {source = \"local\"}]\n[mcp_servers.web]\nurl = \"https://h.example/mcp\"\nbearer_token_env_var = \"T\"\n"))
	if err != nil {
		t.Fatal(err)
	}
	wantServer(t, r.Servers()[0], `command = "x"|args = ["a", "$${A}"]|env.B = "${B:-}"|env.D = "${D:-}"|env_file = "env/s.env"|timeout = "1m30s"|tools.deny = ["rm"]`, `A="b"`)
	wantServer(t, r.Servers()[1], `url = "https://h.example/mcp"|headers.Authorization = "Bearer ${T}"`, "")
	if err := r.Read("/home/ann/.cursor/mcp.json", []byte(`{"mcpServers": {"k": {"command": "k", "args": ["${env:K}"]}}}`)); err != nil {
		t.Fatal(err)
	}
	pointed, err := r.Point([]string{"/bin/mcpschedd", "connect"}, 0, "Z", "B")
	if err != nil {
		t.Fatal(err)
	}
	if want := `env_vars = ["B", "D", "K", "T", "Z"]`; !strings.Contains(string(pointed[0].Text), want) { // the variables that the servers need of it
		t.Errorf("got %s\nwant it to have %s", pointed[0].Text, want)
	}
}

// TestCodexTimeout: Codex waits for mcpschedd as long as for the slowest of its servers, and never less than before.
func TestCodexTimeout(t *testing.T) {
	for given, want := range map[string]string{"90": "300", "900.5": "901"} {
		r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}})
		if err := r.Read("/home/ann/.codex/config.toml", []byte("[mcp_servers.s]\ncommand = \"x\"\ntool_timeout_sec = "+given+"\n[mcp_servers.t]\ncommand = \"y\"\n")); err != nil {
			t.Fatal(err)
		}
		pointed, err := r.Point([]string{"/bin/mcpschedd", "connect"}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(pointed[0].Text); !strings.Contains(text, "tool_timeout_sec = "+want+"\n") {
			t.Errorf("%s: got %s", given, text)
		}
	}
}

// TestCodexApproval: a server stays if Codex asks before calls of its tools because of settings that name them.
func TestCodexApproval(t *testing.T) {
	for settings, stays := range map[string]bool{
		`default_tools_approval_mode = "prompt"`: true, "[mcp_servers.s.tools.rm]\napproval_mode = \"prompt\"": true,
		"[mcp_servers.s.tools.list_prompts]\napproval_mode = \"approve\"": false, `default_tools_approval_mode = "approve"`: false, "[mcp_servers.s.tools.rm]\napproval_mode = \"approve\"": false,
	} {
		r := newReader(clients.Options{})
		if err := r.Read("/home/ann/.codex/config.toml", []byte("[mcp_servers.s]\ncommand = \"x\"\n"+settings+"\n")); err != nil {
			t.Fatal(err)
		}
		if s := r.Servers()[0]; (s.Stays != "") != stays {
			t.Errorf("%s: stays %q, want %v", settings, s.Stays, stays)
		}
	}
}

// TestItselfForOne: an entry that runs mcpschedd for one server does not replace those that are taken out.
func TestItselfForOne(t *testing.T) {
	r := newReader(clients.Options{})
	if err := r.Read("/f.json", []byte(`{"mcpServers": {"a": {"command": "mcpschedd", "args": ["serve", "--only", "a"]}, "b": {"command": "b"}}}`)); err != nil {
		t.Fatal(err)
	}
	pointed, err := r.Point([]string{"/bin/mcpschedd", "connect"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(pointed[0].Text); !strings.Contains(got, `"--only"`) || !strings.Contains(got, `"mcpschedd": {"command": "/bin/mcpschedd"`) {
		t.Errorf("got %s, want both", got)
	}
}

// TestStays: a server that would not work with mcpschedd stays with its client.
func TestStays(t *testing.T) {
	for _, in := range []string{
		`{"url": "https://h.example/mcp"}`, `{"url": "https://h.example/mcp", "headers": {"A": "b"}, "oauth": {"clientId": "x"}}`,
		`{"url": "https://h.example/mcp", "headers": {"A": "b"}, "authProviderType": "google_credentials"}`,
		`{"command": "x", "env": {"A": "b"}, "envFile": "/none"}`, `{"command": "x", "env": {"A": "\n'\n\""}}`,
	} {
		if s, _ := entry(t, "/f.json", "mcpServers", in); s.Stays == "" {
			t.Errorf("%s: was imported, want it to stay", in)
		}
	}
	if s, _ := entry(t, "/f.json", "mcpServers", `{"url": "https://h.example/mcp", "headers": {"A": "b"}, "oauth": false}`); s.Stays != "" {
		t.Errorf("stays: %s", s.Stays)
	}
}

// TestOwnTimeout: OpenCode and Copilot CLI wait for mcpschedd as long as for the slowest of their servers, and never less than before.
func TestOwnTimeout(t *testing.T) {
	for file, format := range map[string]string{
		".config/opencode/opencode.json": `{"mcp": {"s": {"command": ["x"]}, "t": {"command": ["y"]%s}}}`,
		".copilot/mcp-config.json":       `{"mcpServers": {"s": {"command": "x", "tools": ["*"]}, "t": {"command": "y"%s}}}`,
	} {
		for settings, want := range map[string]string{``: `}}`, `, "timeout": 5000`: `, "timeout": 300000}`, `, "timeout": 900500`: `, "timeout": 900500}`} {
			r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann", Env: func(string) string { return "" }}})
			if err := r.Read("/home/ann/"+file, fmt.Appendf(nil, format, settings)); err != nil {
				t.Fatal(err)
			}
			pointed, err := r.Point([]string{"/bin/mcpschedd", "connect"}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if text := string(pointed[0].Text); !strings.Contains(text, want) || settings == "" && strings.Contains(text, "timeout") {
				t.Errorf("%s%s: got %s, want in it %s", file, settings, text, want)
			}
		}
	}
}

// TestRefusedTools: a server stays if settings of Gemini CLI or Qwen Code refuse its tools or ask before their calls.
func TestRefusedTools(t *testing.T) {
	for rules, stays := range map[string]bool{
		`"tools": {"exclude": ["mcp_git_push"]}`:           true,
		`"excludeTools": ["git__push"]`:                    true,
		`"permissions": {"deny": ["mcp__git__push"]}`:      true,
		`"permissions": {"ask": ["mcp__git"]}`:             true,
		`"permissions": {"allow": ["mcp__git__push"]}`:     false,
		`"permissions": {"deny": ["mcp__github", "Bash"]}`: false,
	} {
		r := newReader(clients.Options{})
		if err := r.Read("/home/ann/.qwen/settings.json", []byte(`{"mcpServers": {"git": {"command": "x"}}, `+rules+`}`)); err != nil {
			t.Fatal(err)
		}
		if s := r.Servers()[0]; (s.Stays != "") != stays {
			t.Errorf("%s: stays %q, want %v", rules, s.Stays, stays)
		}
	}
}

// TestOpenCodesRules: a server stays if rules name its tools, which are other tools at mcpschedd.
func TestOpenCodesRules(t *testing.T) {
	for rules, stays := range map[string]bool{
		`"tools": {"my_git_push": false}`:                           true,
		`"permission": {"my_git*": "ask"}`:                          true,
		`"permission": {"my*": "deny"}`:                             true,
		`"tools": {"my_gi?_push": false}`:                           true,
		`"agent": {"plan": {"tools": {"my_git_*": false}}}`:         true,
		`"tools": {"*": false, "my_github_x": false, "bash": true}`: false,
		`"permission": "ask", "agent": []`:                          false,
	} {
		r := newReader(clients.Options{})
		if err := r.Read("/home/ann/.config/opencode/opencode.json", []byte(`{"mcp": {"my git": {"command": ["x"]}}, `+rules+`}`)); err != nil {
			t.Fatal(err)
		}
		if s := r.Servers()[0]; (s.Stays != "") != stays {
			t.Errorf("%s: stays %q, want %v", rules, s.Stays, stays)
		}
	}
}

func TestLeftOut(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"no object", `1`, "/f.json:1: /mcpServers/s: left out: want an object, have a number"},
		{"no list", `{"command": "x",` + "\n" + `"args": "y"}`, "/f.json:1: left out: /mcpServers/s/args: want a list of strings, have a string"},
		{"no string in it", `{"command": "x", "args": ["a", {}]}`, "/f.json:1: left out: /mcpServers/s/args: want a string, have an object"},
		{"no string", `{"command": "x", "env": {"A/B": []}}`, "/f.json:1: left out: /mcpServers/s/env: want a string, have a list"},
		{"nothing to reach", `{"args": []}`, "/f.json: /mcpServers/s: left out: it has neither a command nor a url"},
		{"another way to speak", `{"type": "ws", "url": "ws://h"}`, "/f.json: /mcpServers/s: left out: its type is not supported: want stdio, http or sse"},
		{"a port that does not exist", `{"url": "http://h:99999/mcp"}`, "/f.json: /mcpServers/s: left out: its url is not supported: want a port of 1 to 65535"},
		{"another scheme", `{"url": "unix:///s"}`, "/f.json: /mcpServers/s: left out: its url is not supported: want http://HOST or https://HOST"},
		{"no variable", `{"url": "https://h/mcp", "bearer_token_env_var": "MY-TOKEN"}`, "/f.json:1: left out: /mcpServers/s/bearer_token_env_var: want the name of an environment variable"},
		{"no variable for a header", `{"url": "https://h/mcp", "env_http_headers": {"A": ""}}`, "/f.json:1: left out: /mcpServers/s/env_http_headers: want the name of an environment variable"},
		{"itself", `{"command": "/usr/bin/mcpschedd", "args": ["serve"]}`, "/f.json: /mcpServers/s: left out: this is mcpschedd itself"},
		{"itself already", `{"command": "/usr/bin/mcpschedd-small", "args": ["connect"]}`, "/f.json: /mcpServers/s: left out: this is mcpschedd itself"},
		{"itself in full", `{"command": "/usr/bin/mcpschedd-full", "args": ["serve"]}`, "/f.json: /mcpServers/s: left out: this is mcpschedd itself"},
		{"itself by others", `{"command": "cmd", "args": ["/c", "C:\\bin\\mcpschedd.exe"]}`, "/f.json: /mcpServers/s: left out: this is mcpschedd itself"},
		{"too long", `{"command": "` + strings.Repeat("x", 70000) + `"}`, "/f.json:1: left out: /mcpServers/s/command: want at most 64 KiB without NUL and characters for private use"},
		{"a character that stands for a variable", `{"command": "x", "args": ["` + "\U000F0000" + `"]}`, "/f.json:1: left out: /mcpServers/s/args: want at most 64 KiB without NUL and characters for private use"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, notes := entry(t, "/f.json", "mcpServers", tt.in)
			if diff := cmp.Diff([]string{tt.want}, notes); diff != "" || s.Name != "" {
				t.Errorf("got %q, -want +got:\n%s", s.Name, diff)
			}
		})
	}
}

// TestEmptyName: a server with an empty name is shown under the name that it is given.
func TestEmptyName(t *testing.T) {
	r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}})
	if err := r.Read("/f.json", []byte(`{"mcpServers": {"": {"command": "x"}}}`)); err != nil {
		t.Fatal(err)
	}
	if s := r.Servers()[0]; s.Called != s.Name || strings.Contains(string(clients.TOML(r.Servers())), "name in the client") {
		t.Errorf("got %q for %q", s.Called, s.Name)
	}
}

// TestFolderForPrivateUse: a project is left out if its folder's name has such a character.
func TestFolderForPrivateUse(t *testing.T) {
	const in = `{"command": "${workspaceFolder}/x", "args": ["${workspaceFolder}"], "env": {"A": "${workspaceFolder}"}}`
	s, notes := entry(t, "/p\U000F0000/.vscode/mcp.json", "servers", in)
	if len(notes) != 1 || !strings.Contains(notes[0], "its folder has characters for private use") || s.Name != "" {
		t.Errorf("got %q, %q", s.Name, notes)
	}
}

func TestBadFiles(t *testing.T) {
	many := strings.Repeat(`{"a":[`, 300_000)
	tests := []struct{ name, in, want string }{
		{"empty", " \n", "/f.json:1:1: want JSON; the file is empty"},
		{"no JSON", "{\n  a: 1}", "/f.json:2:3: want JSON: want a string, a number, true, false or null"},
		{"single quotes", "{\n  'a': 1}", "/f.json:2:3: want JSON: invalid character '\\'' at start of value"},
		{"cut off", `{"mcpServers": {`, "/f.json:1:17: want JSON; the file ends too early"},
		{"cut off behind a line", "{\n", "/f.json:2:1: want JSON; the file ends too early"},
		{"a secret that is no JSON", "{\"a\":\n  ghp_hunter2}", "/f.json:2:3: want JSON: want a string, a number, true, false or null"},
		{"a secret with a line end in it", "{\"a\": \"hunter2\n\"}", "/f.json:1:7: want JSON: want a string, a number, true, false or null"},
		{"no object", "[1]", "/f.json:1: want an object, have a list"},
		{"servers in a list", `{"mcpServers": [{"name": "x"}]}`, "/f.json:1: /mcpServers: want an object of servers by their names, have a list"},
		{"servers in two places", `{"mcpServers": {"s": {"command": "a"}}, "mcpServers": {"s": {"command": "b"}}}`, `/f.json:1: /mcpServers: want one member "mcpServers" on the way to the servers, have several`},
		{"too deep", many, "/f.json: want at most 524288 objects and lists"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := newReader(clients.Options{}).Read("/f.json", []byte(tt.in))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	err := newReader(clients.Options{}).Read("/f.toml", []byte("model = \"o\"\n[mcp_servers]\ns = { command = \"x\" }\n"))
	if want := `/f.toml: line 3: "mcp_servers" is not written as [mcp_servers.NAME] blocks`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	for _, none := range []string{`{}`, `{"mcpServers": {}}`, `{"mcpServers": null}`} {
		err := newReader(clients.Options{}).Read("/f.json", []byte(none))
		if !errors.Is(err, clients.ErrNoServers) || !strings.Contains(err.Error(), `"context_servers"`) {
			t.Errorf("%s: got %v", none, err)
		}
	}
}

// TestBadTables: a table that a file of Claude Code's refers to, and cannot be read, is left out with a note that
// names it. If the user's own table is bad, none of the file's servers are read, since it could not be edited.
func TestBadTables(t *testing.T) {
	const bad, twice = `"mcpServers": []`, `"mcpServers": {"x": {"command": "x"}}, "mcpServers": {"y": {"command": "y"}}`
	read := func(user, project, checkedIn string) (*clients.Reader, error) {
		r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}, ReadFile: func(path string) ([]byte, error) {
			if path != "/p/.mcp.json" {
				return nil, errors.New("none")
			}
			return []byte(checkedIn), nil
		}})
		return r, r.Read("/home/ann/.claude.json", []byte(`{`+user+`, "projects": {"/p": {`+project+`}, "/q": {"mcpServers": {"b": {"command": "b"}}}}}`))
	}
	const user, list, several = `"mcpServers": {"a": {"command": "a"}}`, "left out: want an object of servers by their names, have a list", `left out: want one member "mcpServers" on the way to the servers, have several`
	for _, tt := range []struct{ project, checkedIn, note string }{
		{bad, `{}`, "/home/ann/.claude.json:1: /projects/~1p/mcpServers: " + list},
		{twice, `{}`, "/home/ann/.claude.json:1: /projects/~1p/mcpServers: " + several},
		{`"enabledMcpjsonServers": ["x"]`, "{\n" + bad + "}", "/p/.mcp.json:2: /mcpServers: " + list},
		{`"enabledMcpjsonServers": ["x", "y"]`, `{` + twice + `}`, "/p/.mcp.json:1: /mcpServers: " + several},
	} {
		r, err := read(user, tt.project, tt.checkedIn)
		if err != nil || len(r.Servers()) != 2 || r.Servers()[0].Name != "a" || r.Servers()[1].Name != "b" {
			t.Errorf("%s, %s: got %v, %v", tt.project, tt.checkedIn, r.Servers(), err)
		}
		if diff := cmp.Diff([]string{tt.note}, r.Notes()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		changes, err := r.Point([]string{"mcpschedd"}, 0)
		if err != nil || len(changes) != 1 || len(changes[0].Moves) != 2 || !strings.Contains(string(changes[0].Text), tt.project) {
			t.Errorf("%s, %s: got %v, %v", tt.project, tt.checkedIn, changes, err)
		}
	}
	for _, user := range []string{bad, twice} {
		if r, err := read(user, user, `{}`); err == nil || !strings.Contains(err.Error(), ":1: /mcpServers: want ") || len(r.Servers()) > 0 {
			t.Errorf("%s: got %v, %v", user, r.Servers(), err)
		}
	}
	err := newReader(clients.Options{}).Read("/home/ann/.claude.json", []byte(`{"projects": {"/p": {`+bad+`}}}`))
	if err == nil || !strings.Contains(err.Error(), ":1: /projects/~1p/mcpServers: want an object") {
		t.Errorf("got %v, want the only table to be named", err)
	}
}

// TestRealFiles: the servers in each client's file make a configuration that loads.
func TestRealFiles(t *testing.T) {
	r := newReader(clients.Options{Machine: clients.Machine{Home: "/home/ann"}, ReadFile: func(path string) ([]byte, error) {
		if text, ok := map[string]string{
			"/p/.mcp.json":                   `{"mcpServers": {"team": {"command": "team"}, "mine": {"command": "mine"}, "no": {"command": "no"}, "evil": {"command": "evil"}}}`,
			"/p/.claude/settings.local.json": `{"enabledMcpjsonServers": ["mine"], "disabledMcpjsonServers": ["no"]}`,
		}[path]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("none")
	}})
	for _, path := range slices.Sorted(maps.Keys(realFiles)) {
		if err := r.Read(path, []byte(realFiles[path])); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Default().Parse("/x/pipeline_config.toml", clients.TOML(r.Servers()))
	if err != nil {
		t.Fatal(err)
	}
	var names, notes []string
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
	}
	for _, n := range r.Notes() {
		_, text, _ := strings.Cut(n, ": ")
		notes = append(notes, text)
	}
	want := []string{
		"github", "sentry", "api", "api-2", "notes", "team", "mine", "other", // of Claude Code: the user's first, then by folder
		"remote", "off", "docs", "filesystem", "postgres", "perplexity", "github-2", "time", "play", "new", "paused", "linear", "db", "shell",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wantNotes := []string{
		"/mcpServers: left out, since they are not approved in Claude Code: evil",
		"/context_servers/extension: left out: it has neither a command nor a url",
	}
	if diff := cmp.Diff(wantNotes, notes); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	by := func(name string) config.Upstream {
		i := slices.IndexFunc(c.Upstreams, func(u config.Upstream) bool { return u.Name == name })
		if i < 0 {
			t.Fatalf("no %s", name)
		}
		return c.Upstreams[i]
	}
	if got := by("api-2"); got.Command != "/p/bin/api" || !slices.Equal(got.Folders, []string{"/p"}) {
		t.Errorf("a project's relative command: got %s for %s", got.Command, got.Folders)
	}
	if by("notes").Enabled || by("paused").Enabled || by("off").Enabled {
		t.Error("the servers disabled in the client and in the configuration differ")
	}
}

func TestNames(t *testing.T) {
	r := newReader(clients.Options{})
	err := r.Read("/f.json", []byte(`{"mcpServers": {"a b": {"command": "1"}, "a__b": {"command": "2"}, "a-b": {"command": "3"}, "_": {"command": "4"},
		"plan": {"command": "5"}, "é/x": {"command": "6"}, "ok": {"command": "7"}, "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": {"command": "8"}, "ok": {"command": "9"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Read("/g.json", []byte(`{"mcpServers": {"ok": {"command": "9"}, "a b": {"command": "1", "env": {"A": "b"}}, "plan": {"command": "5", "disabled": true}}}`)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Servers() {
		got = append(got, s.Block.Command+" "+s.Name+" "+s.Called)
	}
	want := []string{
		"1 a-b a b", "2 a_b a__b", "3 a-b-2 a-b", "4 server _", "5 plan-server plan", "6 x é/x", "9 ok ok", "8 server-2 …",
		"9 ok ok", "1 a-b-3 a b", "5 plan-server-2 plan", // merged only if they are equal in everything
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestPlaces(t *testing.T) {
	for os, want := range map[string]string{"linux": "/h/.config/Claude/", "darwin": "/h/Library/Application Support/Claude/", "windows": "/h/AppData/Roaming/Claude/"} {
		m := clients.Machine{OS: os, Home: "/h", Env: func(string) string { return "" }}
		if got := clients.ByName("claude-desktop")[0].Places(m); len(got) != 1 || got[0] != want+"claude_desktop_config.json" {
			t.Errorf("%s: got %q", os, got)
		}
	}
	moved := clients.Machine{OS: "linux", Home: "/h", Env: func(name string) string {
		return map[string]string{"CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "relative"}[name]
	}}
	if got := clients.ByName("claude")[0].Places(moved)[0]; got != "/c/.claude.json" {
		t.Errorf("got %s", got)
	}
	if got := clients.ByName("codex")[0].Places(moved)[0]; got != "/h/.codex/config.toml" {
		t.Errorf("got %s", got)
	}
}

// TestSwitchedOff: a server that is disabled in its client, by any setting, is imported disabled,
// with a note.
func TestSwitchedOff(t *testing.T) {
	const gemini, qwen, claude, checkedIn, local = "/home/ann/.gemini/settings.json", "/home/ann/.qwen/settings.json", "/home/ann/.claude.json", "/p/.mcp.json", "/p/.claude/settings.local.json"
	for _, tt := range []struct {
		name, read string
		files      map[string]string
		off        []string
	}{
		{"an entry of its own", "/f.json", map[string]string{"/f.json": `{"mcpServers": {"a": {"command": "a", "disabled": true}, "b": {"command": "b", "enabled": false}, "c": {"command": "c", "enabled": true}}}`}, []string{"a", "b"}},
		{"Gemini's excluded servers", gemini, map[string]string{gemini: `{"mcp": {"excluded": ["A"]}, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}`}, []string{"a"}},
		{"Gemini's allowed servers", gemini, map[string]string{gemini: `{"mcp": {"allowed": ["b", "mcpschedd"]}, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}`}, []string{"a"}},
		{"Qwen Code's excluded servers", qwen, map[string]string{qwen: `{"mcp": {"excluded": ["a"]}, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}`}, []string{"a"}},
		{"gemini mcp disable", gemini, map[string]string{
			gemini: `{"mcpServers": {"A": {"command": "a"}, "b": {"command": "b"}}}`,
			"/home/ann/.gemini/mcp-server-enablement.json": `{"a": {"enabled": false}, "b": {"enabled": true}}`,
		}, []string{"A"}},
		{"in a folder of Claude Code", claude, map[string]string{
			claude:    `{"projects": {"/p": {"mcpServers": {"a": {"command": "a"}}, "enabledMcpjsonServers": ["b", "c"], "disabledMcpServers": ["a", "b"]}}}`,
			checkedIn: `{"mcpServers": {"b": {"command": "b"}, "c": {"command": "c"}}}`,
		}, []string{"a", "b"}},
		{"in all folders of Claude Code", claude, map[string]string{
			claude: `{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}, "projects": {"/p": {"disabledMcpServers": ["a", "b"]}, "/q": {"disabledMcpServers": ["a"]}}}`,
		}, []string{"a"}},
		{"a file of a project", checkedIn, map[string]string{
			checkedIn: `{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}, "c": {"command": "c"}, "d": {"command": "d"}}}`,
			claude:    `{"projects": {"/p": {"disabledMcpServers": ["a"], "disabledMcpjsonServers": ["b"]}}}`,
			local:     `{"disabledMcpjsonServers": ["c"]}`,
		}, []string{"a", "b", "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newReader(clients.Options{Machine: clients.Machine{OS: "linux", Home: "/home/ann"}, ReadFile: func(path string) ([]byte, error) {
				if text, ok := tt.files[path]; ok {
					return []byte(text), nil
				}
				return nil, errors.New("none")
			}})
			if err := r.Read(tt.read, []byte(tt.files[tt.read])); err != nil {
				t.Fatal(err)
			}
			var off []string
			for _, s := range r.Servers() {
				notes := strings.Join(s.Notes, "\n")
				if s.Block.Disabled {
					off = append(off, s.Name)
				}
				if s.Block.Disabled != strings.Contains(notes, "it is switched off in ") || s.Block.Disabled != strings.Contains(notes, "and so here") {
					if s.Name != "b" || !strings.Contains(notes, "in /p, but mcpschedd offers it there too") {
						t.Errorf("%s: disabled %v, with the notes %q", s.Name, s.Block.Disabled, notes)
					}
				}
			}
			if diff := cmp.Diff(tt.off, off); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUsersFiles: a user's file belongs to no project, wherever it is and however the home folder is
// written.
func TestUsersFiles(t *testing.T) {
	m := clients.Machine{OS: "linux", Home: "/home/ann/", Env: func(name string) string { return map[string]string{"CODEX_HOME": "/srv/.codex"}[name] }}
	for path, text := range map[string]string{
		"/home/ann/.cursor/mcp.json": `{"mcpServers": {"s": {"command": "x"}}}`,
		"/srv/.codex/config.toml":    "[mcp_servers.s]\ncommand = \"x\"\n",
	} {
		r := newReader(clients.Options{Machine: m})
		if err := r.Read(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := r.Servers()[0].Block.Folders; got != nil {
			t.Errorf("%s: got a server for %q", path, got)
		}
	}
}
