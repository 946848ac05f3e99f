package clients

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// What is Claude Code's own: servers for one folder, approval of what a project has checked in,
// settings in several places, and an administrator above them.

// projects are the folders of which the user's own file says something.
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

// local are the servers that Claude Code has for one folder each: those of its own file,
// and those of the folder's .mcp.json that its user has approved.
func (r *Reader) local(doc *document, client *Client) []table {
	var all []table
	for _, p := range doc.projects() {
		if at, ok := p.child("mcpServers"); ok {
			all = append(all, table{
				node: at, path: []string{"projects", p.name, "mcpServers"}, client: client, scope: "local", base: p.name,
				off: p.strings("disabledMcpServers"),
			})
		}
		if t, ok := r.checkedIn(p, client); ok {
			all = append(all, t)
		}
	}
	return all
}

// checkedIn are the servers of a folder's .mcp.json. Those that were not approved are said.
func (r *Reader) checkedIn(p member, client *Client) (table, bool) {
	doc := r.other(filepath.Join(p.name, ".mcp.json"))
	if doc == nil {
		return table{}, false
	}
	at, ok := doc.top().child("mcpServers")
	if !ok {
		return table{}, false
	}
	every := false
	yes, no := p.strings("enabledMcpjsonServers"), p.strings("disabledMcpjsonServers")
	settings := []string{filepath.Join(p.name, ".claude", "settings.local.json"), filepath.Join(r.options.Home, ".claude", "settings.json")}
	for _, path := range settings {
		if s := r.other(path); s != nil {
			all, _ := s.top().child("enableAllProjectMcpServers")
			every = every || all.value() == true
			yes, no = append(yes, s.top().strings("enabledMcpjsonServers")...), append(no, s.top().strings("disabledMcpjsonServers")...)
		}
	}
	takes := func(name string) bool {
		return !slices.Contains(no, name) && (every || slices.Contains(yes, name))
	}
	var unapproved []string
	servers, _ := at.members()
	for _, m := range servers {
		if !takes(m.name) && !slices.Contains(no, m.name) {
			unapproved = append(unapproved, shown(m.name))
		}
	}
	if len(unapproved) > 0 {
		r.note(at, false, "left out, as Claude Code has not been told to trust them: "+strings.Join(unapproved, ", "))
	}
	return table{node: at, path: []string{"mcpServers"}, client: client, scope: "project", base: p.name, takes: takes}, true
}

// settingsFile is one of Claude Code's that has rules.
type settingsFile struct {
	path   string
	folder string // of the project it counts in; "": all
	shared bool   // the project has it checked in
}

// claudeFolders are where Claude Code keeps settings, agents and commands: the user's folder,
// and that of each project of which the user's own file knows.
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

// settings are Claude Code's settings that are there.
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

// managed is a file by which an administrator rules Claude Code.
func (m Machine) managed(name string) string {
	switch m.OS {
	case "darwin":
		return filepath.Join("/Library/Application Support/ClaudeCode", name)
	case "windows":
		return filepath.Join(cmp.Or(m.env("ProgramFiles"), `C:\Program Files`), "ClaudeCode", name)
	}
	return filepath.Join("/etc/claude-code", name)
}

// forbiddenByClaude says why an administrator would not let mcpschedd run; "": none forbids it.
func (r *Reader) forbiddenByClaude() string {
	if path := r.options.managed("managed-mcp.json"); r.other(path) != nil {
		return path + " says which servers Claude Code has: no other may be added"
	}
	path := r.options.managed("managed-settings.json")
	doc := r.other(path)
	if doc == nil {
		return ""
	}
	names := func(list string) (all []string, there bool) {
		at, there := doc.top().child(list)
		for _, e := range at.elements() {
			name, _ := e.child("serverName")
			if s, ok := name.value().(string); ok {
				all = append(all, s)
			}
		}
		return all, there
	}
	if all, _ := names("deniedMcpServers"); slices.Contains(all, ownName) {
		return path + " denies mcpschedd"
	}
	if all, there := names("allowedMcpServers"); there && !slices.Contains(all, ownName) {
		return path + ` allows some servers ("allowedMcpServers"), and mcpschedd is none of them`
	}
	return ""
}
