package tune

import (
	"slices"
	"strings"
)

// claudeKind is whose a tool of a log is.
type claudeKind int

const (
	wanted        claudeKind = iota // an upstream's
	builtIn                         // the client's own
	ownTool                         // the proxy's own
	unknownServer                   // of a server that is not configured
)

// proxyName is what the proxy is called in a client's configuration, unless its user
// calls it otherwise.
const proxyName = "mcpschedd"

// meant says what the name of a tool in a client's log stands for: upstream/tool of a
// configured upstream, whether the client had it by itself (mcp__github__get_issue) or
// through the proxy (mcp__mcpschedd__github__get_issue). of is what else it belongs to:
// the name of the tool, or that of the server.
//
// Under any other name of its own the proxy is known by what it lists. The names of
// upstreams hold no "__", so that nothing has two readings.
func (l *ClaudeLogs) meant(name string) (tool string, k claudeKind, of string) {
	rest, ok := strings.CutPrefix(name, "mcp__")
	if !ok {
		return "", builtIn, name
	}
	server, tool, ok := strings.Cut(rest, "__")
	if !ok || server == "" || tool == "" {
		return "", unknownServer, rest
	}
	if slices.Contains(l.Upstreams, server) {
		return server + "/" + tool, wanted, ""
	}
	behind, inner, divided := strings.Cut(tool, "__")
	switch {
	case divided && inner != "" && slices.Contains(l.Upstreams, behind):
		return behind + "/" + inner, wanted, ""
	case server != proxyName:
		return "", unknownServer, server
	case tool == "execute_tool_plan" || strings.HasPrefix(tool, "mcpschedd_") || divided && behind == "plan":
		return "", ownTool, ""
	}
	if owner := l.bare(tool); owner != "" {
		return owner + "/" + tool, wanted, ""
	}
	if divided {
		server += "__" + behind
	}
	return "", unknownServer, server
}

// bare is whose tool bears a name by itself.
func (l *ClaudeLogs) bare(tool string) string {
	switch {
	case l.Bare != nil:
		return l.Bare(tool)
	case len(l.Upstreams) == 1:
		return l.Upstreams[0]
	}
	return ""
}
