package clients

import (
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Client is one kind of MCP client.
type Client struct {
	Name  string // name on the command line
	Title string // product name

	table  []string // path to the servers in its files
	shape  shape
	places []string // files of the user, below folders that Machine.folder names
	files  []string // patterns of file names, to recognise its files
}

// shape is the form of a server with a command in a client's file.
type shape int

const (
	plainShape    shape = iota // {"command": "x", "args": ["y"]}
	typedShape                 // with "type": "stdio"
	zedShape                   // with "source": "custom"
	opencodeShape              // {"type": "local", "command": ["x", "y"]}
)

const codexTable = "mcp_servers" // table of servers in Codex's file

// All holds the supported clients.
var All = []*Client{
	{"claude", "Claude Code", []string{"mcpServers"}, typedShape,
		[]string{"${CLAUDE}/.claude.json"}, []string{".claude.json", ".mcp.json"}},
	{"claude-desktop", "Claude Desktop", []string{"mcpServers"}, plainShape,
		[]string{"${APPDATA}/Claude/claude_desktop_config.json"}, []string{"claude_desktop_config.json"}},
	{"cursor", "Cursor", []string{"mcpServers"}, plainShape,
		[]string{"${HOME}/.cursor/mcp.json"}, []string{".cursor/*"}},
	{"vscode", "VS Code", []string{"servers"}, typedShape,
		[]string{
			"${APPDATA}/Code/User/mcp.json", "${APPDATA}/Code/User/settings.json",
			"${APPDATA}/Code - Insiders/User/mcp.json", "${APPDATA}/Code - Insiders/User/settings.json",
			"${APPDATA}/VSCodium/User/mcp.json", "${APPDATA}/VSCodium/User/settings.json",
		}, []string{"User/mcp.json", ".vscode/mcp.json"}},
	{"windsurf", "Windsurf", []string{"mcpServers"}, plainShape,
		[]string{"${HOME}/.codeium/windsurf/mcp_config.json"}, []string{"windsurf/*"}},
	{"zed", "Zed", []string{"context_servers"}, zedShape,
		[]string{"${ZED}/settings.json"}, []string{"zed/*", "Zed/*", ".zed/*"}},
	{"gemini", "Gemini CLI", []string{"mcpServers"}, plainShape,
		[]string{"${HOME}/.gemini/settings.json"}, []string{".gemini/*"}},
	{"codex", "Codex", []string{codexTable}, plainShape,
		[]string{"${CODEX}/config.toml"}, nil},
	{"opencode", "OpenCode", []string{"mcp"}, opencodeShape,
		[]string{"${CONFIG}/opencode/opencode.json", "${CONFIG}/opencode/opencode.jsonc"}, []string{"opencode.json*"}},
}

// Named returns the clients with the given name; nil if there are none. "claude" means
// both Claude Code and Claude Desktop, "claude-code" only the former.
func Named(name string) []*Client {
	var all []*Client
	for _, c := range All {
		if c.Name == name || name == "claude" && c.Name == "claude-desktop" || name == "claude-code" && c.Name == "claude" {
			all = append(all, c)
		}
	}
	return all
}

// Names returns the names of all supported clients.
func Names() []string {
	var all []string
	for _, c := range All {
		all = append(all, c.Name)
	}
	return all
}

// Machine describes where clients keep their files.
type Machine struct {
	OS   string              // as in runtime.GOOS; "" means one with $HOME
	Home string              // the user's home folder; a file directly in it belongs to no project
	Env  func(string) string // os.Getenv except in tests; nil means that no variable is set
}

func (m Machine) env(variable string) string {
	if m.Env == nil {
		return ""
	}
	return m.Env(variable)
}

// Places returns the client's files for the user, whether they exist or not. Files of
// projects are not included: a cloned repository must not be able to define commands.
func (c *Client) Places(m Machine) []string {
	var all []string
	for _, place := range c.places {
		all = append(all, filepath.FromSlash(os.Expand(place, m.folder)))
	}
	return all
}

// folder returns the folder with a name that the table of clients uses.
func (m Machine) folder(name string) string {
	in := func(variable, otherwise string) string {
		if dir := m.env(variable); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(m.Home, filepath.FromSlash(otherwise))
	}
	config := in("XDG_CONFIG_HOME", ".config")
	applications, zed := config, filepath.Join(config, "zed")
	switch m.OS {
	case "windows":
		applications = in("APPDATA", "AppData/Roaming")
		zed = filepath.Join(applications, "Zed")
	case "darwin":
		applications = filepath.Join(m.Home, "Library", "Application Support")
		zed = filepath.Join(m.Home, ".config", "zed")
	}
	return map[string]string{
		"HOME": m.Home, "CONFIG": config, "APPDATA": applications, "ZED": zed, "CODEX": in("CODEX_HOME", ".codex"),
		"CLAUDE": in("CLAUDE_CONFIG_DIR", ""), "CLAUDE SETTINGS": in("CLAUDE_CONFIG_DIR", ".claude"),
	}[name]
}

// clientOf determines the client of a file by its contents, then by its name, and
// returns the path to the servers in it.
func clientOf(d *document) (*Client, []string) {
	has := func(path ...string) bool { return at(d.tree, path...) != nil }
	dir, base := path.Split(filepath.ToSlash(d.path))
	dir = path.Base(dir)
	name, table := "", []string(nil)
	switch plain := has("mcpServers"); {
	case d.toml:
		name = "codex"
	case dir == ".gemini":
		name = "gemini"
	case has("context_servers"):
		name = "zed"
	case has("mcp", "servers"):
		name, table = "vscode", []string{"mcp", "servers"}
	case has("mcp.servers"):
		name, table = "vscode", []string{"mcp.servers"}
	case has("servers") && !plain:
		name = "vscode"
	case has("mcp") && !plain:
		name = "opencode"
	}
	client := &Client{Name: "file", Title: "the client", table: []string{"mcpServers"}} // of no supported client
	for _, c := range slices.Backward(All) {
		if c.Name == name || name == "" && c.keeps(dir, base) {
			client = c
		}
	}
	if table == nil {
		table = client.table
	}
	return client, table
}

// keeps reports whether a file name matches the client's patterns.
func (c *Client) keeps(dir, base string) bool {
	return slices.ContainsFunc(c.files, func(pattern string) bool {
		bare, _ := path.Match(pattern, base) // the patterns are valid
		full, _ := path.Match(pattern, dir+"/"+base)
		return bare || full
	})
}
