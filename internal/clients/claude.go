package clients

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// What is Claude Code's own: servers for one folder, approval of what a project has
// checked in, settings in several places, and an administrator above them.

// local returns the servers that Claude Code has for single folders: those in the user's
// file, and the approved ones of the folder's .mcp.json.
func (r *Reader) local(doc *document, client *Client) (all []table) {
	for _, folder := range doc.projects() {
		path := []string{"projects", folder, "mcpServers"}
		if at(doc.tree, path...) != nil {
			all = append(all, table{
				doc: doc, path: path, client: client, scope: "local", base: folder,
				disabled: stringsAt(doc.tree, "projects", folder, "disabledMcpServers"),
			})
		}
		checkedIn := r.other(filepath.Join(folder, ".mcp.json"))
		if checkedIn != nil && at(checkedIn.tree, "mcpServers") != nil {
			all = append(all, r.approved(checkedIn, at(doc.tree, "projects", folder), folder, client))
		}
	}
	return all
}

// approved returns the servers of a folder's .mcp.json that are approved in the user's
// file, in which project is the folder's entry, or in the settings. It adds a note about
// the others.
func (r *Reader) approved(doc *document, project any, folder string, client *Client) table {
	enabled, disabled, enableAll := []string(nil), []string(nil), false
	read := func(tree any) {
		enabled = append(enabled, stringsAt(tree, "enabledMcpjsonServers")...)
		disabled = append(disabled, stringsAt(tree, "disabledMcpjsonServers")...)
	}
	read(project)
	local := filepath.Join(folder, ".claude", "settings.local.json")
	for _, path := range []string{local, filepath.Join(r.options.Home, ".claude", "settings.json")} {
		if s := r.other(path); s != nil {
			read(s.tree)
			enableAll = enableAll || at(s.tree, "enableAllProjectMcpServers") == true
		}
	}
	t := table{doc: doc, path: []string{"mcpServers"}, client: client, scope: "project", base: folder}
	t.includes = func(name string) bool {
		return !slices.Contains(disabled, name) && (enableAll || slices.Contains(enabled, name))
	}
	var unapproved []string
	for _, name := range doc.names(t.path) {
		if !t.includes(name) && !slices.Contains(disabled, name) {
			unapproved = append(unapproved, shown(name))
		}
	}
	if unapproved != nil {
		r.note(doc.path+": /mcpServers", "left out, since they are not approved in Claude Code: "+strings.Join(unapproved, ", "), false)
	}
	return t
}

// settings is a folder with Claude Code's settings, agents and commands, or one settings
// file in it.
type settings struct {
	path   string
	folder string // folder of its project; "" if it applies everywhere
	shared bool   // checked in with the project, or an administrator's
	doc    *document
}

// settingsFolders returns the user's folder, and one for each project in the user's file.
func (r *Reader) settingsFolders() []settings {
	all := []settings{{path: r.options.folder("CLAUDE SETTINGS")}}
	for _, doc := range r.docs {
		for _, folder := range doc.projects() {
			if path := filepath.Join(folder, ".claude"); path != all[0].path {
				all = append(all, settings{path: path, folder: folder, shared: true})
			}
		}
	}
	return all
}

// settingsFiles returns the settings files that exist.
func (r *Reader) settingsFiles() []settings {
	all := []settings{{path: r.options.managed("managed-settings.json"), shared: true}}
	for _, f := range r.settingsFolders() {
		shared, local := f, f
		shared.path = filepath.Join(f.path, "settings.json")
		local.path, local.shared = filepath.Join(f.path, "settings.local.json"), false
		all = append(all, shared, local)
	}
	for i := range all {
		all[i].doc = r.other(all[i].path)
	}
	return slices.DeleteFunc(all, func(s settings) bool { return s.doc == nil })
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

// Forbidden returns the reason why the client of a file would not start mcpschedd,
// because of an administrator's settings of Claude Code or Gemini CLI's own, or "".
func (r *Reader) Forbidden(path string) string {
	own := r.docs[path]
	if own == nil {
		return ""
	}
	if at(own.tree, "mcp", "allowed") != nil && !slices.Contains(stringsAt(own.tree, "mcp", "allowed"), ownName) {
		return path + `: "mcp": {"allowed"} lists the servers that may run, without mcpschedd: add it there first`
	}
	if filepath.Base(path) != ".claude.json" {
		return ""
	}
	if path := r.options.managed("managed-mcp.json"); r.other(path) != nil {
		return path + " lists all servers that Claude Code may use: no other may be added"
	}
	managed := r.options.managed("managed-settings.json")
	doc := r.other(managed)
	if doc == nil {
		return ""
	}
	has := func(list string) bool {
		all, _ := at(doc.tree, list).([]any)
		return slices.ContainsFunc(all, func(e any) bool { return at(e, "serverName") == ownName })
	}
	if has("deniedMcpServers") || at(doc.tree, "allowedMcpServers") != nil && !has("allowedMcpServers") {
		return managed + ` does not allow mcpschedd ("allowedMcpServers", "deniedMcpServers")`
	}
	return ""
}
