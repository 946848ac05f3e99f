package clients

import (
	"net/url"
	"path"
	"slices"
)

// providers are the value models that servers are known to go with, by what their
// packages, images or programs are called.
var providers = map[string]string{
	"@modelcontextprotocol/server-filesystem": "filesystem", "mcp-filesystem-server": "filesystem", "mcp/filesystem": "filesystem",
	"github-mcp-server":    "github",
	"@zereight/mcp-gitlab": "gitlab", "mcp-server-git": "git", "git-mcp-go": "git", "mcp/git": "git", "@cyanheads/git-mcp-server": "git-cyanheads",
	"mcp-atlassian": "atlassian", "@taazkareem/clickup-mcp-server": "clickup",
	"@modelcontextprotocol/server-postgres": "postgres", "@bytebase/dbhub": "postgres", "mcp/postgres": "postgres",
	"mcp-server-sqlite": "sqlite", "mcp/sqlite": "sqlite",
	"@playwright/mcp": "playwright", "mcp/playwright": "playwright", "chrome-devtools-mcp": "chrome-devtools",
	"gopls": "gopls", "mcp-language-server": "mcp-language-server", "mcp-ripgrep": "ripgrep",
	"mcp-grafana": "grafana", "@notionhq/notion-mcp-server": "notion",
	"mcp-server-fetch": "fetch", "mcp/fetch": "fetch",
	"@brave/brave-search-mcp-server": "brave-search", "@modelcontextprotocol/server-brave-search": "brave-search",
	"tavily-mcp": "tavily", "@upstash/context7-mcp": "context7",
	"@modelcontextprotocol/server-memory": "memory", "mcp/memory": "memory",
	"@modelcontextprotocol/server-sequential-thinking": "sequential-thinking", "mcp/sequentialthinking": "sequential-thinking",
	"@modelcontextprotocol/server-everything": "everything",
}

// hosts are the same for servers that run elsewhere.
var hosts = map[string]string{
	"api.githubcopilot.com": "github",
	"mcp.atlassian.com":     "atlassian",
	"mcp.context7.com":      "context7",
}

// provider is the value model that a server's command or url names; "" if none.
func (d *draft) provider() string {
	if len(d.url) > 0 {
		u, err := url.Parse(d.url.plain())
		if err != nil {
			return ""
		}
		return hosts[u.Hostname()]
	}
	name := d.runs()
	if p := providers[name]; p != "" {
		return p
	}
	if name[:min(1, len(name))] == "@" {
		return ""
	}
	return providers[path.Base(name)]
}

// KnownProviders are the names that a server may be given as its provider.
func KnownProviders() []string {
	var all []string
	for _, table := range []map[string]string{providers, hosts} {
		for _, p := range table {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
