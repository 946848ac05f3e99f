package proxy

import (
	"slices"
	"strings"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/valuemodel"
)

// claims are what one upstream's server has said of itself and its tools since the
// program started. What loosens a model later is not believed: a server could
// change its mind after it has been looked at.
type claims struct {
	server     string                      // what it first called itself
	named      bool                        // it has called itself something
	classified bool                        // something was classified before it had
	renamed    bool                        // it later called itself something else
	hints      map[string]valuemodel.Hints // tool → the most restrictive there were
	room       int                         // bytes that the names in hints take, at most mostNames
}

func newClaims() *claims { return &claims{hints: make(map[string]valuemodel.Hints)} }

// name is what the server calls itself; "" if nothing is known, or it was renamed.
func (u *claims) name() string {
	if u == nil || u.renamed {
		return ""
	}
	return u.server
}

// noteServer adds what the server says of itself, and reports whether that changes what
// was gone by until now.
func (u *claims) noteServer(server []byte) (changed bool) {
	if server == nil {
		u.classified = true
		return false
	}
	name, _ := jsonrpc.String(jsonrpc.Get(server, "name"))
	switch {
	case !u.named:
		u.server, u.named = name, true
		return u.classified // else there is nothing that could have been classified otherwise
	case u.server != name && !u.renamed:
		u.renamed = true
		return true
	}
	return false
}

// noteTool adds what the server says of a tool, and returns what counted until now and
// what does from now on.
func (u *claims) noteTool(tool string, item []byte) (before, now valuemodel.Hints) {
	before, known := u.hints[tool]
	if item == nil {
		return before, before
	}
	now = hints(item)
	size := len(tool) + bindingOf + len(strings.Join(now.Arguments, " "))
	switch {
	case known:
		now = tighter(before, now)
	case u.room+size > mostNames:
		now.ReadOnly = new(false) // there is no memory for what it says later: so it is taken at its worst
		return before, now
	default:
		u.room += size
	}
	u.hints[tool] = now
	return before, now
}

// hints reads a tool's annotations.
func hints(item []byte) valuemodel.Hints {
	annotations := jsonrpc.Get(item, "annotations")
	return valuemodel.Hints{
		ReadOnly:    truth(jsonrpc.Get(annotations, "readOnlyHint")),
		Destructive: truth(jsonrpc.Get(annotations, "destructiveHint")),
		Arguments:   argumentNames(jsonrpc.Get(item, "inputSchema")),
	}
}

// argumentNames are the arguments of a tool by its input schema, in order; nil if the schema
// may take others than it names.
func argumentNames(schema []byte) []string {
	names := []string{}
	for m := range jsonrpc.Members(schema) {
		switch string(m.Name) {
		case "$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas":
			return nil
		case "properties":
			for p := range jsonrpc.Members(m.Value) {
				names = append(names, string(p.Name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func truth(raw []byte) *bool {
	switch string(raw) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}

// tighter returns the more restrictive of what was said before and is said now.
func tighter(before, now valuemodel.Hints) valuemodel.Hints {
	out := now
	if before.ReadOnly == nil || !*before.ReadOnly {
		out.ReadOnly = before.ReadOnly
		if now.ReadOnly != nil && !*now.ReadOnly {
			out.ReadOnly = now.ReadOnly
		}
	}
	if before.Destructive != nil && *before.Destructive {
		out.Destructive = before.Destructive
	}
	if out.Arguments = before.Arguments; !slices.Equal(before.Arguments, now.Arguments) {
		out.Arguments = nil
	}
	return out
}
