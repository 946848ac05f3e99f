package proxy

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/events"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/upstream"
)

// The proxy tells of itself in resources. They are offered beside those of the
// upstreams, not where a session sees one upstream alone.
const (
	statsURI   = "mcpschedd://stats"         // JSON: see telemetry.Stats
	summaryURI = "mcpschedd://stats/summary" // text: the same at a glance
	modelsURI  = "mcpschedd://models/"       // JSON: followed by upstream/tool, what is known of it, and who says so

	ownResources = `{"uri":"` + statsURI + `","name":"mcpschedd stats","description":"What the proxy did in this process: calls, what was answered ahead, waiting hidden, harm, limits. Can be subscribed to.","mimeType":"application/json"},` +
		`{"uri":"` + summaryURI + `","name":"mcpschedd stats, in short","description":"The same as a line and a table.","mimeType":"text/plain"}`
	ownTemplates = `{"uriTemplate":"` + modelsURI + `{+tool}","name":"mcpschedd value model","description":"What the proxy knows of a tool (upstream/tool, or the name it is called by), and which layer says so.","mimeType":"application/json"}`
)

// tellsOfItself reports whether the session sees the proxy's own resources.
func (s *session) tellsOfItself() bool { return s.view.only == "" }

// isOwn reports whether a resource is the proxy's.
func isOwn(uri string) bool {
	return uri == statsURI || uri == summaryURI || strings.HasPrefix(uri, modelsURI)
}

// serveOwn answers a request about a resource of the proxy's own.
func (x *request) serveOwn(uri string) {
	switch {
	case x.msg.Method == "resources/subscribe" || x.msg.Method == "resources/unsubscribe":
		x.s.watchStats(uri, x.msg.Method == "resources/subscribe")
		x.finish([]byte("{}"))
	case uri == statsURI:
		text, err := json.MarshalIndent(x.s.srv.Report(), "", "  ")
		if err != nil {
			x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: statsURI + ": " + err.Error()})
			return
		}
		x.give(uri, "application/json", string(text))
	case uri == summaryURI:
		var text strings.Builder
		report := x.s.srv.Report()
		_, _ = report.WriteTo(&text) // never fails
		x.give(uri, "text/plain", text.String())
	default:
		x.giveModel(uri)
	}
}

// give answers with one resource.
func (x *request) give(uri, mimeType, text string) {
	out := jsonrpc.AppendString([]byte(`{"contents":[{"uri":`), uri)
	out = jsonrpc.AppendString(append(out, `,"mimeType":`...), mimeType)
	out = jsonrpc.AppendString(append(out, `,"text":`...), text)
	x.finish(append(out, "}]}"...))
}

// giveModel answers with what is known of a tool.
func (x *request) giveModel(uri string) {
	name, err := url.PathUnescape(strings.TrimPrefix(uri, modelsURI))
	p := x.s.srv.policy.Load()
	t, l := x.s.configured(name)
	if l == nil {
		t, l = x.s.named(p, upstream.Tools, name)
	}
	if err != nil || l == nil || !l.has(t.name) {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: uri + ": want " + modelsURI + "upstream/tool; no tool is named so"})
		return
	}
	text, err := json.MarshalIndent(x.s.srv.model(p, l, t.name), "", "  ")
	if err != nil {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: uri + ": " + err.Error()})
		return
	}
	x.give(uri, "application/json", string(text))
}

// has reports whether the session may call a tool that the upstream is known to have.
func (l *leased) has(tool string) bool {
	offer := l.Offer()
	if offer == nil || !l.member.allows(tool) {
		return false
	}
	_, ok := offer.Find(upstream.Tools, tool)
	return ok
}

// statsEvery is the least time between two notices that the stats have changed.
const statsEvery = time.Second

// statsNews tells who subscribed to the stats that they have changed.
type statsNews struct {
	watchers atomic.Int64

	mu    sync.Mutex
	timer *time.Timer // that is going to tell them; nil: nothing new
	last  time.Time
	ended bool
	open  sync.WaitGroup // that will tell them, or do
}

// happened has the watchers told, now or when the last notice is long enough ago. That
// somebody looked is no news.
func (s *Server) happened(e *events.Event) {
	n := &s.news
	if n.watchers.Load() == 0 || e.Kind == events.Begin || e.Kind == events.State {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.timer != nil || n.ended {
		return
	}
	n.open.Add(1)
	n.timer = time.AfterFunc(max(0, statsEvery-time.Since(n.last)), s.tellWatchers)
}

func (s *Server) tellWatchers() {
	n := &s.news
	defer n.open.Done()
	n.mu.Lock()
	n.timer, n.last = nil, time.Now()
	n.mu.Unlock()
	sessions, _ := s.all()
	for _, session := range sessions {
		if session.tellsOfItself() {
			session.tellOfStats(statsURI)
			session.tellOfStats(summaryURI)
		}
	}
}

// tellOfStats tells a client that subscribed to a resource of the proxy's own that it
// has changed.
func (s *session) tellOfStats(uri string) {
	const updated = "notifications/resources/updated"
	params := append(jsonrpc.AppendString([]byte(`{"uri":`), uri), '}')
	for _, l := range s.listeners() {
		if slices.Contains(l.uris, uri) {
			l.send(updated, params)
		}
	}
	s.mu.Lock()
	watches := slices.Contains(s.ownWatched, uri)
	s.mu.Unlock()
	if watches {
		s.notify(updated, params)
	}
}

// stop ends the notices.
func (n *statsNews) stop() {
	n.mu.Lock()
	n.ended = true
	if n.timer != nil && n.timer.Stop() {
		n.open.Done()
	}
	n.mu.Unlock()
	n.open.Wait()
}

// watchStats notes that a client of the handshake era wants to be told of changes, or
// no longer does. What never changes by itself is not told of.
func (s *session) watchStats(uri string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || on == slices.Contains(s.ownWatched, uri) || uri != statsURI && uri != summaryURI {
		return
	}
	if on {
		s.ownWatched = append(s.ownWatched, uri)
		s.srv.news.watchers.Add(1)
		return
	}
	s.ownWatched = slices.DeleteFunc(s.ownWatched, func(u string) bool { return u == uri })
	s.srv.news.watchers.Add(-1)
}
