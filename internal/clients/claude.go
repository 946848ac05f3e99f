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
		if t, ok := r.checkedIn(at(doc.tree, "projects", folder), folder, client); ok {
			all = append(all, t)
		}
	}
	return all
}

// checkedIn returns the servers of a folder's .mcp.json. It adds a note about servers
// that are not approved, neither in the user's file, in which project is the folder's
// entry, nor in the settings.
func (r *Reader) checkedIn(project any, folder string, client *Client) (table, bool) {
	doc := r.other(filepath.Join(folder, ".mcp.json"))
	if doc == nil || at(doc.tree, "mcpServers") == nil {
		return table{}, false
	}
	enableAll, enabled, disabled := false, []string(nil), []string(nil)
	approvals := []any{project}
	local := filepath.Join(folder, ".claude", "settings.local.json")
	for _, path := range []string{local, filepath.Join(r.options.Home, ".claude", "settings.json")} {
		if s := r.other(path); s != nil {
			approvals = append(approvals, s.tree)
			enableAll = enableAll || at(s.tree, "enableAllProjectMcpServers") == true
		}
	}
	for _, tree := range approvals {
		enabled = append(enabled, stringsAt(tree, "enabledMcpjsonServers")...)
		disabled = append(disabled, stringsAt(tree, "disabledMcpjsonServers")...)
	}
	t := table{doc: doc, path: []string{"mcpServers"}, client: client, scope: "project", base: folder}
	t.includes = func(name string) bool {
		return !slices.Contains(disabled, name) && (enableAll || slices.Contains(enabled, name))
	}
	var unapproved []string
	for _, e := range doc.entries(t.path) {
		if !t.includes(e.name) && !slices.Contains(disabled, e.name) {
			unapproved = append(unapproved, shown(e.name))
		}
	}
	if len(unapproved) > 0 {
		text := "left out, since they are not approved in Claude Code: " + strings.Join(unapproved, ", ")
		r.notes = append(r.notes, Note{doc.path + ": /mcpServers", text, false})
	}
	return t, true
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
		for _, folder := range doc.projects() {
			if path := filepath.Join(folder, ".claude"); path != all[0].path {
				all = append(all, settingsFile{path, folder, true})
			}
		}
	}
	return all
}

// settings returns Claude Code's existing settings files.
func (r *Reader) settings() map[settingsFile]*document {
	files := []settingsFile{{path: r.options.managed("managed-settings.json")}}
	for _, f := range r.claudeFolders() {
		files = append(files,
			settingsFile{filepath.Join(f.path, "settings.json"), f.folder, f.shared},
			settingsFile{filepath.Join(f.path, "settings.local.json"), f.folder, false})
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
	path = r.options.managed("managed-settings.json")
	doc := r.other(path)
	if doc == nil {
		return ""
	}
	has := func(list string) bool {
		all, _ := at(doc.tree, list).([]any)
		return slices.ContainsFunc(all, func(e any) bool { return at(e, "serverName") == ownName })
	}
	if has("deniedMcpServers") || at(doc.tree, "allowedMcpServers") != nil && !has("allowedMcpServers") {
		return path + ` does not allow mcpschedd ("allowedMcpServers", "deniedMcpServers")`
	}
	return ""
}
