package clients

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// What is Claude Code's own: servers for one folder, approval of what a project has
// checked in, settings in several places, and an administrator above them.

// local returns the servers that Claude Code has for single folders: those in the user's
// file, and the approved ones of the folder's .mcp.json. A note names those without a decision.
func (r *Reader) local(doc *document, client *Client) (all []table) {
	for _, folder := range doc.projects() {
		d := r.decisions(folder, doc)
		t := table{doc: doc, path: []string{"projects", folder, "mcpServers"}, client: client, scope: "local", base: folder, disabled: d.off}
		if at(doc.tree, t.path...) != nil {
			all = append(all, t)
		}
		t.doc, t.path, t.scope = r.other(filepath.Join(folder, ".mcp.json")), []string{"mcpServers"}, "project"
		if t.doc == nil || at(t.doc.tree, t.path...) == nil {
			continue
		}
		t.includes = func(name string) bool {
			return !slices.Contains(d.rejected, name) && (d.approveAll || slices.Contains(d.approved, name))
		}
		all = append(all, t)
		var undecided []string
		for _, name := range t.doc.names(t.path) {
			if !t.includes(name) && !slices.Contains(d.rejected, name) {
				undecided = append(undecided, shown(name))
			}
		}
		if undecided != nil {
			r.note(t.doc.path+": /mcpServers", "left out, since they are not approved in Claude Code: "+strings.Join(undecided, ", "))
		}
	}
	return all
}

// decisions are those of Claude Code's user about the servers in a folder.
type decisions struct {
	off                []string // switched off
	approved, rejected []string // of the folder's .mcp.json
	approveAll         bool     // of it, if they are not rejected
}

// decisions returns the decisions in the user's file, which may be nil, and in the settings.
func (r *Reader) decisions(folder string, user *document) (d decisions) {
	read := func(tree any) {
		d.approved = append(d.approved, stringsAt(tree, "enabledMcpjsonServers")...)
		d.rejected = append(d.rejected, stringsAt(tree, "disabledMcpjsonServers")...)
	}
	if user != nil {
		project := at(user.tree, "projects", folder)
		read(project)
		d.off = stringsAt(project, "disabledMcpServers")
	}
	for _, path := range []string{filepath.Join(folder, ".claude", "settings.local.json"), r.HooksFile()} {
		if s := r.other(path); s != nil {
			read(s.tree)
			d.approveAll = d.approveAll || at(s.tree, "enableAllProjectMcpServers") == true
		}
	}
	return d
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
		return filepath.Join(cmp.Or(m.Env("ProgramFiles"), `C:\Program Files`), "ClaudeCode", name)
	}
	return filepath.Join("/etc/claude-code", name)
}

// forbids reports whether the settings of Gemini CLI or Qwen Code do not let a server run.
func forbids(gemini *document, name string) bool {
	if client, _ := clientOf(gemini); client.Name != "gemini" && client.Name != "qwen" {
		return false
	}
	isName := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) }
	return slices.ContainsFunc(stringsAt(gemini.tree, "mcp", "excluded"), isName) ||
		at(gemini.tree, "mcp", "allowed") != nil && !slices.ContainsFunc(stringsAt(gemini.tree, "mcp", "allowed"), isName)
}

// namesTools reports whether OpenCode's rules name tools of a server, as NAME_TOOL: they would not hold for mcpschedd's.
func namesTools(openCode *document, name string) bool {
	prefix := regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(name, "_") + "_"
	holders := []any{openCode.tree}
	for _, key := range []string{"agent", "mode"} {
		agents, _ := at(openCode.tree, key).(map[string]any)
		holders = slices.AppendSeq(holders, maps.Values(agents))
	}
	return slices.ContainsFunc(holders, func(holder any) bool {
		tools, _ := at(holder, "tools").(map[string]any)
		permission, _ := at(holder, "permission").(map[string]any)
		return slices.ContainsFunc(slices.AppendSeq(slices.Collect(maps.Keys(tools)), maps.Keys(permission)), func(pattern string) bool {
			wild := strings.IndexAny(pattern, "*?")
			return strings.HasPrefix(pattern, prefix) || wild > 0 && strings.HasPrefix(prefix, pattern[:wild])
		})
	})
}

// refusesTools reports whether settings of Gemini CLI or Qwen Code exclude tools of a server, or deny their calls or ask
// before them.
func refusesTools(d *document, name string) bool {
	rules := slices.Concat(stringsAt(d.tree, "excludeTools"), stringsAt(d.tree, "tools", "exclude"), stringsAt(d.tree, "permissions", "deny"), stringsAt(d.tree, "permissions", "ask"))
	return slices.ContainsFunc(rules, func(rule string) bool {
		rule = strings.TrimLeft(strings.TrimPrefix(rule, "mcp"), "_")
		return rule == name || strings.HasPrefix(rule, name+"_")
	})
}

// Forbidden returns the reason why servers of a file cannot be replaced by mcpschedd, or "":
// another server has its name and stays, or the client would not start it, because of an
// administrator's settings of Claude Code, or Gemini CLI's or Qwen Code's own.
func (r *Reader) Forbidden(path string) string {
	own := r.docs[path]
	if own == nil {
		return ""
	}
	_, table := clientOf(own)
	if !r.self[path] && len(r.taken(path)) > 0 &&
		slices.Contains(own.names(table), ownName) && !has(r.taken(path), table, ownName) {
		return own.where(append(slices.Clip(table), ownName)...) + ": mcpschedd is another server there, or is switched off or for --only one, and stays: rename or remove it first"
	}
	if forbids(own, ownName) {
		return path + `: "mcp": {"allowed", "excluded"} does not let mcpschedd run: change it first`
	}
	if !isClaudes(path) {
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
	lists := func(list string) bool {
		all, _ := at(doc.tree, list).([]any)
		return slices.ContainsFunc(all, func(e any) bool { return at(e, "serverName") == ownName })
	}
	if lists("deniedMcpServers") || at(doc.tree, "allowedMcpServers") != nil && !lists("allowedMcpServers") {
		return managed + ` does not allow mcpschedd ("allowedMcpServers", "deniedMcpServers")`
	}
	return ""
}
