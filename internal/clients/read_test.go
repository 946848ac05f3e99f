package clients_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/clients"
	"mcpschedd/internal/config"
	"mcpschedd/internal/valuemodel"
)

// entry is what comes of the one server "s" of a file of no project.
func entry(t *testing.T, text string) (clients.Server, []string) {
	t.Helper()
	r := clients.NewReader(clients.Options{})
	if err := r.Read("/f.json", []byte(`{"mcpServers": {"s": `+text+`}}`)); err != nil {
		t.Fatal(err)
	}
	got := r.Import()
	var notes []string
	for _, n := range got.Notes {
		notes = append(notes, n.String())
	}
	if len(got.Servers) == 0 {
		return clients.Server{}, notes
	}
	return got.Servers[0], notes
}

func TestTOML(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"a command", `{"command": "x", "args": ["a", "b c"], "cwd": "/srv"}`, "command = \"x\"\nargs = [\"a\", \"b c\"]\ncwd = \"/srv\"\n"},
		{"a url", `{"type": "http", "url": "http://localhost:1/mcp"}`, "url = \"http://localhost:1/mcp\"\n"},
		{"over SSE", `{"type": "sse", "url": "http://localhost:1/sse"}`, "url = \"http://localhost:1/sse\"\ntransport = \"sse\"\n"},
		{"switched off", `{"command": "x", "disabled": true}`, "command = \"x\"\nenabled = false\n"},
		{"some tools", `{"command": "x", "includeTools": ["a"], "excludeTools": ["b*"]}`, "command = \"x\"\ntools.allow = [\"a\"]\ntools.deny = [\"b\\\\*\"]\n"},
		{"numbers and truth values in the environment", `{"command": "x", "env": {"PORT": 80, "DEBUG": true}}`, "command = \"x\"\nenv.PORT = \"80\"\nenv.DEBUG = \"true\"\n"},
		{"a name that needs quotes", `{"command": "x", "env": {"a.b": "c"}}`, "command = \"x\"\nenv.\"a.b\" = \"c\"\n"},

		{"a variable", `{"command": "x", "env": {"A": "${B}"}}`, "command = \"x\"\nenv.A = \"${B}\"\n"},
		{"as Cursor has it", `{"command": "x", "env": {"A": "${env:B}-${userHome}"}}`, "command = \"x\"\nenv.A = \"${B}-${HOME}\"\n"},
		{"a default", `{"command": "x", "args": ["${A:-b}"]}`, "command = \"x\"\nargs = [\"${A:-b}\"]\n"},
		{"a default that is a secret", `{"command": "x", "args": ["${TOKEN:-hunter2}"]}`, "command = \"x\"\nargs = [\"${TOKEN}\"] # set this variable\n"},
		{"one that is asked for", `{"command": "x", "env": {"A": "${input:my-key}"}}`, "command = \"x\"\nenv.A = \"${MY_KEY}\" # set this variable\n"},
		{"one that is a file", `{"command": "x", "env": {"A": "${file:/k}"}}`, "command = \"x\"\nenv.A = \"${A}\" # set this variable\n"},
		{"none", `{"command": "x", "args": ["${", "${a b}", "$A", "$${A}"]}`, "command = \"x\"\nargs = [\"$${\", \"$${a b}\", \"$A\", \"${DOLLAR:-$}${A}\"]\n"},
		{"two dollars before one", `{"command": "x", "args": ["$$${A}"]}`, "command = \"x\"\nargs = [\"${DOLLAR:-$}${DOLLAR:-$}${A}\"]\n"},
		{"the home folder", `{"command": "~/bin/x", "cwd": "~"}`, "command = \"${HOME}/bin/x\"\ncwd = \"${HOME}\"\n"},
		{"the project's folder", `{"command": "x", "cwd": "${workspaceFolder}", "envFile": "${workspaceFolder}/.env"}`, "command = \"x\"\nenv_file = \"${WORKSPACE_FOLDER}/.env\" # set this variable\n"},

		{"a secret by its name", `{"command": "x", "env": {"DB_PASSWORD": "hunter"}}`, "command = \"x\"\nenv.DB_PASSWORD = \"${DB_PASSWORD}\" # set this variable\n"},
		{"a secret by its shape", `{"command": "x", "env": {"A": "AKIAQ2Q2Q2Q2Q2Q2Q2Q2"}}`, "command = \"x\"\nenv.A = \"${A}\" # set this variable\n"},
		{"a secret by chance", `{"command": "x", "env": {"A": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}}`, "command = \"x\"\nenv.A = \"${A}\" # set this variable\n"},
		{"an identifier is none", `{"command": "x", "env": {"TEAM_ID": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"}}`, "command = \"x\"\nenv.TEAM_ID = \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"\n"},
		{"nor are a switch, a count and a file", `{"command": "x", "env": {"USE_AUTH": "true", "MAX_TOKENS": 4096, "GOOGLE_APPLICATION_CREDENTIALS": "/k/key.json"}}`, "command = \"x\"\nenv.USE_AUTH = \"true\"\nenv.MAX_TOKENS = \"4096\"\nenv.GOOGLE_APPLICATION_CREDENTIALS = \"/k/key.json\"\n"},
		{"a short number may be a password", `{"command": "x", "env": {"PIN": 1234}}`, "command = \"x\"\nenv.PIN = \"${PIN}\" # set this variable\n"},
		{"a header", `{"url": "http://localhost/", "headers": {"Authorization": "Bearer abc", "X-Api-Key": "k", "X-Team": "blue"}}`, "url = \"http://localhost/\"\nheaders.Authorization = \"Bearer ${S_TOKEN}\" # set this variable\nheaders.X-Api-Key = \"${S_X_API_KEY}\" # set this variable\nheaders.X-Team = \"blue\"\n"},
		{"a header with a variable", `{"url": "http://localhost/", "headers": {"Authorization": "Bearer ${A}"}}`, "url = \"http://localhost/\"\nheaders.Authorization = \"Bearer ${A}\"\n"},
		{"a header with a variable and more", `{"url": "http://localhost/", "headers": {"Authorization": "Bearer ${A}hunter"}}`, "url = \"http://localhost/\"\nheaders.Authorization = \"Bearer ${S_TOKEN}\" # set this variable\n"},
		{"an option", `{"command": "x", "args": ["--api-key", "k", "--verbose"]}`, "command = \"x\"\nargs = [\"--api-key\", \"${S_API_KEY}\", \"--verbose\"] # set this variable\n"},
		{"an option that takes nothing", `{"command": "x", "args": ["--no-auth", "--port", "80"]}`, "command = \"x\"\nargs = [\"--no-auth\", \"--port\", \"80\"]\n"},
		{"an assignment", `{"command": "x", "args": ["--token=t", "-e", "KEY=u"]}`, "command = \"x\"\nargs = [\"--token=${S_TOKEN}\", \"-e\", \"KEY=${KEY}\"] # set these variables: S_TOKEN, KEY\n"},
		{"a secret behind a variable", `{"command": "x", "args": ["-c", "x --password ${A}hunter"]}`, "command = \"x\"\nargs = [\"-c\", \"${S_SECRET}\"] # set this variable\n"},
		{"a short one", `{"command": "x", "args": ["-c", "x token=${A}hunter"]}`, "command = \"x\"\nargs = [\"-c\", \"${S_SECRET}\"] # set this variable\n"},
		{"nothing behind one", `{"command": "x", "args": ["-c", "x --token ${A} --password ${B} key=${C}"]}`, "command = \"x\"\nargs = [\"-c\", \"x --token ${A} --password ${B} key=${C}\"]\n"},
		{"two words", `{"command": "x", "args": ["-c", "x password=\"hunter two\" y"]}`, "command = \"x\"\nargs = [\"-c\", \"x password=\\\"${S_PASSWORD}\\\" y\"] # set this variable\n"},
		{"a secret in a path", `{"command": "x", "env": {"KEY": "/k/AKIAQ2Q2Q2Q2Q2Q2Q2Q2.json"}}`, "command = \"x\"\nenv.KEY = \"${KEY}\" # set this variable\n"},
		{"a header among the arguments", `{"command": "x", "args": ["--header", "Authorization:Bearer abc"]}`, "command = \"x\"\nargs = [\"--header\", \"Authorization:Bearer ${S_AUTHORIZATION}\"] # set this variable\n"},
		{"a password in a url", `{"command": "x", "args": ["postgres://bob:p@ss@db/x"]}`, "command = \"x\"\nargs = [\"postgres://bob:${S_SECRET}@db/x\"] # set this variable\n"},
		{"a key in a url", `{"url": "http://localhost/s/abcdefghij0123456789abc/mcp?apiKey=k&v=2"}`, "url = \"http://localhost/s/${S_URL_SECRET}/mcp?apiKey=${S_APIKEY}&v=2\" # set these variables: S_URL_SECRET, S_APIKEY\n"},
		{"packages, hashes and models are no secrets", `{"command": "npx", "args": ["-y", "@modelcontextprotocol/server-x@2025.1.1", "claude-3-5-sonnet-20241022", "/nix/store/abcdefghij0123456789abcdefghij01-x/bin"]}`, "command = \"npx\"\nargs = [\"-y\", \"@modelcontextprotocol/server-x@2025.1.1\", \"claude-3-5-sonnet-20241022\", \"/nix/store/abcdefghij0123456789abcdefghij01-x/bin\"]\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, notes := entry(t, tt.in)
			s.Notes = nil
			if diff := cmp.Diff("[upstreams.s]\n"+tt.want, string(clients.TOML([]clients.Server{s}))); diff != "" || len(notes) > 0 {
				t.Errorf("-want +got:\n%s%q", diff, notes)
			}
		})
	}
}

func TestLeftOut(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"no object", `1`, "/f.json:1: /mcpServers/s: left out: want an object, have a number"},
		{"no list", `{"command": "x",` + "\n" + `"args": "y"}`, "/f.json:1: left out: /mcpServers/s/args: want a list of strings, have a string"},
		{"no string in it", `{"command": "x", "args": ["a", {}]}`, "/f.json:1: left out: /mcpServers/s/args/1: want a string, have an object"},
		{"no string", `{"command": "x", "env": {"A/B": []}}`, "/f.json:1: left out: /mcpServers/s/env/A~1B: want a string, have a list"},
		{"nothing to reach", `{"args": []}`, "/f.json: /mcpServers/s: left out: it has neither a command nor a url"},
		{"another way to speak", `{"type": "ws", "url": "ws://h"}`, "/f.json: /mcpServers/s: left out: its type is none that mcpschedd speaks: want stdio, http or sse"},
		{"another scheme", `{"url": "unix:///s"}`, "/f.json: /mcpServers/s: left out: its url is none that mcpschedd speaks: want http or https"},
		{"itself", `{"command": "/usr/bin/mcpschedd", "args": ["serve"]}`, "/f.json: /mcpServers/s: left out: this is mcpschedd itself"},
		{"itself by others", `{"command": "cmd", "args": ["/c", "C:\\bin\\mcpschedd.exe"]}`, "/f.json: /mcpServers/s: left out: this is mcpschedd itself"},
		{"too long", `{"command": "` + strings.Repeat("x", 20000) + `"}`, "/f.json:1: left out: /mcpServers/s/command: want at most 16 KiB without NUL characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, notes := entry(t, tt.in)
			if diff := cmp.Diff([]string{tt.want}, notes); diff != "" || s.Name != "" {
				t.Errorf("got %q, -want +got:\n%s", s.Name, diff)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 600)
	tests := []struct{ name, in, want string }{
		{"empty", " \n", "/f.json:1:1: want JSON; the file is empty"},
		{"no JSON", "{\n  a: 1}", "/f.json:2:3: want JSON: want a string, a number, true, false or null"},
		{"single quotes", "{\n  'a': 1}", "/f.json:2:3: want JSON: invalid character '\\'' at start of value"},
		{"cut off", `{"mcpServers": {`, "/f.json:2:1: want JSON: parsing value: unexpected EOF"},
		{"a secret that is no JSON", "{\"a\":\n  ghp_hunter2}", "/f.json:2:3: want JSON: want a string, a number, true, false or null"},
		{"a secret with a line end in it", "{\"a\": \"hunter2\n\"}", "/f.json:1:7: want JSON: want a string, a number, true, false or null"},
		{"no object", "[1]", "/f.json:1: want an object, have a list"},
		{"servers in a list", `{"mcpServers": [{"name": "x"}]}`, "/f.json:1: /mcpServers: want an object of servers by their names, have a list"},
		{"too deep", deep, "/f.json:1: want objects and lists at most 1000 deep"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := clients.NewReader(clients.Options{}).Read("/f.json", []byte(tt.in))
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
	for _, none := range []string{`{}`, `{"mcpServers": {}}`, `{"projects": {"/q": {"mcpServers": {"x": {}}}}}`, `{"mcpServers": null}`} {
		err := clients.NewReader(clients.Options{Dir: "/p"}).Read("/f.json", []byte(none))
		if _, ok := errors.AsType[*clients.NoServers](err); !ok || !strings.Contains(err.Error(), `"context_servers"`) {
			t.Errorf("%s: got %v", none, err)
		}
	}
}

// TestRealFiles: what each client writes is a configuration that loads.
func TestRealFiles(t *testing.T) {
	r := clients.NewReader(clients.Options{Dir: "/p", Home: "/home/ann"})
	for _, path := range slices.Sorted(maps.Keys(realFiles)) {
		if err := r.Read(path, []byte(realFiles[path])); err != nil {
			t.Fatal(err)
		}
	}
	got := r.Import()
	c, err := config.Parse("/x/pipeline_config.toml", clients.TOML(got.Servers))
	if err != nil {
		t.Fatal(err)
	}
	var names, notes []string
	for _, u := range c.Upstreams {
		names = append(names, u.Name)
	}
	for _, n := range got.Notes {
		notes = append(notes, n.Pointer+": "+n.Text)
	}
	want := []string{
		"api", "notes", "github", "sentry", // the project's own stand before the user's
		"remote", "off", "filesystem", "postgres", "perplexity", "github-2", "time", "new", "old", "paused", "linear", "db",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wantNotes := []string{
		"/projects: 1 server of 1 other project left out: they are for those folders alone; import them from there",
		"/context_servers/extension: left out: it has neither a command nor a url",
		"/mcpServers/api: left out: here /projects/~1p/mcpServers/api stands before it",
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
	if got := by("api").Command; got != "/p/bin/api" {
		t.Errorf("a project's relative command: got %s", got)
	}
	if by("notes").Enabled || by("paused").Enabled || by("off").Enabled || !by("old").Enabled {
		t.Error("what is switched off there is not here, or the other way round")
	}
	if got := by("old").Env["SECRET"]; got != "${SECRET}" {
		t.Errorf("an older Zed's environment: got %s", got)
	}
}

// TestOneVariableOneSecret: two secrets never share a variable, nor does a secret take
// one that means something already.
func TestOneVariableOneSecret(t *testing.T) {
	r := clients.NewReader(clients.Options{Taken: []string{"OTHER_TOKEN"}})
	err := r.Read("/f.json", []byte(`{"mcpServers": {
		"a": {"command": "x", "env": {"API_KEY": "1st", "TOKEN": "t", "OTHER_TOKEN": "o", "PATH": "/bin?token=hunter2"}},
		"b": {"command": "x", "args": ["b"], "env": {"API_KEY": "2nd", "TOKEN": "t"}},
		"b!": {"command": "x", "args": ["c"], "env": {"API_KEY": "3rd", "REF": "${B_TOKEN}"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Import().Servers {
		for _, p := range s.Env {
			got = append(got, s.Name+" "+p.Name+"="+p.Value)
		}
	}
	want := []string{
		"a API_KEY=${API_KEY}", "a TOKEN=${TOKEN}", "a OTHER_TOKEN=${A_OTHER_TOKEN}", "a PATH=/bin?token=${A_TOKEN}",
		"b API_KEY=${B_API_KEY}", "b TOKEN=${TOKEN}",
		"b-2 API_KEY=${B_API_KEY_2}", "b-2 REF=${B_TOKEN}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	r := clients.NewReader(clients.Options{})
	err := r.Read("/f.json", []byte(`{"mcpServers": {"a b": {"command": "1"}, "a__b": {"command": "2"}, "a-b": {"command": "3"}, "_": {"command": "4"},
		"plan": {"command": "5"}, "é/x": {"command": "6"}, "ok": {"command": "7"}, "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": {"command": "8"}, "ok": {"command": "9"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Import().Servers {
		got = append(got, s.Command+" "+s.Name+" "+s.Was)
	}
	want := []string{"1 a-b a b", "2 a_b a__b", "3 a-b-2 a-b", "4 server _", "5 plan-server plan", "6 x é/x", "9 ok ", "8 server-2 …"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTellsSecret(t *testing.T) {
	for _, name := range []string{"TOKEN", "apiKey", "APIKEY", "API_KEY_2", "GitHubPAT", "x-auth", "OAuth", "DB_PASSWORD", "SetCookie", "CONNECTIONSTRING", "jwt", "--client-secret"} {
		if !clients.TellsSecret(name) {
			t.Errorf("%s: got no secret", name)
		}
	}
	for _, name := range []string{"", "PATH", "PORT", "KEYBOARD", "TOKEN_URL", "SECRET_NAME", "keyFile", "client_id", "author", "passage", "HOST", "DEBUG"} {
		if clients.TellsSecret(name) {
			t.Errorf("%s: got a secret", name)
		}
	}
}

func TestProgram(t *testing.T) {
	tests := []struct {
		want string
		line []string
	}{
		{"x", []string{"/opt/x"}},
		{"x", []string{`C:\bin\x.EXE`}},
		{"@playwright/mcp", []string{"npx", "-y", "@playwright/mcp@latest", "--headless"}},
		{"chrome-devtools-mcp", []string{"cmd", "/c", "npx", "-y", "chrome-devtools-mcp@1"}},
		{"mcp-server-git", []string{"uvx", "mcp-server-git", "--repository", "/x"}},
		{"mcp-server-git", []string{"uvx", "--from", "mcp-server-git==1.2", "run-it"}},
		{"mcp-server-fetch", []string{"python3", "-m", "mcp_server_fetch"}},
		{"serve.py", []string{"uv", "--directory", "/x", "run", "serve.py"}},
		{"@a/b", []string{"node", "/usr/lib/node_modules/@a/b/dist/index.js"}},
		{"ghcr.io/github/github-mcp-server", []string{"docker", "run", "-i", "--rm", "-e", "T", "--env=A=b", "ghcr.io/github/github-mcp-server:v1", "stdio"}},
		{"x", []string{"sh", "-c", "exec A=1 x --y"}},
		{"x", []string{"env", "-i", "A=1", "/bin/x"}},
		{"mcpschedd", []string{"go", "run", "./cmd/mcpschedd"}},
		{"x", []string{"npx", "--package=x@2", "y"}},
		{"npx", []string{"npx"}},
		{"", []string{"env"}},
		{"", []string{"env", "env", "env", "env", "env", "x"}},
	}
	for _, tt := range tests {
		if got := clients.Program(tt.line...); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.line, got, tt.want)
		}
	}
}

func TestProvidersExist(t *testing.T) {
	for _, name := range clients.KnownProviders() {
		if _, ok := valuemodel.ProviderNamed(name); !ok {
			t.Errorf("%s is no provider", name)
		}
	}
	for text, want := range map[string]string{
		`{"command": "docker", "args": ["run", "ghcr.io/github/github-mcp-server"]}`: "github",
		`{"url": "https://api.githubcopilot.com/mcp/"}`:                              "github",
		`{"command": "npx", "args": ["@evil/github-mcp-server"]}`:                    "",
	} {
		if got, _ := entry(t, text); got.Provider != want {
			t.Errorf("%s: got %q, want %q", text, got.Provider, want)
		}
	}
}

func TestPlaces(t *testing.T) {
	none := func(string) string { return "" }
	set := func(name string) string {
		return map[string]string{"CLAUDE_CONFIG_DIR": "/c", "XDG_CONFIG_HOME": "/xdg", "APPDATA": "relative"}[name]
	}
	tests := []struct {
		client, os string
		env        func(string) string
		want       []string
	}{
		{"claude", "linux", none, []string{"/h/.claude.json", "/h/.config/Claude/claude_desktop_config.json"}},
		{"claude", "linux", set, []string{"/c/.claude.json", "/xdg/Claude/claude_desktop_config.json"}},
		{"claude", "darwin", set, []string{"/c/.claude.json", "/h/Library/Application Support/Claude/claude_desktop_config.json"}},
		{"claude", "windows", set, []string{"/c/.claude.json", "/h/AppData/Roaming/Claude/claude_desktop_config.json"}},
		{"cursor", "linux", none, []string{"/h/.cursor/mcp.json"}},
	}
	for _, tt := range tests {
		got := clients.Places(tt.client, tt.os, "/h", tt.env)
		for i := range got {
			got[i] = filepath.ToSlash(got[i])
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s on %s: -want +got:\n%s", tt.client, tt.os, diff)
		}
	}
	for _, name := range clients.Names {
		if len(clients.Places(name, "linux", "/h", none)) == 0 {
			t.Errorf("%s has no places", name)
		}
	}
}

func TestMissing(t *testing.T) {
	servers := []clients.Server{
		{Name: "new", Command: "n"}, {Name: "there", Command: "t", Args: []string{"${A}"}}, {Name: "renamed", URL: "https://h/${K}"}, {Name: "other", Command: "o"},
	}
	have := []clients.Existing{
		{Name: "there", Command: "t", Args: []string{"${B:-c}"}}, {Name: "mine", URL: "https://h/${X}"}, {Name: "other", Command: "o", Args: []string{"1"}},
	}
	missing, there, notes := clients.Missing(servers, have)
	want := []string{
		"upstreams.there is there already", "renamed is there already, as upstreams.mine",
		"upstreams.other is there already, with another command or url: it was kept, and this one left out",
	}
	if diff := cmp.Diff(want, notes); diff != "" || len(missing) != 1 || missing[0].Name != "new" || len(there) != 2 {
		t.Errorf("got %v and %v, -want +got:\n%s", missing, there, diff)
	}
}

func TestNext(t *testing.T) {
	servers := []clients.Server{
		{Name: "a-b", Was: "a b", File: "/h/.claude.json", Pointer: "/mcpServers/a b", Scope: "user"},
		{Name: "c", File: "/h/.claude.json", Pointer: "/projects/~1p/mcpServers/c", Scope: "local"},
		{Name: "d", File: "/h/.cursor/mcp.json", Pointer: "/mcpServers/d"},
		{Name: "e", File: "/h/Code/User/mcp.json", Pointer: "/servers/e"},
	}
	want := []string{
		"claude mcp add --scope user mcpschedd -- mcpschedd serve",
		"claude mcp remove --scope user 'a b'",
		"claude mcp remove --scope local c",
		`add to /mcpServers of /h/.cursor/mcp.json: "mcpschedd": {"command":"mcpschedd","args":["serve"]}`,
		"take out of /mcpServers of /h/.cursor/mcp.json: d",
		`code --add-mcp '{"name":"mcpschedd","command":"mcpschedd","args":["serve"]}'`,
		"take out of /servers of /h/Code/User/mcp.json: e",
	}
	if diff := cmp.Diff(want, clients.Next(servers, []string{"serve"}, nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := clients.Next(servers[1:2], []string{"serve"}, nil); got[0] != "claude mcp add --scope local mcpschedd -- mcpschedd serve" {
		t.Errorf("for one folder alone: got %q", got)
	}
	if got := clients.Next(servers[:1], nil, []string{"/h/.claude.json"}); len(got) != 1 {
		t.Errorf("with mcpschedd there already: got %q", got)
	}
}
