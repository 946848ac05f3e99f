// Package clients imports the servers that MCP clients are configured with, makes the
// clients start mcpschedd instead, and undoes both.
//
// Nothing in a client's file is lost. Every literal value of a server's environment and
// headers, and everything that looks like a secret in its arguments and URL, is written
// to a file of variables that the server's [upstreams.NAME] block names. Settings that
// cannot be imported are reported. A client's file is copied before it is changed.
//
//	machine := clients.Machine{Home: "/home/ann", Env: os.Getenv}
//	r := clients.NewReader(clients.Options{Machine: machine, ReadFile: os.ReadFile})
//	err := r.Read("/home/ann/.cursor/mcp.json", []byte(`{"mcpServers": {"git hub": {
//		"command": "github-mcp-server", "args": ["stdio"], "env": {"GITHUB_TOKEN": "ghp_…"}}}}`))
//	text := clients.TOML(r.Servers())
//	// [upstreams.git-hub]
//	// command = "github-mcp-server"
//	// args = ["stdio"]
//	// env_file = "env/git-hub.env"
//
// All clients have similar files: a table of servers under a key, in JSON, often with
// comments and trailing commas, or in TOML (Codex). Their variables differ: ${env:X},
// ${X:-default}, $X, ${input:x}, ${workspaceFolder}. A client's file is changed as a
// syntax tree with comments and white space, so that everything else is preserved.
//
// OAuth is not supported: a server that requires it stays with its client. Package importing
// decides which servers are imported, and under which names.
package clients
