package clients

import (
	"cmp"
	"maps"
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
		t := table{doc: doc, path: path, client: client, scope: "local", base: folder}
		t.disabled = stringsAt(doc.tree, "projects", folder, "disabledMcpServers")
		if at(doc.tree, path...) != nil {
			all = append(all, t)
		}
		checkedIn := r.other(filepath.Join(folder, ".mcp.json"))
		if checkedIn != nil && at(checkedIn.tree, "mcpServers") != nil {
			t.doc, t.path, t.scope = checkedIn, path[2:], "project"
			all = append(all, r.approved(t, at(doc.tree, "projects", folder)))
		}
	}
	return all
}

// approvals are the decisions of a user about the servers of a project's .mcp.json.
type approvals struct {
	approved, rejected []string
	all                bool // those without a decision are approved
}

// approvals returns the decisions in the settings for a folder, and in project, which is the
// folder's entry in the user's file.
func (r *Reader) approvals(folder string, project any) (a approvals) {
	trees := []any{project}
	for _, path := range []string{filepath.Join(folder, ".claude", "settings.local.json"), HooksFile(r.options.Machine)} {
		if s := r.other(path); s != nil {
			trees = append(trees, s.tree)
			a.all = a.all || at(s.tree, "enableAllProjectMcpServers") == true
		}
	}
	for _, tree := range trees {
		a.approved = append(a.approved, stringsAt(tree, "enabledMcpjsonServers")...)
		a.rejected = append(a.rejected, stringsAt(tree, "disabledMcpjsonServers")...)
	}
	return a
}

// approved restricts the servers of a folder's .mcp.json to the approved ones, with a note
// about those without a decision.
func (r *Reader) approved(t table, project any) table {
	a := r.approvals(t.base, project)
	t.includes = func(name string) bool {
		return !slices.Contains(a.rejected, name) && (a.all || slices.Contains(a.approved, name))
	}
	var unapproved []string
	for _, name := range t.doc.names(t.path) {
		if !t.includes(name) && !slices.Contains(a.rejected, name) {
			unapproved = append(unapproved, shown(name))
		}
	}
	if unapproved != nil {
		r.note(t.doc.path+": /mcpServers", "left out, since they are not approved in Claude Code: "+strings.Join(unapproved, ", "), false)
	}
	return t
}

// switchedOff returns the names of the servers in a .mcp.json that the user has rejected, or
// switched off in its folder. They are imported disabled if the file is named.
func (r *Reader) switchedOff(folder string) []string {
	project := any(nil)
	if user := r.other(filepath.Join(r.options.folder("CLAUDE"), ".claude.json")); user != nil {
		project = at(user.tree, "projects", folder)
	}
	return append(r.approvals(folder, project).rejected, stringsAt(project, "disabledMcpServers")...)
}

// foldersWithout returns the folders in which Claude Code's user has switched off a server
// that is for all folders.
func (t table) foldersWithout(name string) (all []string) {
	for _, folder := range t.doc.projects() {
		if t.scope == "user" && slices.Contains(stringsAt(t.doc.tree, "projects", folder, "disabledMcpServers"), name) {
			all = append(all, folder)
		}
	}
	return all
}

// settings is a settings file of Claude Code.
type settings struct {
	path    string
	project string // folder of its project; "" if it applies everywhere
	shared  bool   // checked in with the project, or an administrator's
	doc     *document
}

// settingsFolders returns the folders with settings, agents and commands: the user's under "",
// and those of the projects in the user's file.
func (r *Reader) settingsFolders() map[string]string {
	users := r.options.folder("CLAUDE SETTINGS")
	all := map[string]string{"": users}
	for _, doc := range r.docs {
		for _, project := range doc.projects() {
			if folder := filepath.Join(project, ".claude"); folder != users {
				all[project] = folder
			}
		}
	}
	return all
}

// settingsFiles returns the settings files that exist.
func (r *Reader) settingsFiles() []settings {
	all := []settings{{r.options.managed("managed-settings.json"), "", true, nil}}
	folders := r.settingsFolders()
	for _, project := range slices.Sorted(maps.Keys(folders)) {
		all = append(all, settings{filepath.Join(folders[project], "settings.json"), project, project != "", nil},
			settings{filepath.Join(folders[project], "settings.local.json"), project, false, nil})
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

// forbids reports whether the settings of Gemini CLI do not let a server run.
func forbids(gemini *document, name string) bool {
	isName := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) }
	return slices.ContainsFunc(stringsAt(gemini.tree, "mcp", "excluded"), isName) ||
		at(gemini.tree, "mcp", "allowed") != nil && !slices.ContainsFunc(stringsAt(gemini.tree, "mcp", "allowed"), isName)
}

// Forbidden returns the reason why the client of a file would not start mcpschedd,
// because of an administrator's settings of Claude Code or Gemini CLI's own, or "".
func (r *Reader) Forbidden(path string) string {
	own := r.docs[path]
	if own == nil {
		return ""
	}
	if forbids(own, ownName) {
		return path + `: "mcp": {"allowed", "excluded"} does not let mcpschedd run: change it first`
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
