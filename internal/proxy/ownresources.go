package proxy

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
	"mcpschedd/internal/upstream"
)

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
			"application/json", readStats},
		{summaryURI, upstream.Resources, `{"uri":"` + summaryURI + `","name":"mcpschedd stats, in short","description":"The same in words: what was saved, how the servers stand, and a table.","mimeType":"text/plain"}`,
			"text/plain", readSummary},
		{modelsURI, upstream.Templates, `{"uriTemplate":"` + modelsURI + `{+tool}","name":"mcpschedd value model","description":"What the proxy knows of a tool (upstream/tool, or the name it is called by), and which layer says so.","mimeType":"application/json"}`,
			"application/json", readModel},
		{plan.GuideURI, upstream.Resources, `{"uri":"` + plan.GuideURI + `","name":"mcpschedd plans","description":"The whole format of execute_tool_plan.","mimeType":"text/markdown"}`,
			"text/markdown", readGuide},
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

// readStats is record.Stats as JSON.
func readStats(s *session, _ string) (string, error) { return indented(s.srv.Report()) }

// readSummary is the same in words.
func readSummary(s *session, _ string) (string, error) {
	report := s.srv.Report()
	return report.Saved("") + "\n" + report.Standing() + "\n" + report.Figures(), nil
}

// readGuide is the format of plans.
func readGuide(*session, string) (string, error) { return plan.Guide, nil }

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

// changesStats reports whether an event changes the stats: reading the resource does not.
func changesStats(e *record.Event) bool { return e.Kind != record.Begin }

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
