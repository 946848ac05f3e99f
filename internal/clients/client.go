package clients

import (
	"path/filepath"
	"slices"
	"strings"
)

// Client is one kind of MCP client.
type Client struct {
	Name  string // as the command line has it
	Title string // as people know it

	table  []string // where its files have the servers
	shape  shape
	places func(Machine) []string
}

// codexTable is where Codex has its servers.
const codexTable = "mcp_servers"

// shape is how a client's file has a server that is a command.
type shape int

const (
	plainShape    shape = iota // {"command": "x", "args": ["y"]}
	typedShape                 // with "type": "stdio"
	zedShape                   // with "source": "custom"
	opencodeShape              // {"type": "local", "command": ["x", "y"]}
)

// Machine is where clients keep their files.
type Machine struct {
	OS   string              // as runtime.GOOS has it
	Home string              // the user's folder
	Env  func(string) string // os.Getenv outside tests
}

// All are the clients that are known.
var All = []*Client{
	{Name: "claude", Title: "Claude Code", table: []string{"mcpServers"}, shape: typedShape, places: func(m Machine) []string {
		return []string{filepath.Join(m.folder("CLAUDE_CONFIG_DIR", m.Home), ".claude.json")}
	}},
	{Name: "claude-desktop", Title: "Claude Desktop", table: []string{"mcpServers"}, places: func(m Machine) []string {
		return []string{filepath.Join(m.appData(), "Claude", "claude_desktop_config.json")}
	}},
	{Name: "cursor", Title: "Cursor", table: []string{"mcpServers"}, places: func(m Machine) []string {
		return []string{filepath.Join(m.Home, ".cursor", "mcp.json")}
	}},
	{Name: "vscode", Title: "VS Code", table: []string{"servers"}, shape: typedShape, places: func(m Machine) []string {
		var all []string
		for _, product := range []string{"Code", "Code - Insiders", "VSCodium"} {
			user := filepath.Join(m.appData(), product, "User")
			all = append(all, filepath.Join(user, "mcp.json"), filepath.Join(user, "settings.json"))
		}
		return all
	}},
	{Name: "windsurf", Title: "Windsurf", table: []string{"mcpServers"}, places: func(m Machine) []string {
		return []string{filepath.Join(m.Home, ".codeium", "windsurf", "mcp_config.json")}
	}},
	{Name: "zed", Title: "Zed", table: []string{"context_servers"}, shape: zedShape, places: func(m Machine) []string {
		config := m.folder("XDG_CONFIG_HOME", filepath.Join(m.Home, ".config"))
		switch m.OS {
		case "darwin":
			config = filepath.Join(m.Home, ".config")
		case "windows":
			return []string{filepath.Join(m.appData(), "Zed", "settings.json")}
		}
		return []string{filepath.Join(config, "zed", "settings.json")}
	}},
	{Name: "gemini", Title: "Gemini CLI", table: []string{"mcpServers"}, places: func(m Machine) []string {
		return []string{filepath.Join(m.Home, ".gemini", "settings.json")}
	}},
	{Name: "codex", Title: "Codex", table: []string{codexTable}, places: func(m Machine) []string {
		return []string{filepath.Join(m.folder("CODEX_HOME", filepath.Join(m.Home, ".codex")), "config.toml")}
	}},
	{Name: "opencode", Title: "OpenCode", table: []string{"mcp"}, shape: opencodeShape, places: func(m Machine) []string {
		dir := filepath.Join(m.folder("XDG_CONFIG_HOME", filepath.Join(m.Home, ".config")), "opencode")
		return []string{filepath.Join(dir, "opencode.json"), filepath.Join(dir, "opencode.jsonc")}
	}},
}

// Named is the client of a name; nil: none is known. "claude" is both programs of it to the
// command line.
func Named(name string) []*Client {
	var all []*Client
	for _, c := range All {
		if c.Name == name || name == "claude" && c.Name == "claude-desktop" {
			all = append(all, c)
		}
	}
	return all
}

// Names are those that [Named] takes.
func Names() []string {
	var all []string
	for _, c := range All {
		all = append(all, c.Name)
	}
	return all
}

// Places are the files that a client keeps for its user, whether they exist or not. Files
// of projects are not among them: a cloned repository must not be able to name commands.
func (c *Client) Places(m Machine) []string { return c.places(m) }

// folder is what a variable names, if that is an absolute path.
func (m Machine) folder(variable, otherwise string) string {
	if dir := m.Env(variable); filepath.IsAbs(dir) {
		return dir
	}
	return otherwise
}

// appData is where programs with windows keep what is the user's.
func (m Machine) appData() string {
	switch m.OS {
	case "darwin":
		return filepath.Join(m.Home, "Library", "Application Support")
	case "windows":
		return m.folder("APPDATA", filepath.Join(m.Home, "AppData", "Roaming"))
	}
	return m.folder("XDG_CONFIG_HOME", filepath.Join(m.Home, ".config"))
}

// other is a client that is not known, with a table as most have it.
var other = &Client{Name: "file", Title: "the client", table: []string{"mcpServers"}}

// clientOf tells by a file's name, and then by what it holds, which client's it is, and
// where in it the servers stand.
func clientOf(d *document) (*Client, []string) {
	of := func(name string) *Client { return Named(name)[0] }
	dir, base := filepath.Base(filepath.Dir(d.path)), filepath.Base(d.path)
	if d.toml {
		return of("codex"), of("codex").table
	}
	has := func(path ...string) bool { _, ok := d.top().child(path...); return ok }
	switch {
	case dir == ".gemini":
		return of("gemini"), of("gemini").table
	case has("context_servers"):
		return of("zed"), of("zed").table
	case has("mcp", "servers"):
		return of("vscode"), []string{"mcp", "servers"}
	case has("mcp.servers"):
		return of("vscode"), []string{"mcp.servers"}
	case has("servers") && !has("mcpServers"):
		return of("vscode"), of("vscode").table
	case has("mcp") && !has("mcpServers"):
		return of("opencode"), of("opencode").table
	}
	for _, c := range All {
		known := map[string]bool{
			"claude": base == ".claude.json" || base == ".mcp.json", "claude-desktop": base == "claude_desktop_config.json",
			"cursor": dir == ".cursor", "windsurf": dir == "windsurf",
			"zed": strings.EqualFold(dir, "zed") || dir == ".zed", "opencode": strings.HasPrefix(base, "opencode.json"),
			"vscode": slices.Contains([]string{"User", ".vscode"}, dir) && base == "mcp.json",
		}
		if known[c.Name] {
			return c, c.table
		}
	}
	return other, other.table
}
