package proxy

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/catalog"
	"mcpschedd/internal/excerpt"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
)

// own.json has the entries of the proxy's own tools and resources in lists, by name or URI. What
// depends on the configuration is set by newOwnTools.
//
//go:embed own.json
var ownEntries []byte

// ownTool is one of the proxy's own tools.
type ownTool struct {
	name   string
	item   []byte // entry in tools/list
	search bool   // offered only to sessions that search for tools

	// serve serves a call. It is nil for a wrapper tool: the arguments of that describe the call to make instead.
	serve func(x *request, arguments []byte) outcome
}

// The names of the proxy's own tools. A named plan is plan__NAME.
const (
	planTool   = "execute_tool_plan"
	readTool   = "mcpschedd_read_result"
	planPrefix = "plan" + catalog.Separator
)

// newOwnTools returns the proxy's own tools, in the order of the list.
func newOwnTools(p *policy) (all []*ownTool) {
	add := func(t ownTool) { all = append(all, &t) }
	if p.Selection.On() {
		var names []string
		for _, m := range p.Members {
			names = append(names, m.Spec.Name)
		}
		quoted := jsonrpc.AppendString(nil, excerpt.Shorten(strings.Join(names, ", "), 600))
		add(ownTool{findTool, bytes.Replace(ownEntry(findTool), []byte("SERVERS"), quoted[1:len(quoted)-1], 1), true, serveFind})
		add(ownTool{catalog.CallReadTool, ownEntry(catalog.CallReadTool), true, nil})
		if !p.Selection.OnlyRead {
			add(ownTool{catalog.CallTool, ownEntry(catalog.CallTool), true, nil})
		}
	}
	if !p.Plans.Enabled {
		return all
	}
	annotations := `{"readOnlyHint":false,"destructiveHint":true}`
	if p.Plans.ReadOnly() {
		annotations = `{"readOnlyHint":true,"openWorldHint":true}` // steps that disclose data to third parties are confirmed nevertheless
	}
	addPlan := func(name, description string, input []byte, n *plan.Named) {
		item := jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, name))
		item = jsonrpc.Set(item, "description", jsonrpc.AppendString(nil, description))
		item = jsonrpc.Set(jsonrpc.Set(item, "inputSchema", input), "outputSchema", plan.OutputSchema())
		serve := func(x *request, arguments []byte) outcome { return servePlan(x, n, arguments) }
		add(ownTool{name, jsonrpc.Set(item, "annotations", []byte(annotations)), false, serve})
	}
	addPlan(planTool, plan.Description(&p.Plans), plan.InputSchema(), nil)
	if p.Plans.KeepFor > 0 {
		add(ownTool{readTool, ownEntry(readTool), false, serveReadResult})
	}
	for i := range p.Plans.Named {
		n := &p.Plans.Named[i]
		addPlan(planPrefix+n.Name, n.Description, n.InputSchema(), n)
	}
	return all
}

// ownEntry returns an entry of own.json.
func ownEntry(name string) []byte { return jsonrpc.Get(ownEntries, name) }

// offers reports whether the session is offered one of the proxy's own tools. It is not if a
// server's tool took the name first.
func (v *view) offers(t *ownTool) bool {
	return v.Own() && (!t.search || v.Searches()) && v.Catalog.Reserve(t.name)
}

// ownTool returns the proxy's own tool with the given name in this session, or nil.
func (v *view) ownTool(name string) *ownTool {
	for _, t := range v.policy.own {
		if t.name == name && v.offers(t) {
			return t
		}
	}
	return nil
}

// serveOwnTool serves a call of one of the proxy's own tools.
func serveOwnTool(x *request, own *ownTool) outcome {
	x.s.observed.turns.begin(time.Now())
	raw := x.msg.Index.Get("arguments")
	switch {
	case raw == nil || string(raw) == "null":
		raw = noArguments
	case raw[0] != '{':
		return outcome{err: errors.New("arguments: want an object")}
	}
	return own.serve(x, raw)
}

// textResult returns a tool result with one text block.
func textResult(text string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...)
}

// structuredResult returns a tool result with structuredContent, and the same JSON as a text
// block for clients that read only text.
func structuredResult(structured []byte, blocks [][]byte, failed bool) []byte {
	out := jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), string(structured))
	out = append(out, '}')
	for _, b := range blocks {
		out = append(append(out, ','), b...)
	}
	out = append(append(out, `],"structuredContent":`...), structured...)
	if failed {
		out = append(out, `,"isError":true`...)
	}
	return append(out, '}')
}

// The proxy's own resources. They are offered in sessions that see all servers, not in those
// that see only one.
const (
	statsURI   = "mcpschedd://stats"
	summaryURI = "mcpschedd://stats/summary"
	modelsURI  = "mcpschedd://models/" // followed by NAME/TOOL
)

// ownResource is one of the proxy's own resources or resource templates.
type ownResource struct {
	uri  string // for a template, the prefix of its resources' URIs
	list upstream.List
	read func(s *session, uri string) (string, error)
}

// ownResources returns all of the proxy's own resources.
func ownResources() []ownResource {
	return []ownResource{
		{statsURI, upstream.Resources, func(s *session, _ string) (string, error) { return indented(s.srv.Report()) }},
		{summaryURI, upstream.Resources, readSummary},
		{modelsURI, upstream.Templates, readModel},
		{plan.GuideURI, upstream.Resources, func(*session, string) (string, error) { return plan.Guide, nil }},
	}
}

// ownResource returns the proxy's own resource with the given URI in this view.
func (v *view) ownResource(uri string) (r ownResource, ok bool) {
	if !v.Own() {
		return ownResource{}, false
	}
	for _, r := range ownResources() {
		if r.uri == uri || r.list == upstream.Templates && strings.HasPrefix(uri, r.uri) {
			return r, true
		}
	}
	return ownResource{}, false
}

// ownItems returns the proxy's own items of a list in this session.
func (v *view) ownItems(l upstream.List) (items [][]byte) {
	if !v.Own() {
		return nil
	}
	if l == upstream.Tools {
		for _, t := range v.policy.own {
			if v.offers(t) {
				items = append(items, t.item)
			}
		}
	}
	for _, r := range ownResources() {
		if r.list == l && (r.uri != plan.GuideURI || v.policy.Plans.Enabled) {
			items = append(items, ownEntry(r.uri))
		}
	}
	return items
}

// serveOwnResource returns one of the proxy's own resources.
func serveOwnResource(x *request, own ownResource, uri string) outcome {
	text, err := own.read(x.s, uri)
	if err != nil {
		return outcome{err: invalidParams(uri + ": " + err.Error())}
	}
	out := jsonrpc.AppendString([]byte(`{"contents":[{"uri":`), uri)
	out = append(append(out, `,"mimeType":`...), jsonrpc.Get(ownEntry(own.uri), "mimeType")...)
	out = jsonrpc.AppendString(append(out, `,"text":`...), text)
	return ownOutcome(append(out, "}]}"...))
}

// readSummary returns the server's statistics as text.
func readSummary(s *session, _ string) (string, error) {
	v := record.View{Stats: s.srv.Report()}
	return v.Text(true), nil
}

// readModel returns the model of a tool as JSON, with the layer that set each field.
func readModel(s *session, uri string) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(uri, modelsURI))
	v := s.view()
	t, l := v.Configured(name)
	if l == nil {
		t, l = v.Resolve(upstream.Tools, name)
	}
	if err != nil || l == nil || !l.Has(t.Name) {
		return "", errors.New("no such tool; want " + modelsURI + "NAME/TOOL")
	}
	return indented(v.Tool(l, t.Name).Model)
}

func indented(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text), err
}

// statsInterval is the minimum interval between updates of the stats.
const statsInterval = time.Second

// announceStats notifies the clients subscribed to the stats that they have changed.
func announceStats(sessions []*session) {
	for _, uri := range []string{statsURI, summaryURI} {
		params := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
		for _, s := range sessions {
			if s.identity.Only == "" {
				s.subscriptions.publish("notifications/resources/updated", params, func(l *listener) bool { return slices.Contains(l.uris, uri) })
			}
		}
	}
}
