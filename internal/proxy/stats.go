package proxy

import (
	"encoding/json"
	"sync/atomic"
	"time"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/upstream"
)

// statsURI is the resource under which the proxy tells of itself. It is offered
// beside those of the upstreams, not where a session sees one upstream alone.
const statsURI = "mcpschedd://stats"

// statsItem is how the resource is listed.
const statsItem = `{"uri":"` + statsURI + `","name":"mcpschedd stats","description":"What the proxy did in this process: calls, answers from the store, flights, limits.","mimeType":"application/json"}`

// counts are the calls since the start.
type counts struct {
	calls    atomic.Int64 // tools/call of clients
	stored   atomic.Int64 // of those: answered from the store
	joined   atomic.Int64 // answered by another one's flight
	fetched  atomic.Int64 // answered by their upstream
	errors   atomic.Int64 // answered with an error, or a short result with isError
	upstream atomic.Int64 // tools/call sent to upstreams, guesses included
}

// What an answer came from, where not from its upstream.
const (
	servedStored = 1 + iota
	servedJoined
)

// served notes what the answer comes from.
func (x *exchange) served(how dedup.Disposition) {
	if how == dedup.Hit {
		x.how.Store(servedStored)
	} else {
		x.how.Store(servedJoined)
	}
}

// count notes how a tools/call was answered. One that its client withdrew has no
// answer.
func (x *exchange) count(answer upstream.Answer, err error) {
	if x.msg.Method != "tools/call" || x.ctx.Err() != nil {
		return
	}
	c := &x.s.srv.counts
	switch x.how.Load() {
	case servedStored:
		c.stored.Add(1)
	case servedJoined:
		c.joined.Add(1)
	default:
		c.fetched.Add(1)
	}
	if _, failed := complaint(answer); failed || err != nil {
		c.errors.Add(1)
	}
}

// Stats is what the proxy did since it started.
type Stats struct {
	UptimeS  int64             `json:"uptime_s"`
	Sessions int               `json:"sessions"`
	Totals   Totals            `json:"totals"`
	Prefetch Foreseen          `json:"prefetch"`
	Store    dedup.Stats       `json:"store"`
	Hosts    []limit.HostStats `json:"hosts"`
}

// Totals are sums over all sessions and upstreams.
type Totals struct {
	Calls         int64   `json:"calls"`
	ServedStored  int64   `json:"served_stored"`
	Joined        int64   `json:"joined"`
	Fetched       int64   `json:"fetched"`
	Errors        int64   `json:"errors"`
	Amplification float64 `json:"upstream_amplification"` // calls sent to upstreams / calls of clients; 0 without any
}

// Stats counts up what happened so far.
func (s *Server) Stats() Stats {
	sessions, _ := s.all()
	out := Stats{
		UptimeS: int64(time.Since(s.began).Seconds()), Sessions: len(sessions),
		Totals: Totals{
			Calls: s.counts.calls.Load(), Errors: s.counts.errors.Load(),
			ServedStored: s.counts.stored.Load(), Joined: s.counts.joined.Load(), Fetched: s.counts.fetched.Load(),
		},
		Store: s.store.Stats(), Hosts: s.limits.Stats(),
	}
	out.Prefetch = s.foresight.stats(out.Store.Prefetch)
	if out.Totals.Calls > 0 {
		out.Totals.Amplification = float64(s.counts.upstream.Load()) / float64(out.Totals.Calls)
	}
	return out
}

// tellsOfItself reports whether the session sees the proxy's own resource.
func (s *session) tellsOfItself() bool { return s.view.only == "" }

// readOwn answers resources/read of the proxy's own resource.
func (x *exchange) readOwn() {
	text, err := json.MarshalIndent(x.s.srv.Stats(), "", "  ")
	if err != nil {
		x.fail(&jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: statsURI + ": " + err.Error()})
		return
	}
	out := jsonrpc.AppendString([]byte(`{"contents":[{"uri":"`+statsURI+`","mimeType":"application/json","text":`), string(text))
	x.finish(append(out, "}]}"...))
}
