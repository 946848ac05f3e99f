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
// The path of a call stands top to bottom in call.go. What a session is, is in
// session.go; who is asked what, in dispatch.go. It starts no processes and
// keeps no connections: that is package upstream.
package proxy

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/events"
	"mcpschedd/internal/front"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/telemetry"
	"mcpschedd/internal/upstream"
	"mcpschedd/internal/valuemodel"
)

// Options is everything a server is told. Zero values mean the defaults named.
type Options struct {
	Version      string        // of this program; "" as "dev"
	Upstreams    []Upstream    // in the order in which lists are joined
	NameStyle    string        // "auto" (the default), "always" or "never"
	StartupWait  time.Duration // how long lists wait for an upstream never seen before
	DrainTimeout time.Duration // how long calls may go on after the client has closed its end
	MaxMessage   int           // bytes of one message; 0: 64 MiB
	Log          *slog.Logger  // nil: discards
	HTTP         front.HTTPOptions

	Models *valuemodel.Models    // the operator's layers; nil: none
	Dedup  dedup.Options         // bounds of the store
	Limits map[string]limit.Rule // host → pace; "*" for any other
	MaxAge time.Duration         // how old a prefetched answer may be, where its tool has no freshness
	Repeat string                // "body" (the default), or "reference": a note may stand for what a client already holds

	Enrichment Enrichment
	Plans      Plans

	Trace      Trace          // nil: nothing is traced
	ConfigPath string         // of the configuration; "": the built-in defaults
	Record     events.Options // where the record is kept
	Unrecorded bool           // it is not written for now; the figures are kept all the same
}

// Upstream is one configured server and what the proxy does with it.
type Upstream struct {
	Spec        upstream.Spec
	Store       upstream.Store
	Fingerprint string                 // changes whenever the connection would have to be made anew
	Timeout     time.Duration          // per call without progress; 0: none
	Allows      func(tool string) bool // which tools may be seen and called; nil: all

	Model          valuemodel.Upstream // what the operator says of it; Name as in Spec, Server unset
	SharedIdentity bool                // with Spec.Shared: all sessions are one principal to it
	Exclusive      bool                // nothing but calls through this proxy changes what it reads
	Learned        Learned             // where what is learned of its calls is kept; nil: nowhere
}

// Server is one running proxy.
type Server struct {
	log      *slog.Logger
	guard    *upstream.Guard
	stopFast chan struct{} // closed by PrepareStop
	stopOnce sync.Once     // closes it
	policy   atomic.Pointer[policy]
	http     front.HTTPOptions
	store    *dedup.Store
	limits   *limit.Hosts
	said     said
	events   *events.Log
	tally    *telemetry.Tally

	pages        []front.Page // served beside MCP
	observer     observer
	occupancies  occupancies
	statsNotices statsNotices
	rejected     atomic.Pointer[error] // why a newer configuration is not in force; nil: there is none
	began        time.Time
	clock        func() age.Moment // what ages go by
	work         sync.WaitGroup    // flights, which belong to no session
	scopes       atomic.Uint64     // sessions so far

	prefetcher *prefetcher
	schemas    *schemas
	kept       *kept // results of plans, for reading what did not come back

	vocabulary sync.Once // loads the tokenizer for plans

	applying sync.Mutex // held while the policy is replaced

	mu       sync.Mutex
	closed   bool
	sessions map[*session]struct{}
	views    map[string]*view // "" is the one with every upstream
}

// policy is what one configuration says, and the upstreams it names. It is
// replaced whole.
type policy struct {
	Options
	members []*member // in configuration order
	prefix  bool      // names are upstream__tool
	models  *models
	own     []*ownTool // what the proxy itself offers
	loaded  time.Time
}

// sessionsKept is how many sessions the figures are kept of, each by itself.
const sessionsKept = 256

// member is one upstream of a policy.
type member struct {
	Upstream
	up    *upstream.Upstream
	gone  chan struct{}                  // closed when up has been closed
	dull  atomic.Pointer[upstream.Offer] // in which nothing may ever be run early; nil: not looked at
	known string                         // names it together with how it is reached: another command under the same name is another server
}

func (m *member) close() {
	m.up.Close()
	close(m.gone)
}

// New makes a server; upstream processes start when a session needs them, or
// with Prepare.
func New(o Options, guard *upstream.Guard) *Server {
	o = withDefaults(o)
	s := &Server{
		log: o.Log, guard: guard, stopFast: make(chan struct{}), http: o.HTTP,
		store: dedup.New(o.Dedup), limits: limit.New(o.Limits), began: time.Now(), clock: age.Now,
		sessions: make(map[*session]struct{}),
		views:    make(map[string]*view),
	}
	if o.Dedup.Clock != nil {
		s.clock = o.Dedup.Clock
	}
	s.statsNotices.interval, s.statsNotices.call = statsInterval, s.announceStats
	s.tally = telemetry.New(telemetry.Options{Sessions: sessionsKept, Lost: func() int64 { return s.events.Lost() }})
	record := o.Record
	record.Log = o.Log
	record.Each = func(e *events.Event) {
		s.tally.Add(e)
		s.statsNotices.recorded(e)
		if o.Record.Each != nil {
			o.Record.Each(e)
		}
	}
	s.events = events.Open(record)
	s.events.Reconfigure(record.Full, !o.Unrecorded)
	s.prefetcher = newPrefetcher(s, o.Enrichment.slots())
	s.schemas, s.kept = newSchemas(o.Log), newKept()
	s.policy.Store(s.build(o, nil))
	return s
}

func withDefaults(o Options) Options {
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 64 << 20
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Models == nil {
		o.Models, _ = valuemodel.Compile(nil)
	}
	return o
}

// build makes the policy of o, taking over from old the upstreams that are the
// same.
func (s *Server) build(o Options, old *policy) *policy {
	p := &policy{Options: o, loaded: time.Now(), prefix: o.NameStyle == "always" || o.NameStyle != "never" && len(o.Upstreams) != 1}
	for _, u := range o.Upstreams {
		m := &member{Upstream: u, gone: make(chan struct{}), known: u.Spec.Name + "\x00" + u.Fingerprint}
		if same := old.find(u.Spec.Name); same != nil && same.Fingerprint == u.Fingerprint {
			m.up, m.gone = same.up, same.gone
		} else {
			var after <-chan struct{}
			if same != nil {
				after = same.gone
			}
			m.up = upstream.New(u.Spec, upstream.Options{
				Log: s.log, Guard: s.guard, StopFast: s.stopFast, Store: u.Store, After: after,
				Invalidated: func(string) { s.stirred(m.up, u.Spec.Name) },
				Asked:       s.asks,
				WriteSettle: func() time.Duration { return s.policy.Load().Dedup.WriteSettle },
			})
		}
		p.members = append(p.members, m)
	}
	p.Plans.withDefaults()
	p.own = ownTools(&p.Plans)
	p.models = newModels(o.Models)
	return p
}

// sameRules reports whether two policies agree on what every call may change and
// what its answer depends on.
func (p *policy) sameRules(old *policy) bool {
	return p.Models.Same(old.Models) && slices.EqualFunc(p.members, old.members, func(a, b *member) bool { return a.Model == b.Model })
}

func (p *policy) find(name string) *member {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.members, func(m *member) bool { return m.Spec.Name == name })
	if i < 0 {
		return nil
	}
	return p.members[i]
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

// Apply replaces the configuration: upstreams that are no longer in it end,
// new ones start, and every session is told what changed. Server and HTTP
// settings need a restart and are left as they were.
func (s *Server) Apply(o Options) {
	s.applying.Lock()
	defer s.applying.Unlock()
	old := s.policy.Load()
	o.Log, o.HTTP, o.Version = old.Log, old.HTTP, old.Version
	o.Trace = old.Trace
	if o.Record.Full != old.Record.Full || o.Unrecorded != old.Unrecorded {
		s.events.Reconfigure(o.Record.Full, !o.Unrecorded)
	}
	o.NameStyle, o.StartupWait, o.DrainTimeout, o.MaxMessage = old.NameStyle, old.StartupWait, old.DrainTimeout, old.MaxMessage
	if o.Models == nil {
		o.Models = old.Models
	}
	next := s.build(o, old)
	same := next.sameRules(old) // but not alike in all: freshness and costs may differ
	s.policy.Store(next)
	if !same {
		s.store.Reform() // after it can be seen: a call judged before is in the air from now on
	}
	s.store.Configure(o.Dedup)
	s.limits.Configure(o.Limits)
	s.prefetcher.scheduler.Configure(o.Enrichment.slots())
	var ending sync.WaitGroup
	for _, m := range old.members {
		if now := next.find(m.Spec.Name); now == nil || now.up != m.up {
			ending.Go(m.close)
		}
	}
	sessions, closed := s.all()
	if closed {
		for _, m := range next.members {
			m.up.Close()
		}
	}
	for _, session := range sessions {
		session.adoptPolicy()
	}
	ending.Wait()
	s.prefetcher.queue.enqueueAlways(s.prefetcher.worker.forget)
}

// all returns the sessions there are.
func (s *Server) all() (sessions []*session, closed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.sessions)), s.closed
}

// forget drops a session that has ended; not before: Close waits for what there is.
func (s *Server) forget(n *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, n)
}

// PrepareStop is what a signal asks for: what was learned and recorded so far is on disk
// when it returns, unless the disk does not answer, and the ends of processes, under
// way or to come, take no longer than they must. It ends nothing itself, and may be
// called again.
func (s *Server) PrepareStop() {
	s.stopOnce.Do(func() { close(s.stopFast) })
	s.prefetcher.queue.save()
	s.events.Flush()
}

// SaveAll is for a program that can wait no longer for Close: what was learned and
// recorded is on disk when it returns, and nothing more will be.
func (s *Server) SaveAll() {
	sessions, _ := s.all()
	for _, session := range sessions {
		s.prefetcher.last(session)
	}
	s.prefetcher.close()
	s.events.Close()
}

// Close ends every session and upstream, and returns when their processes and
// goroutines have ended.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	sessions, _ := s.all()
	var wg sync.WaitGroup
	for _, session := range sessions {
		wg.Go(func() { session.End(errSessionEnded) })
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	for _, m := range s.policy.Load().members {
		wg.Go(m.up.Close)
	}
	s.store.Close()
	wg.Wait()
	s.prefetcher.close() // nothing begins a guess any more
	s.work.Wait()
	s.observe(true)
	s.statsNotices.stop()
	s.events.Close()
}
