// Package clients reads the servers that MCP clients are configured with, and says them
// as the [upstreams.*] blocks of our own configuration.
//
// The one idea: what was a literal secret in the client's file never leaves this
// package. It becomes a variable, and the reader is told which variable to set and where
// its value stands, as a JSON pointer:
//
//	r := clients.NewReader(clients.Options{})
//	err := r.Read("/home/ann/.cursor/mcp.json", []byte(`{"mcpServers": {"git hub": {
//		"command": "github-mcp-server", "args": ["stdio"], "env": {"GITHUB_TOKEN": "ghp_…"}}}}`))
//	text := clients.TOML(r.Import().Servers)
//	// [upstreams.git-hub]
//	// command = "github-mcp-server"
//	// args = ["stdio"]
//	// env.GITHUB_TOKEN = "${GITHUB_TOKEN}" # set this variable
//
// All clients write nearly the same: a table of servers under a key of their own
// (Claude, Cursor, Windsurf "mcpServers"; VS Code "servers", or "mcp" in its settings;
// Zed "context_servers"), in JSON, often with comments and trailing commas. What they
// fill in differs: ${env:X}, ${X:-default}, ${input:x}, ${workspaceFolder}. One that
// cannot be filled in here becomes a variable to set.
//
// What might be a secret is taken for one. In doubt a harmless value ends up in a
// variable, which costs its owner a line; the other mistake would put a secret into a
// file that is shown to others.
//
// It leaves out signing in by OAuth and headers that a program makes, which are said in
// a note, and never writes to a client's file. What the blocks mean, and whether they
// go into a configuration, is config's to say.
package clients
