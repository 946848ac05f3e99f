package valuemodel_test

import (
	"strings"
	"testing"

	"mcpschedd/internal/valuemodel"
)

// A process can be shared only if its server is known by its package to keep no session state, and
// is started with known options.
func TestShareable(t *testing.T) {
	for _, test := range []struct {
		line string
		env  string
		want bool
	}{
		{"uvx mcp-server-fetch", "", true},
		{"uvx mcp-server-time --local-timezone=Europe/Berlin", "", true},
		{"npx -y @modelcontextprotocol/server-postgres postgresql://localhost/db", "", true},
		{"npx -y @modelcontextprotocol/server-filesystem /srv", "", true},
		{"npx -y @modelcontextprotocol/server-filesystem", "", false}, // it asks its client for the roots
		{"npx -y @modelcontextprotocol/server-filesystem --verbose", "", false},
		{"docker run -i --rm -v /srv:/srv mcp/filesystem /srv", "", true},
		{"docker run -i --rm -v /srv:/srv mcp/filesystem", "", false},
		{"docker run -i ghcr.io/github/github-mcp-server", "", true},
		{"docker run -i ghcr.io/github/github-mcp-server stdio --dynamic-toolsets", "", false},
		{"docker run -i -e GITHUB_DYNAMIC_TOOLSETS=1 ghcr.io/github/github-mcp-server", "", false},
		{"docker run -i ghcr.io/github/github-mcp-server", "GITHUB_DYNAMIC_TOOLSETS", false},
		{"node /srv/node_modules/mcp-ripgrep/dist/index.js", "", true},
		{"mcp-server-fetch", "", false}, // any program may have this name
		{"npx -y @modelcontextprotocol/server-memory", "", false},
		{"npx -y @modelcontextprotocol/server-sequential-thinking", "", false},
		{"npx -y @playwright/mcp", "", false},
		{"npx -y @wonderwhy-er/desktop-commander", "", false},
		{"npx -y evil", "", false},
	} {
		words := strings.Fields(test.line)
		s := valuemodel.Settings{Command: words[0], Args: words[1:]}
		if test.env != "" {
			s.Env = map[string]string{test.env: "1"}
		}
		if got := valuemodel.Recognise(s).Shareable; got != test.want {
			t.Errorf("%s %s: got %v, want %v", test.env, test.line, got, test.want)
		}
	}
}
