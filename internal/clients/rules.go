package clients

import (
	"bytes"
	"cmp"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Claude Code's settings have rules with names of servers' tools. These names change
// when a server is moved behind mcpschedd: mcp__github__get_me becomes
// mcp__mcpschedd__github__get_me.

// ruleName returns the beginning of a server's tools in Claude Code's rules.
func ruleName(server string) string { return "mcp__" + notInRule.ReplaceAllString(server, "_") }

var (
	notInRule = regexp.MustCompile(`[^A-Za-z0-9_-]`)
	// ruleWord matches names in rules, and the commands of hooks, in which nothing is
	// renamed.
	ruleWord = regexp.MustCompile(`"command"\s*:\s*"(?:[^"\\]|\\.)*"|\bmcp__[A-Za-z0-9_-]+\*?`)
)

// Deny adds to each server the tools that Claude Code's rules deny, also if another client has the
// same server, as both get one upstream. A project's rule applies everywhere for a server that all
// projects have.
func (r *Reader) Deny() {
	for _, file := range r.settingsFiles() {
		for _, rule := range stringsAt(file.doc.tree, "permissions", "deny") {
			name, _, _ := strings.Cut(rule, "(")
			for _, s := range r.servers {
				folders := s.Block.Folders
				elsewhere := file.project != "" && len(folders) > 0 && !slices.Contains(folders, file.project)
				if tool, ok := denied(name, s.From.entry); ok && s.From.Client == "claude" && !elsewhere {
					r.deny(s, tool, oneLine(name+" is denied by "+file.path))
				}
			}
		}
	}
	for i := range r.servers {
		slices.Sort(r.servers[i].Block.DenyTools)
	}
}

// deny adds a denied tool, and a note on it, to a server of Claude Code and to those of other clients that run
// the same under its name, perhaps with other settings, or with the same settings under another name: Claude Code
// will be offered these too.
func (r *Reader) deny(of Server, tool, note string) {
	a := of.Block
	for i := range r.servers {
		s := &r.servers[i]
		b := s.Block
		runs := a.Command == b.Command && slices.Equal(a.Args, b.Args) && a.URL == b.URL
		same := a.Cwd == b.Cwd && slices.Equal(a.Env, b.Env) && slices.Equal(a.Headers, b.Headers) && a.EnvFile == b.EnvFile &&
			reflect.DeepEqual(of.Variables, s.Variables)
		isOffered := runs && (same || s.Plain() == of.Plain()) && s.From.Client != "claude"
		if (s.Name == of.Name || isOffered) && !slices.Contains(b.DenyTools, tool) {
			s.Block.DenyTools, s.Notes = append(s.Block.DenyTools, tool), append(s.Notes, note)
		}
	}
}

// denied returns the glob of a server's tools that a rule denies.
func denied(rule, server string) (string, bool) {
	rest, ok := strings.CutPrefix(rule, ruleName(server))
	if !ok || rest == "" {
		return "*", ok
	}
	tool, ok := strings.CutPrefix(rest, "__")
	return tool, ok && tool != ""
}

// Rewrites returns the changes to the files with rules, hooks, agents and commands that
// name tools of Claude Code's servers which become upstreams or did so in earlier moves.
// prefix means that the tools are listed as NAME__TOOL.
func (r *Reader) Rewrites(earlier []Move, prefix bool) (all []Change) {
	var moves []Move
	var stay []Move // of which the rules are about the client's own server
	for _, s := range r.servers {
		switch m := s.move(); {
		case s.From.Client != "claude":
		case s.Stays == "":
			moves = append(moves, m)
		default:
			stay = append(stay, Move{Name: m.Name, Folder: m.Folder})
		}
	}
	for _, m := range earlier {
		if !slices.Contains(stay, Move{Name: m.Name, Folder: m.Folder}) {
			moves = append(moves, m)
		}
	}
	// If the names of two servers are prefixes, the longer one counts, and a server of the
	// folder takes precedence over one for all.
	slices.SortStableFunc(moves, func(a, b Move) int {
		return cmp.Or(len(ruleName(b.Name))-len(ruleName(a.Name)), cmp.Compare(b.Folder, a.Folder))
	})
	// rewrite renames in the first bytes of a file.
	rewrite := func(path, project string, shared bool, was []byte, head int) {
		c := Change{Path: path, Was: was, Shared: shared}
		text := ruleWord.ReplaceAllFunc(was[:head], func(word []byte) []byte {
			to := newName(string(word), project, moves, prefix)
			if one := (Rename{string(word), to}); one.From != to && !slices.Contains(c.Renamed, one) {
				c.Renamed = append(c.Renamed, one)
			}
			return []byte(to)
		})
		if c.Text = append(text, was[head:]...); c.Renamed != nil {
			all = append(all, c)
		}
	}
	for _, f := range r.settingsFiles() {
		was := f.doc.bytes()
		rewrite(f.path, f.project, f.shared, was, len(was))
	}
	for project, folder := range r.settingsFolders() {
		for _, path := range markdown(folder) {
			if was, err := r.options.ReadFile(path); err == nil {
				rewrite(path, project, project != "", was, frontMatter(was))
			}
		}
	}
	slices.SortFunc(all, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// newName returns the new form of a name in a rule, by the first move that applies.
func newName(word, folder string, moves []Move, prefix bool) string {
	for _, m := range moves {
		rest, ok := strings.CutPrefix(word, ruleName(m.Name))
		switch {
		case !ok, rest != "" && !strings.HasPrefix(rest, "__"), m.Folder != "" && m.Folder != folder:
			continue
		case !prefix:
			return "mcp__" + ownName + rest
		}
		return "mcp__" + ownName + "__" + m.Upstream + cmp.Or(rest, "__*")
	}
	return word
}

// Rename adds the renames of another change to this one of the same file.
func (c *Change) Rename(other Change) {
	c.Renamed = other.Renamed
	c.Text = renamed(c.Text, c.Renamed)
}

// Renames describes the new names in a file's rules.
func (c Change) Renames() string {
	var names []string
	for _, n := range c.Renamed {
		names = append(names, n.From+" is now "+n.To)
	}
	return c.Path + ": " + strings.Join(names, ", ")
}

// renamed makes renames in a text.
func renamed(text []byte, all []Rename) []byte {
	return ruleWord.ReplaceAllFunc(text, func(word []byte) []byte {
		if i := slices.IndexFunc(all, func(r Rename) bool { return r.From == string(word) }); i >= 0 {
			return []byte(all[i].To)
		}
		return word
	})
}

// renamedBack reverts the renames in a text.
func renamedBack(text []byte, all []Rename) []byte {
	back := make([]Rename, len(all))
	for i, r := range all {
		back[i] = Rename{From: r.To, To: r.From}
	}
	return renamed(text, back)
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
