package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/front"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// ownTool is one of the proxy's own tools.
type ownTool struct {
	name    string
	item    []byte // entry in tools/list
	serve   func(x *request, arguments []byte) (outcome, error)
	wrapper bool // the arguments describe the call to make instead; serve is nil
	search  bool // offered only to sessions that search for tools
}

// The names of the proxy's own tools. A named plan is plan__NAME.
const (
	planTool   = "execute_tool_plan"
	readTool   = "mcpschedd_read_result"
	planPrefix = "plan" + separator
)

// planTools returns the tools for plans, in the order of the list.
func planTools(p *Plans) []*ownTool {
	if !p.Enabled {
		return nil
	}
	reads, runs := `{"readOnlyHint":true,"openWorldHint":false}`, `{"readOnlyHint":false,"destructiveHint":true}`
	if p.Mutations == "deny" {
		runs = `{"readOnlyHint":true,"openWorldHint":true}` // steps that disclose data to third parties are confirmed nevertheless
	}
	out := []*ownTool{{name: planTool, item: ownItem(planTool, plan.Description(p.Limits), plan.InputSchema(), plan.OutputSchema(), runs),
		serve: func(x *request, arguments []byte) (outcome, error) { return servePlan(x, nil, arguments) }}}
	if p.KeepFor > 0 {
		out = append(out, &ownTool{name: readTool, item: ownItem(readTool, readDescription, plan.ReadSchema(), nil, reads), serve: serveReadResult})
	}
	for i := range p.Named {
		n := &p.Named[i]
		out = append(out, &ownTool{
			name:  planPrefix + n.Name,
			serve: func(x *request, arguments []byte) (outcome, error) { return servePlan(x, n, arguments) },
			item:  ownItem(planPrefix+n.Name, n.Description, n.InputSchema(), plan.OutputSchema(), runs),
		})
	}
	return out
}

const readDescription = "Read the parts that a result of execute_tool_plan left out: pass its handle, and pointer and offset from left_out. Without a handle, lists the results that can be read."

func ownItem(name, description string, input, output []byte, annotations string) []byte {
	item := jsonrpc.Set(nil, "name", jsonrpc.AppendString(nil, name))
	item = jsonrpc.Set(item, "description", jsonrpc.AppendString(nil, description))
	item = jsonrpc.Set(item, "inputSchema", input)
	if output != nil {
		item = jsonrpc.Set(item, "outputSchema", output)
	}
	return jsonrpc.Set(item, "annotations", []byte(annotations))
}

// offers reports whether the session is offered one of the proxy's own tools. It is not if a
// server's tool took the name first.
func (s *session) offers(p *policy, t *ownTool) bool {
	v := s.identity.view
	return v.offersOwn() && (!t.search || s.choose(p).search) && v.bind(upstream.Tools, target{"", t.name}, t.name) != ""
}

// ownTool returns the proxy's own tool with the given name in this session, or nil.
func (s *session) ownTool(p *policy, name string) *ownTool {
	for _, t := range p.own {
		if t.name == name && s.offers(p, t) {
			return t
		}
	}
	return nil
}

// callsOwnTool reports whether the request calls one of the proxy's own tools, so that the
// request itself is not forwarded to a server.
func (x *request) callsOwnTool() bool { return x.msg.Method == "tools/call" && x.call == nil }

// toolName returns the name of the called tool as the client wrote it.
func toolName(params *revision.Params) string {
	name, _ := jsonrpc.String(params.Get("name"))
	return name
}

// serveOwnTool serves a call of one of the proxy's own tools.
func serveOwnTool(x *request, own *ownTool) outcome {
	x.s.observed.turns.begin(time.Now())
	raw := x.msg.Index.Get("arguments")
	switch {
	case raw == nil || string(raw) == "null":
		raw = noArguments
	case raw[0] != '{':
		return failedOutcome(errors.New("arguments: want an object"))
	}
	o, err := own.serve(x, raw)
	if err != nil {
		return failedOutcome(err)
	}
	return o
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
	modelsURI  = "mcpschedd://models/" // followed by upstream/tool
)

// ownResource is one of the proxy's own resources or resource templates.
type ownResource struct {
	uri      string // for a template, the prefix of its resources' URIs
	list     upstream.List
	item     string // entry in the list
	mimeType string
	read     func(s *session, uri string) (string, error)
}

// ownResources returns all of the proxy's own resources.
func ownResources() []ownResource {
	return []ownResource{
		{statsURI, upstream.Resources, `{"uri":"` + statsURI + `","name":"mcpschedd stats","description":"Statistics of this process: calls, results served from prefetches, hidden time, harm, limits. Can be subscribed to.","mimeType":"application/json"}`,
			"application/json", func(s *session, _ string) (string, error) { return indented(s.srv.Report()) }},
		{summaryURI, upstream.Resources, `{"uri":"` + summaryURI + `","name":"mcpschedd stats summary","description":"The same as text: time saved, status of the servers, and a table.","mimeType":"text/plain"}`,
			"text/plain", readSummary},
		{modelsURI, upstream.Templates, `{"uriTemplate":"` + modelsURI + `{+tool}","name":"mcpschedd value model","description":"The proxy's model of a tool (upstream/tool, or the tool's listed name), with the layer that set each field.","mimeType":"application/json"}`,
			"application/json", readModel},
		{plan.GuideURI, upstream.Resources, `{"uri":"` + plan.GuideURI + `","name":"mcpschedd plans","description":"The complete format of execute_tool_plan.","mimeType":"text/markdown"}`,
			"text/markdown", func(*session, string) (string, error) { return plan.Guide, nil }},
	}
}

// ownResource returns the proxy's own resource with the given URI in this view.
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

// ownItems returns the proxy's own items of a list in this session.
func (s *session) ownItems(p *policy, l upstream.List) (items [][]byte) {
	if !s.identity.view.offersOwn() {
		return nil
	}
	if l == upstream.Tools {
		for _, t := range p.own {
			if s.offers(p, t) {
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

// serveOwnResource serves a request for one of the proxy's own resources.
func serveOwnResource(x *request, uri string) outcome {
	if subscribes(x.msg.Method) {
		x.s.subscriptions.watchOwn(x.s, uri, x.msg.Method == "resources/subscribe")
		return serveEmpty(x)
	}
	own, _ := x.s.identity.view.ownResource(uri)
	text, err := own.read(x.s, uri)
	if err != nil {
		return outcome{err: invalidParams(uri + ": " + err.Error())}
	}
	out := jsonrpc.AppendString([]byte(`{"contents":[{"uri":`), uri)
	out = jsonrpc.AppendString(append(out, `,"mimeType":`...), own.mimeType)
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
	p := s.srv.policy.Load()
	t, l := s.configured(name)
	if l == nil {
		t, l = s.resolveName(p, upstream.Tools, name)
	}
	if err != nil || l == nil || !l.has(t.name) {
		return "", errors.New("no such tool; want " + modelsURI + "upstream/tool")
	}
	return indented(s.srv.catalog.model(p, l, t.name))
}

func indented(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text), err
}

// statsInterval is the minimum interval of notifications that the stats have changed.
const statsInterval = time.Second

// announceStats notifies the clients subscribed to the stats that they have changed.
func announceStats(sessions []*session) {
	for _, uri := range []string{statsURI, summaryURI} {
		params := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
		for _, s := range sessions {
			if s.identity.view.offersOwn() {
				s.subscriptions.publish("notifications/resources/updated", params, func(l *listener) bool { return slices.Contains(l.uris, uri) })
			}
		}
	}
}

const (
	// maxToolName is the length of a tool's name with clientPrefix above which some
	// clients drop the tool: 64 is the lowest limit of the model APIs in use, Claude
	// Code's own limit is 128.
	maxToolName  = 64
	clientPrefix = "mcp__mcpschedd__"
)

// Surveyed is the result of [Server.Survey] for one server.
type Surveyed struct {
	Upstream string
	Offer    *upstream.Offer // nil if Problem is set
	Problem  error           // why the server has no offer
	Took     time.Duration   // from its start to its offer
	Tools    []SurveyedTool  // in the server's order
	Status   record.UpstreamStatus
}

// SurveyedTool is a tool with its model and the server's annotations.
type SurveyedTool struct {
	Model   *valuemodel.Model
	Hints   valuemodel.Hints
	Hidden  bool   // not allowed by the configuration
	Listed  string // name that clients see; "" if it is not listed
	Warning string // problem with the name; "" if there is none
}

// Survey starts all servers concurrently and returns the offer of each. It gives up on a
// server that writes anything but MCP messages after Options.StartupWait.
func (s *Server) Survey(ctx context.Context) []Surveyed {
	n := s.newSession(front.Client{})
	defer n.End(front.ErrEnded)
	start := time.Now()
	n.open(revision.Client{})
	leases := n.leases.current()
	all := make([]Surveyed, len(leases))
	var wg sync.WaitGroup
	for i, l := range leases {
		wg.Go(func() {
			bounded, cancel := context.WithTimeout(ctx, s.policy.Load().StartupWait)
			defer cancel()
			l.AwaitOffer(bounded)
			if all[i].Upstream, all[i].Problem = l.Name(), l.Problem(); all[i].Problem == nil {
				l.AwaitOffer(ctx)
				all[i].Problem = cmp.Or(l.Problem(), fmt.Errorf("no answer: %w", context.Cause(ctx)))
			}
			if all[i].Took, all[i].Offer = time.Since(start), l.Offer(); all[i].Offer == nil {
				return
			}
			all[i].Problem, all[i].Tools = nil, surveyTools(n, l, all[i].Offer)
			all[i].Status = newToolStatus(s.policy.Load(), l.member.Upstream, all[i].Offer)
		})
	}
	wg.Wait()
	return all
}

// WithServerClaims returns u with the server's own name, and the server's annotations of a
// tool. offer is the server's last offer, nil if the server was never connected.
func WithServerClaims(u valuemodel.Upstream, offer *upstream.Offer, tool string) (valuemodel.Upstream, valuemodel.Hints) {
	if offer == nil {
		return u, valuemodel.Hints{}
	}
	u.Server, _ = jsonrpc.String(jsonrpc.Get(offer.Server, "name"))
	item, _ := offer.Find(upstream.Tools, tool)
	return u, toolHints(item.Raw)
}

// surveyTools returns a server's tools with the names that clients would see.
func surveyTools(n *session, l *sessionLease, offer *upstream.Offer) (all []SurveyedTool) {
	p := n.srv.policy.Load()
	for _, item := range offer.Lists[upstream.Tools] {
		t := SurveyedTool{Model: n.srv.catalog.model(p, l, item.Name), Hints: toolHints(item.Raw), Hidden: !l.member.allows(item.Name)}
		if !t.Hidden {
			t.Listed = n.identity.view.nameOf(p, upstream.Tools, target{l.Name(), item.Name})
			t.Warning = nameWarning(item.Name, t.Listed)
		}
		all = append(all, t)
	}
	return all
}

// nameWarning returns a warning about the name under which a tool is listed, or "".
func nameWarning(tool, name string) string {
	switch {
	case name == "":
		return fmt.Sprintf("tool %q is not listed: another upstream has the name and name_style is \"never\", or the limit of names is reached", tool)
	case len(clientPrefix)+len(name) > maxToolName:
		return fmt.Sprintf("tool %q: %d characters with a client's prefix %q, but some clients accept only %d", name, len(clientPrefix)+len(name), clientPrefix, maxToolName)
	}
	return ""
}
