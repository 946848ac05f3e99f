package clients

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Next are the steps by which clients come to use mcpschedd in the place of servers that
// our configuration has now. args are what mcpschedd is started with; self are the files
// that have it already.
func Next(servers []Server, args, self []string) []string {
	var steps []string
	added := slices.Clone(self)
	for _, group := range groups(servers) {
		first := group[0]
		if !slices.Contains(added, first.File) {
			added = append(added, first.File)
			steps = append(steps, addition(first, args, claudeScope(servers, first.File)))
		}
		var names []string
		for _, s := range group {
			names = append(names, s.called())
		}
		scope := claudeScope(group, first.File)
		if scope == "" {
			steps = append(steps, OneLine(fmt.Sprintf("take out of %s of %s: %s", first.table(), first.File, strings.Join(names, ", "))))
			continue
		}
		for _, name := range quoted(names) {
			steps = append(steps, "claude mcp remove --scope "+scope+" "+name)
		}
	}
	return steps
}

// called is a server's name in the client's file.
func (s Server) called() string {
	if s.Was != "" {
		return s.Was
	}
	return s.Name
}

// table is the JSON pointer of what a server stands in.
func (s Server) table() string { return s.Pointer[:max(0, strings.LastIndexByte(s.Pointer, '/'))] }

// groups are the servers of each table, in order.
func groups(servers []Server) [][]Server {
	var all [][]Server
	for _, s := range servers {
		i := slices.IndexFunc(all, func(g []Server) bool { return g[0].File == s.File && g[0].table() == s.table() })
		if i < 0 {
			all = append(all, []Server{s})
			continue
		}
		all[i] = append(all[i], s)
	}
	return all
}

// claudeScope is the widest scope of the servers from one of Claude Code's files, which
// has commands to change them; "" for other clients.
func claudeScope(servers []Server, file string) string {
	switch filepath.Base(file) {
	case ".mcp.json":
		return "project"
	case ".claude.json":
		if slices.ContainsFunc(servers, func(s Server) bool { return s.File == file && s.Scope != "local" }) {
			return "user"
		}
		return "local"
	}
	return ""
}

// addition is how mcpschedd is added to a client's servers.
func addition(s Server, args []string, claude string) string {
	if claude != "" {
		return "claude mcp add --scope " + claude + " mcpschedd -- " + strings.Join(quoted(append([]string{"mcpschedd"}, args...)), " ")
	}
	type entry struct {
		Name    string   `json:"name,omitempty"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	text := func(e entry) string {
		var b strings.Builder
		out := json.NewEncoder(&b)
		out.SetEscapeHTML(false)
		if out.Encode(e) != nil {
			return "" // strings always encode
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	if strings.HasPrefix(s.Pointer, "/servers/") || strings.HasPrefix(s.Pointer, "/mcp") && !strings.HasPrefix(s.Pointer, "/mcpServers/") {
		return "code --add-mcp " + quoted([]string{text(entry{"mcpschedd", "mcpschedd", args})})[0]
	}
	return OneLine(fmt.Sprintf(`add to %s of %s: "mcpschedd": %s`, s.table(), s.File, text(entry{"", "mcpschedd", args})))
}

var unquoted = regexp.MustCompile(`^[A-Za-z0-9_./:@=+-]+$`)

// quoted are words as a shell takes them.
func quoted(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		if !unquoted.MatchString(w) {
			out[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return out
}
