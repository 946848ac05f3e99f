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

	"github.com/tailscale/hujson"
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

// Deny gives each server the tools that the client's rules forbid. A rule of one project
// counts everywhere for a server that all have.
func (r *Reader) Deny() {
	for file, doc := range r.settings() {
		for _, rule := range doc.top().strings("permissions", "deny") {
			rule, _, _ = strings.Cut(rule, "(")
			for i := range r.servers {
				s := &r.servers[i]
				if s.From.Client != "claude" || file.folder != "" && len(s.Block.Folders) > 0 && !slices.Contains(s.Block.Folders, file.folder) {
					continue
				}
				tool, ok := denied(rule, s.From.entry)
				if !ok || slices.Contains(s.Block.DenyTools, tool) {
					continue
				}
				s.Block.DenyTools = append(s.Block.DenyTools, tool)
				s.Notes = append(s.Notes, OneLine(fmt.Sprintf("%s is denied by %s", rule, file.path)))
			}
		}
	}
	for i := range r.servers {
		slices.Sort(r.servers[i].Block.DenyTools)
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

// Forbidden says why Claude Code, or Gemini CLI, would not start mcpschedd if the file of it
// that was read named it; "": it would.
func (r *Reader) Forbidden(path string) string {
	doc := r.docs[path]
	if doc == nil {
		return ""
	}
	switch client, _ := clientOf(doc); client.Name {
	case "claude":
		return r.forbiddenByClaude()
	case "gemini":
		if list, ok := doc.top().child("mcp", "allowed"); ok && !slices.Contains(list.strings(), ownName) {
			return fmt.Sprintf(`%s: "mcp": {"allowed"} names the servers that may run, and not mcpschedd: put it there first`, path)
		}
	}
	return ""
}

// Move is a server of a client that has become an upstream.
type Move struct {
	Name     string `json:"name"`             // as the client calls it
	Folder   string `json:"folder,omitempty"` // the only one that it is for; "": all
	Upstream string `json:"upstream"`
}

func (s Server) move() Move {
	return Move{s.From.entry, strings.Join(s.Block.Folders, ""), s.Upstream}
}

// Rewrites are the files whose rules, hooks, agents and commands name tools of servers of Claude
// Code that become upstreams, or have by earlier moves. With prefix these are called
// upstream__tool.
func (r *Reader) Rewrites(earlier []Move, prefix bool) []Rewrite {
	var moves []Move
	for _, s := range r.servers {
		if s.Upstream != "" && s.From.Client == "claude" {
			moves = append(moves, s.move())
		}
	}
	moves = append(moves, earlier...)
	var all []Rewrite
	for f, doc := range r.settings() {
		names := renamer{moves: moves, folder: f.folder, prefix: prefix}
		text, err := doc.edited(func(d *document) error {
			for _, n := range d.ruleTexts() {
				if s, _ := n.value().(string); names.replace(s) != s {
					n.json.Value = hujson.String(names.replace(s))
				}
			}
			d.pack()
			return nil
		})
		if err == nil && len(names.renamed) > 0 {
			all = append(all, Rewrite{f.path, doc.bytes(), text, names.renamed, f.shared || f.path == r.options.managed("managed-settings.json")})
		}
	}
	for _, folder := range r.claudeFolders() {
		for _, path := range markdown(folder.path) {
			was, err := r.options.ReadFile(path)
			if err != nil {
				continue
			}
			names := renamer{moves: moves, folder: folder.folder, prefix: prefix}
			head := frontMatter(was)
			if text := append([]byte(names.replace(string(was[:head]))), was[head:]...); len(names.renamed) > 0 {
				all = append(all, Rewrite{path, was, text, names.renamed, folder.shared})
			}
		}
	}
	slices.SortFunc(all, func(a, b Rewrite) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// renamer puts the names that hold in the place of those that did, in one file.
type renamer struct {
	moves   []Move
	folder  string // of the project that the file belongs to; "": none
	prefix  bool
	renamed []Rename
}

func (n *renamer) replace(s string) string {
	return ruleWord.ReplaceAllStringFunc(s, func(word string) string {
		to := nowCalled(word, n.folder, n.moves, n.prefix)
		if one := (Rename{word, to}); to != word && !slices.Contains(n.renamed, one) {
			n.renamed = append(n.renamed, one)
		}
		return to
	})
}

// ruleTexts are the strings in settings that name tools, but for what is denied: that is
// denied by our configuration.
func (d *document) ruleTexts() []node {
	all := append(d.top().elements("permissions", "allow"), d.top().elements("permissions", "ask")...)
	hooks, _ := d.top().child("hooks")
	events, _ := hooks.members()
	for _, event := range events {
		for _, one := range event.elements() {
			if matcher, ok := one.child("matcher"); ok {
				all = append(all, matcher)
			}
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
