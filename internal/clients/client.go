package clients

import (
	"os"
	"path"
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
	places []string // what it keeps for its user, below folders that Machine names
	files  []string // how the names of its files end, as patterns
}

// shape is how a client's file has a server that is a command.
type shape int

const (
	plainShape    shape = iota // {"command": "x", "args": ["y"]}
	typedShape                 // with "type": "stdio"
	zedShape                   // with "source": "custom"
	opencodeShape              // {"type": "local", "command": ["x", "y"]}
)

const codexTable = "mcp_servers" // where Codex has its servers

// All are the clients that are known.
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

// other is a client that is not known, with a table as most have it.
var other = &Client{Name: "file", Title: "the client", table: []string{"mcpServers"}}

// Named is the client of a name; nil: none is known. "claude" is both programs of it to the
// command line, "claude-code" the one that it is the name of here.
func Named(name string) []*Client {
	var all []*Client
	for _, c := range All {
		if c.Name == name || name == "claude" && c.Name == "claude-desktop" || name == "claude-code" && c.Name == "claude" {
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

// Machine is where clients keep their files.
type Machine struct {
	OS   string              // as runtime.GOOS has it; "": one with $HOME
	Home string              // the user's folder: a file just below it belongs to no project
	Env  func(string) string // os.Getenv outside tests; nil: nothing is set
}

func (m Machine) env(variable string) string {
	if m.Env == nil {
		return ""
	}
	return m.Env(variable)
}

// Places are the files that a client keeps for its user, whether they exist or not. Files
// of projects are not among them: a cloned repository must not be able to name commands.
func (c *Client) Places(m Machine) []string {
	var all []string
	for _, place := range c.places {
		all = append(all, filepath.FromSlash(os.Expand(place, m.folder)))
	}
	return all
}

// folder is one that the table names.
func (m Machine) folder(name string) string {
	in := func(variable string, otherwise ...string) string {
		if dir := m.env(variable); filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(append([]string{m.Home}, otherwise...)...)
	}
	switch name {
	case "CLAUDE":
		return in("CLAUDE_CONFIG_DIR")
	case "CLAUDE SETTINGS":
		return in("CLAUDE_CONFIG_DIR", ".claude")
	case "CODEX":
		return in("CODEX_HOME", ".codex")
	case "CONFIG":
		return in("XDG_CONFIG_HOME", ".config")
	case "ZED":
		switch m.OS {
		case "windows":
			return filepath.Join(m.folder("APPDATA"), "Zed")
		case "darwin":
			return filepath.Join(m.Home, ".config", "zed")
		}
		return filepath.Join(m.folder("CONFIG"), "zed")
	case "APPDATA": // of programs with windows
		switch m.OS {
		case "windows":
			return in("APPDATA", "AppData", "Roaming")
		case "darwin":
			return filepath.Join(m.Home, "Library", "Application Support")
		}
		return m.folder("CONFIG")
	}
	return m.Home
}

// clientOf tells by what a file holds, and then by its name, which client's it is, and where in
// it the servers stand.
func clientOf(d *document) (*Client, []string) {
	is := func(name string, table ...string) (*Client, []string) {
		c := Named(name)[0]
		if table == nil {
			table = c.table
		}
		return c, table
	}
	has := func(path ...string) bool { _, ok := d.top().child(path...); return ok }
	dir, base := path.Split(filepath.ToSlash(d.path))
	dir = path.Base(dir)
	switch plain := has("mcpServers"); {
	case d.toml:
		return is("codex")
	case dir == ".gemini":
		return is("gemini")
	case has("context_servers"):
		return is("zed")
	case has("mcp", "servers"):
		return is("vscode", "mcp", "servers")
	case has("mcp.servers"):
		return is("vscode", "mcp.servers")
	case has("servers") && !plain:
		return is("vscode")
	case has("mcp") && !plain:
		return is("opencode")
	}
	if i := slices.IndexFunc(All, func(c *Client) bool { return c.keeps(dir, base) }); i >= 0 {
		return All[i], All[i].table
	}
	return other, other.table
}

// keeps reports whether a file has the name of one of the client's.
func (c *Client) keeps(dir, base string) bool {
	return slices.ContainsFunc(c.files, func(pattern string) bool {
		name := base
		if strings.Contains(pattern, "/") {
			name = dir + "/" + base
		}
		ok, _ := path.Match(pattern, name) // the patterns are valid
		return ok
	})
}
