package clients_test

// realFiles are typical files of each client, by path.
var realFiles = map[string]string{
	"/home/ann/.claude.json": `{
  "numStartups": 41,
  "mcpServers": {
    "github": {"type": "stdio", "command": "github-mcp-server", "args": ["stdio"], "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
    "sentry": {"type": "http", "url": "https://mcp.sentry.dev/mcp"},
    "api": {"type": "sse", "url": "${API_BASE:-https://api.example}/mcp", "headers": {"Authorization": "Bearer ${API_KEY}"}}
  },
  "projects": {
    "/p": {"allowedTools": [], "enabledMcpjsonServers": ["team"], "mcpServers": {"api": {"command": "./bin/api", "args": []}, "notes": {"command": "notes"}}, "disabledMcpServers": ["notes"]},
    "/q": {"mcpServers": {"other": {"command": "x"}}}
  }
}`,
	"/home/ann/.config/Claude/claude_desktop_config.json": `{
  "mcpServers": {
    "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/home/ann/Desktop"]},
    "postgres": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-postgres", "postgresql://ann:hunter2@localhost/db"]}
  },
  "globalShortcut": ""
}`,
	"/home/ann/.cursor/mcp.json": `{
  "mcpServers": {
    "linear": {"url": "https://mcp.linear.app/sse", "auth": {"CLIENT_ID": "${env:LINEAR_ID}"}},
    "db": {"command": "uvx", "args": ["mcp-server-sqlite", "--db-path", "${userHome}/x.db"], "envFile": "${workspaceFolder}/.env"}
  }
}`,
	"/home/ann/.config/Code/User/mcp.json": `{
  // asked for once
  "inputs": [{"type": "promptString", "id": "perplexity-key", "description": "API key", "password": true}],
  "servers": {
    "perplexity": {"type": "stdio", "command": "docker", "args": ["run", "-i", "--rm", "-e", "PERPLEXITY_API_KEY", "mcp/perplexity-ask"], "env": {"PERPLEXITY_API_KEY": "${input:perplexity-key}", "OLD": null, "PORT": 8080}},
    "github": {"type": "http", "url": "https://api.githubcopilot.com/mcp/", "headers": {"Authorization": "Bearer ${input:perplexity-key}",},},
  },
}`,
	"/home/ann/.config/Code/User/settings.json": `{
  "editor.fontSize": 14, /* px */
  "mcp": {"servers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}},
}`,
	"/home/ann/.codeium/windsurf/mcp_config.json": `{
  "mcpServers": {
    "remote": {"serverUrl": "https://x.example/mcp", "headers": {"API_KEY": "Bearer ${env:AUTH}", "X-Key": "${file:/home/ann/key}"}, "disabledTools": ["drop_*", "rm"]},
    "off": {"command": "x", "disabled": true}
  }
}`,
	"/home/ann/.config/zed/settings.json": `{
  "theme": "One Dark",
  "context_servers": {
    "new": {"source": "custom", "command": "some-command", "args": ["a"], "env": {}},
    "paused": {"enabled": false, "url": "http://localhost:3000/mcp"},
    "extension": {"source": "extension", "settings": {"key": "abc"}}
  }
}`,
	"/home/ann/.codex/config.toml": `# Codex
model = "gpt-5"

[mcp_servers.docs] # the manual
command = "npx"
args = ["-y", "docs-mcp"]

[mcp_servers.docs.env]
TOKEN = "s3cr3t"

[tui]
theme = "dark"
`,
	"/home/ann/.config/opencode/opencode.json": `{"$schema": "https://opencode.ai/config.json", "mcp": {"play": {"type": "local", "command": ["npx", "-y", "@playwright/mcp"], "environment": {"A": "{env:B}"}}}}`,
	"/home/ann/.gemini/settings.json":          `{"theme": "dark", "mcpServers": {"shell": {"command": "x", "env": {"T": "$MY_TOKEN"}, "timeout": 600000, "trust": true}}}`,
}
