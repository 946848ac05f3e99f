package clients

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// rulePrefix begins the names of a server's tools in Claude Code's rules, hooks and agents.
func rulePrefix(server string) string { return "mcp__" + unruly.ReplaceAllString(server, "_") }

// RuleNames says by which names Claude Code's rules hold for a server that has become an upstream;
// "": it is not Claude Code's.
func (s Server) RuleNames(upstream string) string {
	if s.From.Client != "claude" {
		return ""
	}
	return fmt.Sprintf("%s__TOOL is mcp__%s__%s__TOOL", rulePrefix(s.From.entry), ownName, upstream)
}

var unruly = regexp.MustCompile(`[^A-Za-z0-9_-]`)

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
	rest, ok := strings.CutPrefix(rule, rulePrefix(server))
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
