package clients

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// What is Claude Code's own: servers for one folder, approval of what a project has checked in,
// settings in several places, and an administrator above them.

// projects returns the folders in the "projects" table of the user's file.
func (d *document) projects() (all []member) {
	at, _ := d.top().child("projects")
	folders, _ := at.members()
	for _, p := range folders {
		if filepath.IsAbs(p.name) {
			all = append(all, p)
		}
	}
	return all
}

// local returns the servers that Claude Code has for single folders: those in the user's file,
// and the approved ones of the folder's .mcp.json.
func (r *Reader) local(doc *document, client *Client) []table {
	var all []table
	for _, p := range doc.projects() {
		if at, ok := p.child("mcpServers"); ok {
			all = append(all, table{
				node: at, path: []string{"projects", p.name, "mcpServers"}, client: client, scope: "local", base: p.name,
				disabled: p.strings("disabledMcpServers"),
			})
		}
		if t, ok := r.checkedIn(p, client); ok {
			all = append(all, t)
		}
	}
	return all
}

// checkedIn returns the servers of a folder's .mcp.json. It adds a note about servers that are
// not approved.
func (r *Reader) checkedIn(p member, client *Client) (table, bool) {
	doc := r.other(filepath.Join(p.name, ".mcp.json"))
	if doc == nil {
		return table{}, false
	}
	at, ok := doc.top().child("mcpServers")
	if !ok {
		return table{}, false
	}
	enableAll := false
	enabled, disabled := p.strings("enabledMcpjsonServers"), p.strings("disabledMcpjsonServers")
	settings := []string{filepath.Join(p.name, ".claude", "settings.local.json"), filepath.Join(r.options.Home, ".claude", "settings.json")}
	for _, path := range settings {
		if s := r.other(path); s != nil {
			all, _ := s.top().child("enableAllProjectMcpServers")
			enableAll = enableAll || all.value() == true
			enabled, disabled = append(enabled, s.top().strings("enabledMcpjsonServers")...), append(disabled, s.top().strings("disabledMcpjsonServers")...)
		}
	}
	includes := func(name string) bool {
		return !slices.Contains(disabled, name) && (enableAll || slices.Contains(enabled, name))
	}
	var unapproved []string
	servers, _ := at.members()
	for _, m := range servers {
		if !includes(m.name) && !slices.Contains(disabled, m.name) {
			unapproved = append(unapproved, shown(m.name))
		}
	}
	if len(unapproved) > 0 {
		r.note(at, false, "left out, since they are not approved in Claude Code: "+strings.Join(unapproved, ", "))
	}
	return table{node: at, path: []string{"mcpServers"}, client: client, scope: "project", base: p.name, includes: includes}, true
}

// settingsFile is a settings file of Claude Code.
type settingsFile struct {
	path   string
	folder string // folder of its project; "" for a file that applies everywhere
	shared bool   // checked in with the project
}

// claudeFolders returns the folders with Claude Code's settings, agents and commands: the
// user's folder, and one for each project in the user's file.
func (r *Reader) claudeFolders() []settingsFile {
	all := []settingsFile{{path: r.options.folder("CLAUDE SETTINGS")}}
	for _, doc := range r.docs {
		for _, p := range doc.projects() {
			if path := filepath.Join(p.name, ".claude"); path != all[0].path {
				all = append(all, settingsFile{path, p.name, true})
			}
		}
	}
	return all
}

// settings returns Claude Code's existing settings files.
func (r *Reader) settings() map[settingsFile]*document {
	files := []settingsFile{{path: r.options.managed("managed-settings.json")}}
	for _, f := range r.claudeFolders() {
		files = append(files, settingsFile{filepath.Join(f.path, "settings.json"), f.folder, f.shared}, settingsFile{filepath.Join(f.path, "settings.local.json"), f.folder, false})
	}
	all := make(map[settingsFile]*document)
	for _, f := range files {
		if doc := r.other(f.path); doc != nil {
			all[f] = doc
		}
	}
	return all
}

// managed returns the path of a file with an administrator's settings for Claude Code.
func (m Machine) managed(name string) string {
	switch m.OS {
	case "darwin":
		return filepath.Join("/Library/Application Support/ClaudeCode", name)
	case "windows":
		return filepath.Join(cmp.Or(m.env("ProgramFiles"), `C:\Program Files`), "ClaudeCode", name)
	}
	return filepath.Join("/etc/claude-code", name)
}

// forbiddenByClaude returns why an administrator's settings forbid mcpschedd, or "".
func (r *Reader) forbiddenByClaude() string {
	if path := r.options.managed("managed-mcp.json"); r.other(path) != nil {
		return path + " lists all servers that Claude Code may use: no other may be added"
	}
	path := r.options.managed("managed-settings.json")
	doc := r.other(path)
	if doc == nil {
		return ""
	}
	names := func(list string) (all []string, found bool) {
		at, found := doc.top().child(list)
		for _, e := range at.elements() {
			name, _ := e.child("serverName")
			if s, ok := name.value().(string); ok {
				all = append(all, s)
			}
		}
		return all, found
	}
	if all, _ := names("deniedMcpServers"); slices.Contains(all, ownName) {
		return path + " denies mcpschedd"
	}
	if all, found := names("allowedMcpServers"); found && !slices.Contains(all, ownName) {
		return path + ` allows some servers ("allowedMcpServers"), but not mcpschedd`
	}
	return ""
}
