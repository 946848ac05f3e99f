// Package proxy is the side of mcpschedd that faces the client. It speaks MCP over stdio and
// HTTP in both eras, merges the upstreams into one server, and routes each request to its
// upstream.
//
// A message stays bytes: one shallow scan finds what routing needs, and everything else is
// copied without being decoded.
//
//	srv := proxy.New(options)
//	err := srv.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// The types and what they own:
//
//	Server ── policy: the configuration in force, its upstreams, the proxy's own tools
//	 │  ├──── catalog: names of tools, their value models and schemas, index of find_tools
//	 │  ├──── store of answers · limits of hosts · prefetch worker · record · results of plans
//	 └─ session ── facts about its client · leases on upstreams · lists as last shown
//	     ├─ subscriptions · tasks
//	     ├─ requests ── request ── upstreamCall
//	     └─ questions to the client ── work: a call or a plan that waits for its replies
//
// The path of a call is in call.go, from top to bottom; routing is in route.go. Package
// upstream starts the processes and holds the connections.
package proxy

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/catalog"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Options configures a server. The zero value of each field selects the default named. With those of
// Fixed it has more than 15 fields, as each table of the configuration has one.
type Options struct {
	Fixed
	Upstreams      []catalog.Upstream // in the order in which lists are merged
	OtherUpstreams int                // number of configured upstreams left out because they are for other directories
	Models         *valuemodel.Models // the operator's layers; nil if there are none
	Dedup          dedup.Options      // bounds of the store
	Limits         limit.Rules
	Repeat         string // "body" (the default), or "reference": a note may replace an answer the client already has
	Enrichment     speculate.Rules
	Plans          Plans
	Budgets        budget.Rules   // token budgets of answers
	ConfigPath     string         // path of the configuration; "" if built-in defaults are used
	Record         record.Options // how the event log is kept
}

// Fixed holds the settings that [Server.Apply] does not change: they need a restart.
type Fixed struct {
	Version      string        // of this program; default "dev"
	NameStyle    string        // "auto" (the default), "always" or "never"
	StartupWait  time.Duration // how long lists wait for an upstream without a saved offer
	DrainTimeout time.Duration // how long calls may continue after the end of input, or on a replaced upstream
	MaxMessage   int           // bytes in a message; default 64 MiB
	Selection    catalog.Selection
	HTTP         front.HTTPOptions
	Log          *slog.Logger      // default: discard
	Trace        record.Trace      // starts a span for a call; nil disables tracing
	Dial         upstream.DialFunc // connects to servers over HTTP; default: the network
	Common       *Common           // shared with the other servers of the process; nil if there are none

	// LocalExclusive reports whether all changes of what a call reads on this machine go through the
	// process or are reported to it. It gets the directory in which the server runs, "" if that is not
	// known, and the arguments, canonical JSON. nil means never.
	LocalExclusive func(dir, arguments string) bool
}

// Server is one running proxy.
type Server struct {
	log      *slog.Logger
	policy   livePolicy
	connect  func(catalog.Upstream) *upstream.Upstream
	stopFast func() // makes upstream processes end quickly from now on

	sessions set[*session]
	common   *Common
	catalog  *catalog.Catalog
	recorder recorder
	rejected snapshot[error] // why a newer configuration was rejected; nil if it was not
	running  sync.WaitGroup  // flights, which belong to no session, and late answers to subscriptions
	inFlight atomic.Int64    // requests over HTTP that are being served

	prefetch *speculate.Worker
	kept     plan.Kept // results of plans, for mcpschedd_read_result
}

// New returns a server. Upstream processes start when a session needs them.
func New(o Options, guard *upstream.Guard) *Server {
	o = withDefaults(o)
	stopping, common := make(chan struct{}), o.Common
	if common == nil {
		common = NewCommon(o)
	}
	s := &Server{
		log: o.Log, stopFast: sync.OnceFunc(func() { close(stopping) }), common: common,
		catalog: catalog.New(o.Log, common.store, o.Selection.Keep),
	}
	s.connect = func(u catalog.Upstream) (up *upstream.Upstream) {
		up = upstream.New(u.Spec, upstream.Options{
			Log: o.Log, Guard: guard, StopFast: stopping, Store: u.Store, Stderr: u.Stderr, Dial: o.Dial,
			Invalidated: func(string) { s.catalog.Invalidate(s.policy.Load().Policy, up, u.Spec.Name) },
			Asked:       s.serverAsked,
			Changed:     func() { s.recorder.log.StatusChanged() },
			WriteSettle: func() time.Duration { return s.policy.Load().Dedup.WriteSettle },
		})
		return up
	}
	s.policy.Store(buildPolicy(o, nil, s.connect))
	s.recorder.openLog(s, o)
	s.prefetch = speculate.NewWorker(speculate.Setup{
		Log:      o.Log,
		Rules:    func() *speculate.Rules { return &s.policy.Load().Enrichment },
		ReadWait: common.limits.ReadHarm,
		Decided:  s.recorder.log.Add,
		Removed: func(key string) bool {
			return !slices.ContainsFunc(s.policy.Load().Members, func(m *catalog.Member) bool { return m.Key == key })
		},
	})
	common.servers.add(s) // needs the recorder
	return s
}

// ServeStdio serves one client on a pair of streams until in ends. Open calls may then
// finish for up to DrainTimeout, or until ctx is done. If only is not "", the client sees
// that upstream alone, under its own tool names.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, only string) error {
	return front.ServeStdio(ctx, in, out, only, s.front())
}

// HTTP returns a handler that serves MCP over HTTP, and the pages beside it; see [front.HTTP].
// Its sessions end when they are idle for too long, or with the server.
func (s *Server) HTTP(pages ...front.Page) *front.HTTP {
	o := s.front()
	o.Pages = pages
	return front.NewHTTP(o)
}

// front returns the options of the client-facing transports.
func (s *Server) front() front.Options {
	p := s.policy.Load()
	return front.Options{
		NewSession: func(c front.Client) front.Session { return s.newSession(c) }, Has: s.Has,
		MaxMessage: p.MaxMessage, DrainTimeout: p.DrainTimeout, Log: s.log, HTTP: p.HTTP,
	}
}

// Has reports whether an upstream with that name is configured.
func (s *Server) Has(name string) bool { return s.policy.Load().Find(name) != nil }

// PrepareStop prepares for a shutdown after a signal: besides what Idle does, it makes upstream
// processes end as quickly as possible from now on. It ends no session and may be called more than
// once.
func (s *Server) PrepareStop() {
	s.stopFast()
	s.Idle()
}

// Idle writes learned state and the event log to disk. It is to be called when the last client has left.
func (s *Server) Idle() {
	s.prefetch.Save()
	s.catalog.SaveLearned()
	s.recorder.record()
	s.recorder.log.Flush()
}

// SaveAll saves learned state and the event log for a program that cannot wait for Close.
// Nothing is recorded afterwards.
func (s *Server) SaveAll() {
	for _, session := range s.sessions.list() {
		session.endObservation()
	}
	s.prefetch.Close()
	s.catalog.SaveLearned()
	s.recorder.close()
}

// Close ends every session and upstream. It returns when their processes and goroutines have
// ended.
func (s *Server) Close() {
	var ending sync.WaitGroup
	s.sessions.close()
	for _, session := range s.sessions.list() {
		ending.Go(func() { session.End(front.ErrEnded) })
	}
	s.policy.replacing.Lock()
	defer s.policy.replacing.Unlock()
	s.policy.closed = true
	for _, m := range s.policy.Load().Members {
		ending.Go(m.Up.Close)
	}
	ending.Wait()
	s.policy.retiring.Wait()
	if s.policy.Load().Common == nil {
		s.common.Close()
	}
	s.prefetch.Close() // no more prefetches can begin
	s.catalog.SaveLearned()
	s.running.Wait()
	s.common.servers.remove(s)
	if others := s.common.servers.list(); len(others) > 0 {
		others[0].recorder.log.StatusChanged() // it may report for the process from now on
	}
	s.recorder.updates.stop()
	s.recorder.status.stop()
	s.recorder.close()
}
