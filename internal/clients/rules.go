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

// Claude Code's settings have rules with names of servers' tools. These names change
// when a server is moved behind mcpschedd: mcp__github__get_me becomes
// mcp__mcpschedd__github__get_me.

// Rewrite is a file with rules, and its text with the new names.
type Rewrite struct {
	Path    string
	Was     []byte
	Text    []byte
	Renamed []Rename
	Checked bool // belongs to a project, so it is not changed
}

// renamedBack reverts the renames in a text.
func renamedBack(text []byte, all []Rename) []byte {
	return ruleWord.ReplaceAllFunc(text, func(word []byte) []byte {
		if i := slices.IndexFunc(all, func(r Rename) bool { return r.To == string(word) }); i >= 0 {
			return []byte(all[i].From)
		}
		return word
	})
}

// ruleName returns the name of a server or tool in Claude Code's rules.
func ruleName(name string) string { return notInRule.ReplaceAllString(name, "_") }

var (
	notInRule = regexp.MustCompile(`[^A-Za-z0-9_-]`)
	// ruleWord matches names in rules, and the commands of hooks, in which nothing is
	// renamed.
	ruleWord = regexp.MustCompile(`"command"\s*:\s*"(?:[^"\\]|\\.)*"|\bmcp__[A-Za-z0-9_-]+\*?`)
)

// Deny adds to each server the tools that the client's rules deny. A project's rule
// applies everywhere for a server that all projects have.
func (r *Reader) Deny() {
	for file, doc := range r.settings() {
		for _, rule := range stringsAt(doc.tree, "permissions", "deny") {
			rule, _, _ = strings.Cut(rule, "(")
			for i := range r.servers {
				s := &r.servers[i]
				folders := s.Block.Folders
				elsewhere := file.folder != "" && len(folders) > 0 && !slices.Contains(folders, file.folder)
				if s.From.Client != "claude" || elsewhere {
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

// denied returns the glob of a server's tools that a rule denies.
func denied(rule, server string) (string, bool) {
	rest, ok := strings.CutPrefix(rule, "mcp__"+ruleName(server))
	if !ok || rest == "" {
		return "*", ok
	}
	tool, ok := strings.CutPrefix(rest, "__")
	return tool, ok && tool != ""
}

// Move is a server of a client that became an upstream.
type Move struct {
	Name     string `json:"name"`             // in the client's file
	Folder   string `json:"folder,omitempty"` // project folder of the server; "" if it is for all
	Upstream string `json:"upstream"`
}

func (s Server) move() Move {
	return Move{s.From.entry, strings.Join(s.Block.Folders, ""), s.Upstream}
}

// Rewrites returns the files with rules, hooks, agents and commands that name tools of
// Claude Code's servers which become upstreams or did so in earlier moves. prefix means
// that the tools are listed as upstream__tool.
func (r *Reader) Rewrites(earlier []Move, prefix bool) []Rewrite {
	var moves []Move
	for _, s := range r.servers {
		if s.Upstream != "" && s.From.Client == "claude" {
			moves = append(moves, s.move())
		}
	}
	moves = append(moves, earlier...)
	var all []Rewrite
	rewrite := func(path string, was []byte, head int, folder string, checked bool) {
		names := renamer{moves: moves, folder: folder, prefix: prefix}
		if text := append([]byte(names.replace(string(was[:head]))), was[head:]...); len(names.renamed) > 0 {
			all = append(all, Rewrite{path, was, text, names.renamed, checked})
		}
	}
	for f, doc := range r.settings() {
		was := doc.bytes()
		rewrite(f.path, was, len(was), f.folder, f.shared || f.path == r.options.managed("managed-settings.json"))
	}
	for _, folder := range r.claudeFolders() {
		for _, path := range markdown(folder.path) {
			if was, err := r.options.ReadFile(path); err == nil {
				rewrite(path, was, frontMatter(was), folder.folder, folder.shared)
			}
		}
	}
	slices.SortFunc(all, func(a, b Rewrite) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// renamer replaces old names of tools with new ones in one file.
type renamer struct {
	moves   []Move
	folder  string // of the file's project; "" if none
	prefix  bool
	renamed []Rename
}

func (n *renamer) replace(s string) string {
	return ruleWord.ReplaceAllStringFunc(s, func(word string) string {
		to := newName(word, n.folder, n.moves, n.prefix)
		if one := (Rename{word, to}); to != word && !slices.Contains(n.renamed, one) {
			n.renamed = append(n.renamed, one)
		}
		return to
	})
}

// newName returns the new form of a name in a rule. If the names of two servers are
// prefixes, the longer one counts, and a server of the folder takes precedence over one
// for all.
func newName(word, folder string, moves []Move, prefix bool) string {
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

// markdown returns the files of agents, commands and skills in a folder with settings.
func markdown(folder string) (all []string) {
	for _, kind := range []string{"agents", "commands", "skills"} {
		_ = filepath.WalkDir(filepath.Join(folder, kind), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && strings.HasSuffix(path, ".md") {
				all = append(all, path)
			}
			return nil // unreadable files are skipped
		})
	}
	return all
}

// frontMatter returns the length of a Markdown file's front matter.
func frontMatter(text []byte) int {
	if !bytes.HasPrefix(text, []byte("---")) {
		return 0
	}
	end := bytes.Index(text[3:], []byte("\n---"))
	return max(0, end+3)
}
