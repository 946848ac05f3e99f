package valuemodel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mcpschedd/internal/valuemodel"
)

func TestRecognise(t *testing.T) {
	tests := []struct{ line, want string }{ // NAME=value at the beginning is an environment variable
		{"npx -y @modelcontextprotocol/server-filesystem /srv", "filesystem npm:@modelcontextprotocol/server-filesystem"},
		{"npx @modelcontextprotocol/server-filesystem@2026.8.31 /srv", "filesystem npm:@modelcontextprotocol/server-filesystem"},
		{"npx -y @modelcontextprotocol/server-filesystem@^1 /srv", "filesystem npm:@modelcontextprotocol/server-filesystem"},
		{"/usr/local/bin/npx --registry https://r.example @modelcontextprotocol/server-memory", "memory npm:@modelcontextprotocol/server-memory"},
		{`cmd /c npx.cmd -y @modelcontextprotocol/server-memory`, "memory npm:@modelcontextprotocol/server-memory"},
		{`cmd.exe /d /c npx -y @modelcontextprotocol/server-memory`, ""},
		{"env A=b npx -y tavily-mcp@latest", "tavily npm:tavily-mcp"},
		{"npx --package=@playwright/mcp mcp-server-playwright", "playwright npm:@playwright/mcp"},
		{"npx -p @playwright/mcp -p other x", ""},
		{"npm exec --yes -- @upstash/context7-mcp", "context7 npm:@upstash/context7-mcp"},
		{"pnpm dlx @upstash/context7-mcp", "context7 npm:@upstash/context7-mcp"},
		{"pnpm install @upstash/context7-mcp", ""},
		{"yarn dlx @upstash/context7-mcp", "context7 npm:@upstash/context7-mcp"},
		{"bunx --bun @upstash/context7-mcp", "context7 npm:@upstash/context7-mcp"},
		{"bun x @upstash/context7-mcp", "context7 npm:@upstash/context7-mcp"},

		{"npx -y @other/server-filesystem /srv", ""},
		{"npx -y server-filesystem /srv", ""},
		{"npx -y @modelcontextprotocol/server-filesystem-evil /srv", ""},
		{"npx -y @modelcontextprotocol/server-filesystem@npm:evil", ""},
		{"npx -y @modelcontextprotocol/server-filesystem@github:evil/x", ""},
		{"npx -y ./@modelcontextprotocol/server-filesystem", ""},
		{"npx --unheard-of x @modelcontextprotocol/server-filesystem", ""},
		{"npx -c @modelcontextprotocol/server-filesystem", ""},
		{"npx", ""},
		{"npx -p", ""},

		{"uvx mcp-server-git --repository /srv", "git pypi:mcp-server-git"},
		{"uvx --python 3.12 mcp_server.git@1.0", "git pypi:mcp-server-git"},
		{"uvx --from mcp-server-git==2026.1 mcp-server-git", "git pypi:mcp-server-git"},
		{"uvx --from git+https://hub.example/x mcp-server-git", ""},
		{"uvx --from ./mcp-server-git mcp-server-git", ""},
		{"uvx --with-editable . mcp-server-git", ""},
		{"uv tool run mcp-server-git", "git pypi:mcp-server-git"},
		{"uv --directory /srv run mcp-server-git", "git program:mcp-server-git (bare)"},
		{"pipx run mcp-server-fetch", "fetch pypi:mcp-server-fetch"},
		{"pipx run --spec mcp-server-fetch==1 mcp-server-fetch", "fetch pypi:mcp-server-fetch"},
		{"python -m mcp_server_git", "git program:mcp-server-git (bare)"},

		{"docker run -i --rm -v /srv:/srv mcp/filesystem /srv", "filesystem docker:mcp/filesystem"},
		{"docker run -it --mount type=bind,src=/a,dst=/b docker.io/mcp/filesystem:1.0@sha256:" + strings.Repeat("a", 64), "filesystem docker:mcp/filesystem"},
		{"docker container run -i -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server stdio", "github docker:ghcr.io/github/github-mcp-server"},
		{"podman run -i ghcr.io/github/github-mcp-server:v1.9.0", "github docker:ghcr.io/github/github-mcp-server"},
		{"docker run -i evil.example/mcp/filesystem", ""},
		{"docker run -i filesystem", ""},
		{"docker run --entrypoint sh mcp/filesystem", ""},
		{"docker exec box mcp/filesystem", ""},

		{"go run github.com/github/github-mcp-server/cmd/github-mcp-server@latest stdio", "github go:github.com/github/github-mcp-server/cmd/github-mcp-server"},
		{"go run github.com/github/github-mcp-server/cmd/github-mcp-server stdio", ""}, // of the module in the working directory
		{"go run ./cmd/github-mcp-server", ""},
		{"go run -C /srv github.com/github/github-mcp-server/cmd/github-mcp-server@latest", ""},

		{"node /srv/node_modules/@modelcontextprotocol/server-memory/dist/index.js", "memory npm:@modelcontextprotocol/server-memory"},
		{`node --no-warnings C:\a\node_modules\@modelcontextprotocol\server-memory\dist\index.js`, "memory npm:@modelcontextprotocol/server-memory"},
		{"node /srv/node_modules/@modelcontextprotocol/server-memory/node_modules/evil/index.js", ""},
		{"node /srv/node_modules/@modelcontextprotocol/server-memory/../../../evil.js", ""},
		{"node -r /evil.js /srv/node_modules/@modelcontextprotocol/server-memory/dist/index.js", ""},
		{"node /srv/server-memory/dist/index.js", ""},
		{"/srv/node_modules/.bin/mcp-server-memory", "memory bin:mcp-server-memory"},
		{"github-mcp-server stdio", "github program:github-mcp-server (bare)"},
		{"/opt/bin/github-mcp-server.exe stdio", "github program:github-mcp-server (bare)"},

		{"npx -y @supabase/mcp-server-supabase@latest --read-only --project-ref=abc", "supabase npm:@supabase/mcp-server-supabase"},
		{"npx -y @benborla29/mcp-server-mysql", "mysql npm:@benborla29/mcp-server-mysql"},
		{"npx -y @stripe/mcp --api-key=k", "stripe npm:@stripe/mcp"},
		{"npx -y kubernetes-mcp-server@latest", "kubernetes npm:kubernetes-mcp-server"},
		{"npx -y slack-mcp-server@latest --transport stdio", "slack npm:slack-mcp-server"},
		{"uvx --from redis-mcp-server@latest redis-mcp-server --url redis://localhost:6379/0", "redis pypi:redis-mcp-server"},
		{"uvx awslabs.aws-documentation-mcp-server@latest", "aws-documentation pypi:awslabs-aws-documentation-mcp-server"},
		{"docker run -i --rm -e DATABASE_URI crystaldba/postgres-mcp --access-mode=restricted", "postgres docker:crystaldba/postgres-mcp"},
		{"npx -y mcp-remote https://mcp.linear.app/sse", "linear host:mcp.linear.app"},

		{"https://mcp.notion.com/mcp", "notion host:mcp.notion.com"},
		{"https://mcp.linear.app/mcp", "linear host:mcp.linear.app"},
		{"https://mcp.stripe.com", "stripe host:mcp.stripe.com"},
		{"https://api.githubcopilot.com/mcp/", "github host:api.githubcopilot.com"},
		{"https://API.githubcopilot.com:443/mcp/", "github host:api.githubcopilot.com"},
		{"https://api.githubcopilot.com.evil.example/mcp/", ""},
		{"https://evil.example/api.githubcopilot.com", ""},
		{"http://api.githubcopilot.com/mcp/", ""},
		{"https://api.githubcopilot.com:8443/mcp/", ""},
		{"npx -y mcp-remote https://mcp.atlassian.com/v1/sse", "atlassian host:mcp.atlassian.com"},
		{"npx -y mcp-remote", ""},

		{"npx @toolbox-sdk/server --prebuilt postgres --stdio", "postgres-toolbox npm:@toolbox-sdk/server"},
		{"npx @toolbox-sdk/server --prebuilt=mysql --stdio", ""},
		{"npx @toolbox-sdk/server --prebuilt=postgres --prebuilt=mysql", ""},
		{"npx @toolbox-sdk/server --tools-file mine.yaml", ""},
		{"", ""},
	}
	for _, tt := range tests {
		words := strings.Fields(tt.line)
		s := valuemodel.Settings{}
		if strings.HasPrefix(tt.line, "http") {
			s.URL = tt.line
		} else if len(words) > 0 {
			s.Command, s.Args = words[0], words[1:]
		}
		got := valuemodel.Recognise(s)
		text := strings.TrimSpace(got.Provider + " " + got.By)
		if got.Bare {
			text += " (bare)"
		}
		if text != tt.want {
			t.Errorf("%s: got %q, want %q", tt.line, text, tt.want)
		}
	}
}

// If a server was recognised by its command line, its provider's table applies without trust to
// the tools that have only known arguments, unless the server's own annotations are more
// restrictive.
func TestWhatARecognisedServerMayDo(t *testing.T) {
	files := valuemodel.Recognise(valuemodel.Settings{Command: "npx", Args: []string{"-y", "@modelcontextprotocol/server-filesystem", "/srv"}})
	base := valuemodel.Recognise(valuemodel.Settings{Command: "npx", Args: []string{"-y", "@bytebase/dbhub"}})
	bare := valuemodel.Recognise(valuemodel.Settings{Command: "mcp-server-filesystem"})
	path, sql := []string{"path"}, []string{"sql"}
	tests := []struct {
		name     string
		u        valuemodel.Upstream
		tool     string
		h        valuemodel.Hints
		class    valuemodel.Class
		classify valuemodel.Classify
		validate string
	}{
		{"reads", valuemodel.Upstream{Recognised: files}, "read_text_file", valuemodel.Hints{Arguments: path}, valuemodel.ReadOnly, "", "path"},
		{"an argument that is not known", valuemodel.Upstream{Recognised: files}, "read_text_file", valuemodel.Hints{Arguments: []string{"path", "then_delete"}}, valuemodel.Indeterminate, "", ""},
		{"arguments that cannot be told", valuemodel.Upstream{Recognised: files}, "read_text_file", valuemodel.Hints{}, valuemodel.Indeterminate, "", ""},
		{"a tool that is not known", valuemodel.Upstream{Recognised: files}, "read_mind", valuemodel.Hints{Arguments: path, ReadOnly: yes}, valuemodel.Indeterminate, "", ""},
		{"it says that it writes", valuemodel.Upstream{Recognised: files}, "read_text_file", valuemodel.Hints{Arguments: path, ReadOnly: no}, valuemodel.Indeterminate, "", "path"},
		{"writes, and it says that it reads", valuemodel.Upstream{Recognised: files}, "write_file", valuemodel.Hints{Arguments: path, ReadOnly: yes}, valuemodel.MutatesLocal, "", ""},
		{"the operator's word beats the hint", valuemodel.Upstream{Recognised: files, Provider: "filesystem"}, "read_text_file", valuemodel.Hints{Arguments: []string{"x"}, ReadOnly: no}, valuemodel.ReadOnly, "", "path"},
		{"the operator's no", valuemodel.Upstream{Recognised: files, Provider: "none", Server: "secure-filesystem-server", Trust: true}, "read_text_file", valuemodel.Hints{Arguments: path}, valuemodel.Indeterminate, "", ""},
		{"another name of its own", valuemodel.Upstream{Recognised: files, Server: "playwright"}, "read_text_file", valuemodel.Hints{Arguments: path}, valuemodel.ReadOnly, "", "path"},
		{"calls told apart", valuemodel.Upstream{Recognised: base}, "execute_sql", valuemodel.Hints{Arguments: sql}, valuemodel.Indeterminate, valuemodel.SQL, ""},
		{"calls told apart, and it says that it writes", valuemodel.Upstream{Recognised: base}, "execute_sql", valuemodel.Hints{Arguments: sql, Destructive: yes}, valuemodel.Indeterminate, "", ""},
		{"calls told apart, by another argument", valuemodel.Upstream{Recognised: base}, "execute_sql", valuemodel.Hints{Arguments: []string{"sql", "then"}}, valuemodel.Indeterminate, "", ""},
		{"a bare program", valuemodel.Upstream{Recognised: bare}, "read_text_file", valuemodel.Hints{Arguments: path}, valuemodel.Indeterminate, "", ""},
		{"a bare program, trusted", valuemodel.Upstream{Recognised: bare, Trust: true}, "read_text_file", valuemodel.Hints{}, valuemodel.ReadOnly, "", "path"},
		{"trusted, with an argument that is not known", valuemodel.Upstream{Recognised: files, Trust: true}, "read_text_file", valuemodel.Hints{Arguments: []string{"x"}}, valuemodel.Indeterminate, "", ""},
		{"trusted, with another argument, and it says that it reads", valuemodel.Upstream{Recognised: files, Trust: true}, "read_text_file", valuemodel.Hints{Arguments: []string{"x"}, ReadOnly: yes}, valuemodel.ReadOnly, "", ""},
	}
	for _, tt := range tests {
		tt.u.Name = "up"
		m := resolve(t, tt.u, tt.tool, tt.h)
		if m.Class != tt.class || m.Classify != tt.classify || m.Validate.File != tt.validate {
			t.Errorf("%s: got %s, classify %q, validate %q", tt.name, m.Class, m.Classify, m.Validate.File)
		}
	}
	m := resolve(t, valuemodel.Upstream{Name: "up", Recognised: files}, "read_text_file", valuemodel.Hints{Arguments: path})
	if got := m.Sources["side_effect_class"]; got != "provider filesystem (npm:@modelcontextprotocol/server-filesystem)" {
		t.Errorf("got %q as the source", got)
	}
}

// A flag that changes what a server's tools do counts, unless it is given twice.
func TestModes(t *testing.T) {
	tests := []struct {
		line string
		env  map[string]string
		want valuemodel.Class
	}{
		{"npx mongodb-mcp-server", nil, valuemodel.Indeterminate},
		{"npx mongodb-mcp-server --readOnly", nil, valuemodel.ReadOnly},
		{"npx mongodb-mcp-server --readOnly=true", nil, valuemodel.ReadOnly},
		{"npx mongodb-mcp-server --readOnly=false", nil, valuemodel.Indeterminate},
		{"npx mongodb-mcp-server --readOnly=False", nil, valuemodel.Indeterminate},
		{"npx mongodb-mcp-server --readOnly --readOnly=false", nil, valuemodel.Indeterminate},
		{"npx mongodb-mcp-server", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.ReadOnly},
		{"npx mongodb-mcp-server", map[string]string{"MDB_MCP_READ_ONLY": "false"}, valuemodel.Indeterminate},
		{"npx mongodb-mcp-server --readOnly=false", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.Indeterminate}, // the option counts
		{"npx mongodb-mcp-server --readOnly", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.ReadOnly},
		{"docker run -i -e MDB_MCP_READ_ONLY=true mongodb/mongodb-mcp-server", nil, valuemodel.ReadOnly},
		{"docker run -i -e MDB_MCP_READ_ONLY mongodb/mongodb-mcp-server", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.ReadOnly},
		{"docker run -i mongodb/mongodb-mcp-server", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.Indeterminate}, // which does not reach the container
		{"cmd /c docker run -i mongodb/mongodb-mcp-server", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.Indeterminate},
		{"env docker.exe run -i mongodb/mongodb-mcp-server", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.Indeterminate},
		{"cmd /c npx mongodb-mcp-server", map[string]string{"MDB_MCP_READ_ONLY": "true"}, valuemodel.ReadOnly},
	}
	for _, tt := range tests {
		words := strings.Fields(tt.line)
		r := valuemodel.Recognise(valuemodel.Settings{Command: words[0], Args: words[1:], Env: tt.env})
		for _, u := range []valuemodel.Upstream{{Name: "up", Recognised: r}, {Name: "up", Recognised: r, Provider: "mongodb"}} {
			if m := resolve(t, u, "aggregate", valuemodel.Hints{Arguments: []string{"pipeline"}}); m.Class != tt.want {
				t.Errorf("%s, %v: got %s, want %s", tt.line, tt.env, m.Class, tt.want)
			}
		}
	}
}

func TestReadOnlyDatabase(t *testing.T) {
	for line, want := range map[string]valuemodel.Class{
		"-y @supabase/mcp-server-supabase --project-ref=a":             valuemodel.Indeterminate,
		"-y @supabase/mcp-server-supabase --read-only --project-ref=a": valuemodel.ReadOnly,
	} {
		u := valuemodel.Upstream{Name: "up", Recognised: valuemodel.Recognise(valuemodel.Settings{Command: "npx", Args: strings.Fields(line)})}
		if m := resolve(t, u, "execute_sql", valuemodel.Hints{Arguments: []string{"query"}}); m.Class != want {
			t.Errorf("%s: got %s, want %s", line, m.Class, want)
		}
	}
}

// referencesOf returns all references to a provider's servers, in the form of Recognise.
func referencesOf(p valuemodel.Provider) []string {
	all := slices.Clone(p.Packages)
	for _, name := range p.Hosts {
		all = append(all, "host:"+name)
	}
	for _, name := range p.Programs {
		all = append(all, "program:"+name, "bin:"+name)
	}
	return all
}

// Each reference in a table is recognised from a command line or URL with it, and a table has
// arguments only for its own tools.
func TestReferencesAreReachable(t *testing.T) {
	lines := map[string]string{"npm": "npx %s", "pypi": "uvx %s", "docker": "docker run %s", "go": "go run %s@latest", "program": "%s", "bin": "/x/node_modules/.bin/%s"}
	for _, p := range allProviders() {
		for _, ref := range referencesOf(p) {
			kind, name, _ := strings.Cut(ref, ":")
			words := strings.Fields(fmt.Sprintf(lines[kind], name) + " " + strings.Join(p.Requires, " "))
			s := valuemodel.Settings{Command: words[0], Args: words[1:]}
			if kind == "host" {
				s = valuemodel.Settings{URL: "https://" + name + "/mcp"}
			}
			if got := valuemodel.Recognise(s); got.Provider != p.Name {
				t.Errorf("%s: %s is recognised as %q", p.Name, ref, got.Provider)
			}
		}
		for tool := range p.Arguments {
			if _, there := p.Tools[tool]; !there {
				t.Errorf("%s: arguments of the unknown tool %s", p.Name, tool)
			}
		}
	}
}
