package clients

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Rules are what Claude Code's settings say of the tools of servers, by names that hold no
// longer once a server stands behind mcpschedd: mcp__github__get_me is
// mcp__mcpschedd__github__get_me then.

// Rewrite is a file with rules, and what it would say by the new names.
type Rewrite struct {
	Path    string
	Was     []byte
	Text    []byte
	Renamed []Rename
	Checked bool // it belongs to a project, and is not changed
}

// renamedBack takes back what was renamed in a text.
func renamedBack(text []byte, all []Rename) []byte {
	for _, r := range all {
		text = bytes.ReplaceAll(text, []byte(r.To), []byte(r.From))
	}
	return text
}

// ruleName is what Claude Code calls a server, or a tool, in its rules.
func ruleName(name string) string { return unruly.ReplaceAllString(name, "_") }

var (
	unruly   = regexp.MustCompile(`[^A-Za-z0-9_-]`)
	ruleWord = regexp.MustCompile(`\bmcp__[A-Za-z0-9_-]+`)
)

// settingsFile is one of Claude Code's that has rules.
type settingsFile struct {
	path   string
	folder string // of the project it counts in; "": all
	shared bool   // the project has it checked in
}

// claudeFolders are where Claude Code keeps settings, agents and commands: the user's folder,
// and that of each project of which the user's own file knows.
func (r *Reader) claudeFolders(m Machine) []settingsFile {
	all := []settingsFile{{path: m.folder("CLAUDE_CONFIG_DIR", filepath.Join(r.options.Home, ".claude"))}}
	for _, doc := range r.docs {
		projects, _ := doc.root.child("projects")
		folders, _ := projects.members()
		for _, p := range folders {
			if filepath.IsAbs(p.name) && filepath.Join(p.name, ".claude") != all[0].path {
				all = append(all, settingsFile{filepath.Join(p.name, ".claude"), p.name, true})
			}
		}
	}
	return all
}

// settings are Claude Code's settings that are there.
func (r *Reader) settings(m Machine) map[settingsFile]*document {
	files := []settingsFile{{path: m.managed("managed-settings.json")}}
	for _, f := range r.claudeFolders(m) {
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
		return filepath.Join(cmp.Or(m.Env("ProgramFiles"), `C:\Program Files`), "ClaudeCode", name)
	}
	return filepath.Join("/etc/claude-code", name)
}

// Deny gives each server the tools that the client's rules forbid. A rule of one project
// counts everywhere for a server that all have.
func (r *Reader) Deny(m Machine) {
	for file, doc := range r.settings(m) {
		for _, rule := range doc.root.strings("permissions", "deny") {
			rule, _, _ = strings.Cut(rule, "(")
			for i := range r.servers {
				s := &r.servers[i]
				if s.Client != "claude" || file.folder != "" && len(s.Folders) > 0 && !slices.Contains(s.Folders, file.folder) {
					continue
				}
				tool, ok := denied(rule, s.entry)
				if !ok || slices.Contains(s.DenyTools, tool) {
					continue
				}
				s.DenyTools = append(s.DenyTools, tool)
				s.Notes = append(s.Notes, OneLine(fmt.Sprintf("%s is denied by %s", rule, file.path)))
			}
		}
	}
	for i := range r.servers {
		slices.Sort(r.servers[i].DenyTools)
		slices.Sort(r.servers[i].Notes)
	}
}

// denied is the glob of the tools that a rule forbids of a server.
func denied(rule, server string) (string, bool) {
	rest, ok := strings.CutPrefix(rule, "mcp__"+ruleName(server))
	if !ok || rest == "" {
		return "*", ok
	}
	tool, ok := strings.CutPrefix(rest, "__")
	return tool, ok && tool != ""
}

// Forbidden says why Claude Code, or Gemini CLI, would not start mcpschedd; "": it would.
func (r *Reader) Forbidden(m Machine) string {
	for path, doc := range r.docs {
		switch client, _ := clientOf(doc); client.Name {
		case "claude":
			if why := r.forbiddenByClaude(m); why != "" {
				return why
			}
		case "gemini":
			if list, ok := doc.root.child("mcp", "allowed"); ok && !slices.Contains(list.strings(), ownName) {
				return fmt.Sprintf(`%s: "mcp": {"allowed"} names the servers that may run, and not mcpschedd: put it there first`, path)
			}
		}
	}
	return ""
}

func (r *Reader) forbiddenByClaude(m Machine) string {
	if path := m.managed("managed-mcp.json"); r.other(path) != nil {
		return path + " says which servers Claude Code has: no other may be added"
	}
	path := m.managed("managed-settings.json")
	doc := r.other(path)
	if doc == nil {
		return ""
	}
	names := func(list string) (all []string, there bool) {
		at, there := doc.root.child(list)
		elements, _ := at.value.([]node)
		for _, e := range elements {
			if name, ok := e.child("serverName"); ok {
				all = append(all, fmt.Sprint(name.value))
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

// Move is a server of Claude Code that has become an upstream.
type Move struct {
	Name     string // as Claude Code calls it
	Folder   string // the only one that it is for; "": all
	Upstream string
}

// Moves are the servers that become upstreams. called is the upstream; "": it stays.
func (r *Reader) Moves(called func(Server) string) []Move {
	var all []Move
	for _, s := range r.servers {
		if upstream := called(s); upstream != "" && s.Client == "claude" {
			all = append(all, Move{s.entry, strings.Join(s.Folders, ""), upstream})
		}
	}
	return all
}

// Rewrites are the files whose rules, hooks, agents and commands name tools of servers that
// have moved. With prefix these are called upstream__tool.
func (r *Reader) Rewrites(m Machine, moves []Move, prefix bool) []Rewrite {
	var all []Rewrite
	add := func(f settingsFile, was []byte, text func(rename func(string) string) []byte) {
		var renamed []Rename
		now := text(func(s string) string {
			return ruleWord.ReplaceAllStringFunc(s, func(word string) string {
				to := nowCalled(word, f.folder, moves, prefix)
				if to != word && !slices.Contains(renamed, Rename{word, to}) {
					renamed = append(renamed, Rename{word, to})
				}
				return to
			})
		})
		if len(renamed) > 0 {
			all = append(all, Rewrite{f.path, was, now, renamed, f.shared})
		}
	}
	for f, doc := range r.settings(m) {
		f.shared = f.shared || f.path == m.managed("managed-settings.json")
		add(f, doc.wrote(doc.text), func(rename func(string) string) []byte {
			e := edit{doc: doc}
			for _, n := range doc.ruleTexts() {
				if s := n.value.(string); rename(s) != s {
					e.replace(n.from, n.to, quote(rename(s)))
				}
			}
			return doc.wrote(e.text())
		})
	}
	for _, folder := range r.claudeFolders(m) {
		for _, path := range markdown(folder.path) {
			data, err := r.options.ReadFile(path)
			if err != nil {
				continue
			}
			text, wrote := decode(data)
			head := frontMatter(text)
			add(settingsFile{path, folder.folder, folder.shared}, data, func(rename func(string) string) []byte {
				return wrote(append([]byte(rename(string(text[:head]))), text[head:]...))
			})
		}
	}
	slices.SortFunc(all, func(a, b Rewrite) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// ruleTexts are the strings in settings that name tools, but for what is denied: that is
// denied by our configuration.
func (d *document) ruleTexts() (all []node) {
	add := func(n node) {
		if _, ok := n.value.(string); ok {
			all = append(all, n)
		}
	}
	for _, list := range []string{"allow", "ask"} {
		at, _ := d.root.child("permissions", list)
		elements, _ := at.value.([]node)
		for _, e := range elements {
			add(e)
		}
	}
	hooks, _ := d.root.child("hooks")
	events, _ := hooks.members()
	for _, event := range events {
		matchers, _ := event.value.([]node)
		for _, one := range matchers {
			matcher, _ := one.child("matcher")
			add(matcher)
		}
	}
	return all
}

// nowCalled is a word of a rule by the names that hold with mcpschedd between. Of two servers
// whose names it begins with the longer counts, and one of that folder before one of all.
func nowCalled(word, folder string, moves []Move, prefix bool) string {
	best, length := word, 0
	for _, m := range moves {
		old := "mcp__" + ruleName(m.Name)
		rest, ok := strings.CutPrefix(word, old)
		here := m.Folder != "" && m.Folder == folder
		if !ok || rest != "" && !strings.HasPrefix(rest, "__") || m.Folder != "" && !here {
			continue
		}
		if long := 2 * len(old); long > length || here && long == length {
			to := "mcp__" + ownName
			if prefix {
				to += "__" + m.Upstream
			}
			if rest == "" && prefix {
				rest = "__*"
			}
			best, length = to+rest, long
		}
	}
	return best
}

// markdown are the files of agents, commands and skills below a folder of settings.
func markdown(folder string) (all []string) {
	for _, kind := range []string{"agents", "commands", "skills"} {
		_ = filepath.WalkDir(filepath.Join(folder, kind), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && strings.HasSuffix(path, ".md") {
				all = append(all, path)
			}
			return nil // what cannot be read has no rules
		})
	}
	return all
}

// frontMatter is how far the settings reach that a Markdown file begins with.
func frontMatter(text []byte) int {
	if !bytes.HasPrefix(text, []byte("---")) {
		return 0
	}
	end := bytes.Index(text[3:], []byte("\n---"))
	return max(0, end+3)
}
