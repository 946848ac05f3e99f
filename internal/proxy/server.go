// Package proxy faces the client: it speaks MCP on stdio and HTTP in both
// eras, joins what the upstreams offer into one server, and carries every
// request to the one it is for.
//
// The idea: a message is bytes. One shallow scan finds where it goes; what is
// not needed for that is copied, never decoded.
//
//	srv := proxy.New(options)
//	err := srv.ServeStdio(ctx, os.Stdin, os.Stdout)
//
// What there is, and what has it:
//
//	Server ── policy: the configuration in force, its upstreams, the proxy's own tools
//	 │  ├──── names that tools bear for life · catalog of value models and schemas
//	 │  ├──── store of answers · limits of hosts · prefetch worker · record · results of plans
//	 └─ session ── what its client says of itself · leases on upstreams · lists as shown
//	     ├─ subscriptions · tasks
//	     ├─ requests ── request ── upstreamCall, what a server is asked for it
//	     ├─ questions that its client was sent as requests
//	     └─ suspended ── work, a call or a plan, for which the client fetches replies
//
// The path of a call stands top to bottom in call.go; what answers a request is decided in
// route.go. The package starts no processes and keeps no connections: that is package
// upstream.
package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/record"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Options is all that a server is configured by, and as wide as that. Zero values mean
// the defaults named.
type Options struct {
	Version      string        // of this program; "" as "dev"
	Upstreams    []Upstream    // in the order in which lists are joined
	Elsewhere    int           // configured upstreams that are not among Upstreams, as they are for other folders
	NameStyle    string        // "auto" (the default), "always" or "never"
	StartupWait  time.Duration // how long lists wait for an upstream never seen before
	DrainTimeout time.Duration // how long calls may go on after the client has closed its end
	MaxMessage   int           // bytes of one message; 0: 64 MiB
	Log          *slog.Logger  // nil: discards
	HTTP         front.HTTPOptions
	Dial         upstream.DialFunc // reaches servers over HTTP; nil: over the network

	Common         *Common               // with the other servers of the process; nil: there is none
	LocalExclusive func() bool           // whether at this moment nothing changes what is on this machine but calls through here and what is reported; nil: never
	Models         *valuemodel.Models    // the operator's layers; nil: none
	Dedup          dedup.Options         // bounds of the store
	Limits         map[string]limit.Rule // host → pace; "*" for any other

	Repeat string // "body" (the default), or "reference": a note may stand for what a client already holds

	Enrichment speculate.Rules
	Plans      Plans
	Selection  Selection
	Budgets    budget.Rules // of the tokens of answers

	Trace      record.Trace   // nil: nothing is traced
	ConfigPath string         // of the configuration; "": the built-in defaults
	Record     record.Options // where the record is kept
}

// Upstream is one configured server and what the proxy does with it.
type Upstream struct {
	Spec        upstream.Spec
	Store       upstream.Store
	Stderr      io.Writer              // where its processes' lines on stderr are logged; nil: nowhere
	Fingerprint string                 // changes whenever the connection would have to be made anew
	Timeout     time.Duration          // per call without progress; 0: none
	Allows      func(tool string) bool // which tools may be seen and called; nil: all

	Model          valuemodel.Upstream // what the operator says of it; Name as in Spec, Server unset
	SharedIdentity bool                // with Spec.Shared: all sessions are one principal to it
	Exclusive      bool                // nothing but calls through this proxy changes what it reads
	Learned        speculate.Learned   // where what is learned of its calls is kept; nil: nowhere
	LearnedAs      string              // replicas that say the same keep together what belongs to the server; "": none do
}

// Server is one running proxy. It has more than 25 methods because it is the face of all
// that a program does with one: serve, apply, report, save, stop.
type Server struct {
	log      *slog.Logger
	policy   livePolicy
	connect  connector
	stopFast func() // has processes end as fast as they can, those that end later too

	sessions sessions
	names    *names
	common   *Common
	store    *dedup.Store // of common, as limits
	limits   *limit.Hosts
	catalog  *catalog
	recorder recorder
	figures  *figures
	running  sync.WaitGroup // flights, which belong to no session

	prefetch *speculate.Worker
	kept     *kept // results of plans, for reading what did not come back
}

// New makes a server; upstream processes start when a session needs them, or
// with Prepare.
func New(o Options, guard *upstream.Guard) *Server {
	o = withDefaults(o)
	stopping, common := make(chan struct{}), o.Common
	if common == nil {
		common = NewCommon(o)
	}
	s := &Server{
		log: o.Log, stopFast: sync.OnceFunc(func() { close(stopping) }), names: newNames(),
		common: common, store: common.store, limits: common.limits,
	}
	s.connect = func(u Upstream, after <-chan struct{}) (up *upstream.Upstream) {
		up = upstream.New(u.Spec, upstream.Options{
			Log: o.Log, Guard: guard, StopFast: stopping, Store: u.Store, Stderr: u.Stderr, Dial: o.Dial, After: after,
			Invalidated: func(string) { s.catalog.invalidate(s.policy.Load(), up, u.Spec.Name) },
			Asked:       s.serverAsked,
			Changed:     func() { s.recorder.log.Changed() },
			WriteSettle: func() time.Duration { return s.policy.Load().Dedup.WriteSettle },
		})
		return up
	}
	s.figures = newFigures(s, o.Record.Begin)
	recording := o.Record
	recording.Log, recording.Status = o.Log, s.status
	recording.Each = func(e record.Event) {
		s.figures.add(&e)
		if e.Kind == record.Session || e.Kind == record.End || e.Kind == record.Level {
			s.recorder.log.Changed()
		}
		if o.Record.Each != nil {
			o.Record.Each(e)
		}
	}
	s.recorder.log, s.recorder.srv = record.Open(recording), s
	s.prefetch = speculate.NewWorker(speculate.Setup{
		Log:     o.Log,
		Rules:   func() *speculate.Rules { return &s.policy.Load().Enrichment },
		Waited:  s.limits.Harm,
		Decided: s.recorder.recordDecision,
		Gone: func(key string) bool {
			return !slices.ContainsFunc(s.policy.Load().members, func(m *member) bool { return m.key == key })
		},
	})
	s.configurePrefetch(&o.Enrichment)
	s.catalog, s.kept = newCatalog(o.Log, s.store), new(kept)
	s.policy.Store(buildPolicy(o, nil, s.connect))
	common.add(s) // as its record is there now
	if o.Selection.on() {
		s.running.Go(func() { s.catalog.search.load(&o.Selection) }) // before a session's reader needs it
	}
	return s
}

// ServeStdio serves one client on a pair of streams until in ends, then lets
// open calls finish for DrainTimeout, or until ctx ends. only limits the view
// to one upstream under its own names; "" shows all.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, only string) error {
	return front.ServeStdio(ctx, in, out, only, s.front())
}

// ServeListener serves HTTP on ln until ctx ends; then every session ends, open
// requests and streams get their last answer, and ln is closed.
func (s *Server) ServeListener(ctx context.Context, ln net.Listener) error {
	return front.NewHTTP(s.front()).Serve(ctx, ln)
}

// Handler serves MCP over HTTP, see [front.HTTP]. Its sessions end when they have
// been idle, or with the server.
func (s *Server) Handler() http.Handler { return front.NewHTTP(s.front()) }

// Mount serves something beside MCP, at a pattern of [http.ServeMux]. Like everything
// it needs the token, unless the handler asks for that itself; Host and Origin are
// checked in any case. It is to be called before the server serves.
func (s *Server) Mount(pattern string, h http.Handler, asks bool) {
	s.figures.pages = append(s.figures.pages, front.Page{Pattern: pattern, Handler: h, OwnAuth: asks})
}

// front configures the client's side of the wire.
func (s *Server) front() front.Options {
	p := s.policy.Load()
	return front.Options{
		NewSession: func(c front.Client) front.Session { return s.newSession(c) }, Has: s.Has, Pages: s.figures.pages,
		MaxMessage: p.MaxMessage, DrainTimeout: p.DrainTimeout, Log: s.log, Clock: p.Dedup.Clock, HTTP: p.HTTP,
	}
}

// Prepare starts the upstreams ahead of the first session. only limits it to
// one; "" starts all.
func (s *Server) Prepare(only string) {
	for _, m := range s.policy.Load().members {
		if only == "" || only == m.Spec.Name {
			m.up.Prepare()
		}
	}
}

// Has reports whether an upstream of that name is configured.
func (s *Server) Has(name string) bool { return s.policy.Load().find(name) != nil }

// PrepareStop is what a signal asks for: what was learned and recorded so far is on disk
// when it returns, unless the disk does not answer, and the ends of processes, under
// way or to come, take no longer than they must. It ends nothing itself, and may be
// called again.
func (s *Server) PrepareStop() {
	s.stopFast()
	s.Save()
}

// Save puts on the disk what was learned and recorded so far.
func (s *Server) Save() {
	s.prefetch.Save()
	s.catalog.search.save(&s.policy.Load().Selection)
	s.recorder.recordPrefetches(false)
	s.recorder.log.Flush()
}

// SaveAll is for a program that can wait no longer for Close: what was learned and
// recorded is on disk when it returns, and nothing more will be.
func (s *Server) SaveAll() {
	for _, session := range s.sessions.all() {
		session.endObservation()
	}
	s.prefetch.Close()
	s.catalog.search.save(&s.policy.Load().Selection)
	s.recorder.close()
}

// Close ends every session and upstream, and returns when their processes and
// goroutines have ended.
func (s *Server) Close() {
	var ending sync.WaitGroup
	for _, session := range s.sessions.close() {
		ending.Go(func() { session.End(front.ErrEnded) })
	}
	s.policy.replacing.Lock()
	defer s.policy.replacing.Unlock()
	for _, m := range s.policy.Load().members {
		ending.Go(m.up.Close)
	}
	if s.policy.Load().Common == nil {
		s.common.Close()
	}
	ending.Wait()
	s.prefetch.Close() // nothing begins a prefetch any more
	s.catalog.search.save(&s.policy.Load().Selection)
	s.running.Wait()
	s.recorder.record()
	s.common.remove(s)
	s.figures.notices.stop()
	s.recorder.close()
}
