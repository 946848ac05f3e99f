// Package clients takes over the servers that MCP clients are configured with, points the
// clients at mcpschedd, and takes both back.
//
// The one idea: nothing that a client's file holds is lost. Every literal value of a
// server's environment and headers, and what looks like a secret in its arguments and URL,
// goes into a file of variables that the server's [upstreams.NAME] block names; what has no
// place there is said; and the client's file is kept whole before a byte of it changes.
//
//	r := clients.NewReader(clients.Options{Home: "/home/ann"})
//	err := r.Read("/home/ann/.cursor/mcp.json", []byte(`{"mcpServers": {"git hub": {
//		"command": "github-mcp-server", "args": ["stdio"], "env": {"GITHUB_TOKEN": "ghp_…"}}}}`))
//	text := clients.TOML(r.Servers(), "env")
//	// [upstreams.git-hub]
//	// command = "github-mcp-server"
//	// args = ["stdio"]
//	// env_file = "env/git-hub.env"
//
// All clients write nearly the same: a table of servers under a key of their own, in JSON,
// often with comments and trailing commas, or in TOML (Codex). What they fill in differs:
// ${env:X}, ${X:-default}, $X, ${input:x}, ${workspaceFolder}. A client's file is changed
// in a tree that holds its comments and white space too, so that all else of it stays.
//
// It leaves out signing in by OAuth: a server that does stays with its client. What the
// blocks mean, and whether they go into a configuration, is config's to say; which folder
// holds what, and what is printed, is the command's.
package clients
