package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
)

// ownTool is a tool of the proxy's own.
type ownTool struct {
	name  string
	item  []byte // as it is listed
	serve func(x *request, arguments []byte)
	wraps bool // its arguments name the call that is made in its place
}

// The names of the proxy's own tools. A named plan is plan__NAME.
const (
	planTool   = "execute_tool_plan"
	readTool   = "mcpschedd_read_result"
	planPrefix = "plan" + separator
)

// ownTools are those that a policy offers, in the order of the list.
func ownTools(p *Plans) []*ownTool {
	if !p.Enabled {
		return nil
	}
	reads, runs := `{"readOnlyHint":true,"openWorldHint":false}`, `{"readOnlyHint":false,"destructiveHint":true}`
	if p.Mutations == "deny" {
		runs = `{"readOnlyHint":true,"openWorldHint":true}` // what a step tells third parties of another is confirmed all the same
	}
	out := []*ownTool{{name: planTool, item: ownItem(planTool, plan.Description(p.Limits), plan.InputSchema(), plan.OutputSchema(), runs), serve: servePlan}}
	if p.KeepFor > 0 {
		out = append(out, &ownTool{name: readTool, item: ownItem(readTool, readDescription, plan.ReadSchema(), nil, reads), serve: serveReadResult})
	}
	for i := range p.Named {
		n := &p.Named[i]
		out = append(out, &ownTool{
			name: planPrefix + n.Name, serve: serveNamed(n),
			item: ownItem(planPrefix+n.Name, n.Description, n.InputSchema(), plan.OutputSchema(), runs),
		})
	}
	return out
}

const readDescription = "Read what an answer of execute_tool_plan left out: its handle, and pointer and offset as left_out has them. Without a handle: what is kept."

func ownItem(name, description string, input, output []byte, annotations string) []byte {
	item := jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, name))
	item = jsonrpc.Set(item, "description", jsonrpc.AppendString(nil, description))
	item = jsonrpc.Set(item, "inputSchema", input)
	if output != nil {
		item = jsonrpc.Set(item, "outputSchema", output)
	}
	return jsonrpc.Set(item, "annotations", []byte(annotations))
}

// ownTools are the tools of the proxy's own that the session is offered, in the order of the
// list.
func (s *session) ownTools(p *policy) []*ownTool {
	switch {
	case !s.identity.view.offersOwn():
		return nil
	case s.choose(p).search:
		return slices.Concat(p.search, p.own)
	}
	return p.own
}

// ownTool is the tool of the proxy's own that bears the name in this session; nil
// if none does.
func (s *session) ownTool(p *policy, name string) *ownTool {
	for _, t := range s.ownTools(p) {
		if t.name == name && s.identity.view.claim(name) {
			return t
		}
	}
	return nil
}

// callsOwnTool reports whether the request calls a tool of the proxy's own: then nothing
// is asked of an upstream for the request itself.
func (x *request) callsOwnTool() bool { return x.msg.Method == "tools/call" && x.call == nil }

// toolName is the name of the tool that is called, as the client writes it.
func toolName(params *revision.Params) string {
	name, _ := jsonrpc.String(params.Get("name"))
	return name
}

// serveOwnTool answers a call of one of these tools.
func serveOwnTool(x *request, own *ownTool) {
	x.s.observed.turns.begin(time.Now())
	switch raw := x.msg.Index.Get("arguments"); {
	case raw == nil || bytes.Equal(raw, []byte("null")):
		own.serve(x, noArguments)
	case raw[0] != '{':
		x.finish(failedResult(errors.New("arguments: want an object")))
	default:
		own.serve(x, raw)
	}
}

// textResult is a result that is a text.
func textResult(text string) []byte {
	return append(jsonrpc.AppendString([]byte(`{"content":[{"type":"text","text":`), text), `}]}`...)
}

// failedResult is one that says why there is none.
func failedResult(err error) []byte {
	return jsonrpc.Set(textResult(err.Error()), "isError", []byte("true"))
}

// structuredResult is one that has a structure, with its text for clients that read no
// other.
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

// The proxy tells of itself in resources. They are offered beside those of the
// upstreams, not where a session sees one upstream alone.
const (
	statsURI   = "mcpschedd://stats"
	summaryURI = "mcpschedd://stats/summary"
	modelsURI  = "mcpschedd://models/" // followed by upstream/tool
)

// ownResource is a resource of the proxy's own, or a template of some.
type ownResource struct {
	uri      string // of a template: what its resources' begin with
	list     upstream.List
	item     string // as it is listed
	mimeType string
	read     func(s *session, uri string) (string, error)
}

// ownResources are those there are.
func ownResources() []ownResource {
	return []ownResource{
		{statsURI, upstream.Resources, `{"uri":"` + statsURI + `","name":"mcpschedd stats","description":"What the proxy did in this process: calls, what was answered ahead, waiting hidden, harm, limits. Can be subscribed to.","mimeType":"application/json"}`,
			"application/json", func(s *session, _ string) (string, error) { return indented(s.srv.Report()) }},
		{summaryURI, upstream.Resources, `{"uri":"` + summaryURI + `","name":"mcpschedd stats, in short","description":"The same in words: what was saved, how the servers stand, and a table.","mimeType":"text/plain"}`,
			"text/plain", readSummary},
		{modelsURI, upstream.Templates, `{"uriTemplate":"` + modelsURI + `{+tool}","name":"mcpschedd value model","description":"What the proxy knows of a tool (upstream/tool, or the name it is called by), and which layer says so.","mimeType":"application/json"}`,
			"application/json", readModel},
		{plan.GuideURI, upstream.Resources, `{"uri":"` + plan.GuideURI + `","name":"mcpschedd plans","description":"The whole format of execute_tool_plan.","mimeType":"text/markdown"}`,
			"text/markdown", func(*session, string) (string, error) { return plan.Guide, nil }},
	}
}

// ownResource finds the resource of the proxy's own that a URI names in this view.
func (v view) ownResource(uri string) (r ownResource, ok bool) {
	if !v.offersOwn() {
		return ownResource{}, false
	}
	for _, r := range ownResources() {
		if r.uri == uri || r.list == upstream.Templates && strings.HasPrefix(uri, r.uri) {
			return r, true
		}
	}
	return ownResource{}, false
}

// ownItems are what the proxy itself offers of a list, in this session.
func (s *session) ownItems(p *policy, l upstream.List) (items [][]byte) {
	if !s.identity.view.offersOwn() {
		return nil
	}
	if l == upstream.Tools {
		for _, t := range s.ownTools(p) {
			if s.identity.view.claim(t.name) { // else an upstream's tool had the name before
				items = append(items, t.item)
			}
		}
	}
	for _, r := range ownResources() {
		if r.list == l && (r.uri != plan.GuideURI || p.Plans.Enabled) {
			items = append(items, []byte(r.item))
		}
	}
	return items
}

// serveOwnResource answers a request about a resource of the proxy's own.
func serveOwnResource(x *request, uri string) {
	switch x.msg.Method {
	case "resources/subscribe", "resources/unsubscribe":
		x.s.subscriptions.watchOwn(uri, x.msg.Method == "resources/subscribe")
		x.finish([]byte("{}"))
		return
	}
	own, _ := x.s.identity.view.ownResource(uri)
	text, err := own.read(x.s, uri)
	if err != nil {
		code := jsonrpc.CodeInternal
		if errors.Is(err, errNoModel) {
			code = jsonrpc.CodeInvalidParams
		}
		x.fail(&jsonrpc.Error{Code: code, Message: uri + ": " + err.Error()})
		return
	}
	out := jsonrpc.AppendString([]byte(`{"contents":[{"uri":`), uri)
	out = jsonrpc.AppendString(append(out, `,"mimeType":`...), own.mimeType)
	out = jsonrpc.AppendString(append(out, `,"text":`...), text)
	x.finish(append(out, "}]}"...))
}

// readSummary is record.Stats in words.
func readSummary(s *session, _ string) (string, error) {
	report := s.srv.Report()
	return report.Saved("") + "\n" + report.StatusText() + "\n" + report.Figures(), nil
}

var errNoModel = errors.New("want " + modelsURI + "upstream/tool; no tool is named so")

// readModel is what is known of a tool, and which layer says so.
func readModel(s *session, uri string) (string, error) {
	name, err := url.PathUnescape(strings.TrimPrefix(uri, modelsURI))
	p := s.srv.policy.Load()
	t, l := s.configured(name)
	if l == nil {
		t, l = s.named(p, upstream.Tools, name)
	}
	if err != nil || l == nil || !l.has(t.name) {
		return "", errNoModel
	}
	return indented(s.srv.catalog.model(p, l, t.name))
}

func indented(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text), err
}

// statsInterval is the least time between two notices that the stats have changed.
const statsInterval = time.Second

// announceStats tells the clients that subscribed to the stats that they have changed.
func announceStats(sessions []*session) {
	const updated = "notifications/resources/updated"
	for _, uri := range []string{statsURI, summaryURI} {
		params := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
		for _, session := range sessions {
			if !session.identity.view.offersOwn() {
				continue
			}
			session.subscriptions.publish(updated, params, func(l *listening) bool { return slices.Contains(l.uris, uri) })
			if session.subscriptions.watchesOwn(uri) {
				session.notify(updated, params)
			}
		}
	}
}
