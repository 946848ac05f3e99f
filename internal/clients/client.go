package clients

import (
	_ "embed"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/BurntSushi/toml"
)

//go:embed clients.toml
var clientsFile string

// Client is one kind of MCP client, as clients.toml describes it. The beginning of that file explains
// the keys, which have the names of the fields.
type Client struct {
	Name    string
	Title   string
	Aliases []string

	TOML      bool
	Servers   [][]string
	Own       string
	Paths     []string
	Files     []string
	Variables string
	Ignored   []string
}

var clients = sync.OnceValue(func() []*Client {
	var file struct{ Client []*Client }
	if _, err := toml.Decode(clientsFile, &file); err != nil {
		panic(err) // unreachable: every test reads it
	}
	return file.Client
})

// All returns the supported clients. The first one in clients.toml stands for files of no client.
func All() []*Client { return clients()[1:] }

// ByName returns the clients with the given name; nil if there are none. "claude" means
// both Claude Code and Claude Desktop, "claude-code" only the former.
func ByName(name string) (all []*Client) {
	for _, c := range All() {
		if c.Name == name || slices.Contains(c.Aliases, name) {
			all = append(all, c)
		}
	}
	return all
}

// Names returns the names of all supported clients.
func Names() (all []string) {
	for _, c := range All() {
		all = append(all, c.Name)
	}
	return all
}

// Machine describes where clients keep their files.
type Machine struct {
	OS   string              // as in runtime.GOOS; "" means one with $HOME
	Home string              // the user's home folder; a file directly in it belongs to no project
	Env  func(string) string // os.Getenv except in tests
}

// Places returns the client's files for the user, whether they exist or not. Files of
// projects are not included: a cloned repository must not be able to define commands.
func (c *Client) Places(m Machine) (all []string) {
	for _, path := range c.Paths {
		all = append(all, filepath.FromSlash(os.Expand(path, m.folder)))
	}
	return all
}

// folder returns the folder with a name that clients.toml uses.
func (m Machine) folder(name string) string {
	in := func(variable, otherwise string) string {
		if dir := m.Env(variable); filepath.IsAbs(dir) {
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
		"COPILOT": in("COPILOT_HOME", ".copilot"), "QWEN": in("QWEN_HOME", ".qwen"),
		"CLAUDE": in("CLAUDE_CONFIG_DIR", ""), "CLAUDE SETTINGS": in("CLAUDE_CONFIG_DIR", ".claude"),
	}[name]
}

// clientOf determines the client of a file, by its contents more than by its name, and
// returns the path to the servers in it.
func clientOf(d *document) (client *Client, table []string) {
	best := 0
	for _, c := range clients() {
		if c.TOML != d.toml {
			continue
		}
		score, in := 1, c.Servers[0]
		if i := slices.IndexFunc(c.Servers, d.hasServers); i >= 0 {
			score, in = 3, c.Servers[i]
		}
		if c.keeps(filepath.ToSlash(d.path)) {
			score++
		}
		if score > best {
			best, client, table = score, c, in
		}
	}
	return client, table
}

// hasServers reports whether there is an object of objects at a path.
func (d *document) hasServers(path []string) bool {
	servers, _ := at(d.tree, path...).(map[string]any)
	for _, s := range servers {
		if _, ok := s.(map[string]any); ok {
			return true
		}
	}
	return false
}

// keeps reports whether a file name matches the client's patterns.
func (c *Client) keeps(file string) bool {
	dir, base := path.Split(file)
	return slices.ContainsFunc(c.Files, func(pattern string) bool {
		bare, _ := path.Match(pattern, base) // the patterns are valid
		full, _ := path.Match(pattern, path.Base(dir)+"/"+base)
		return bare || full
	})
}
