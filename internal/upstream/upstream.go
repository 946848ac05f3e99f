// Package upstream owns the connections to the MCP servers behind the proxy:
// starting them, shaking hands, keeping what they offer, sending requests, and
// starting them again when they end.
//
// The idea: a session holds a lease on an instance of each upstream. The
// instance owns one connection at a time and outlives it; a request goes out
// over whichever connection is live, and comes back as the bytes the server
// wrote.
//
//	up := upstream.New(spec, upstream.Options{Log: log})
//	lease := up.Attach(client, listener)
//	answer, err := lease.Call(ctx, lease.Turn(), &upstream.Request{Method: "tools/call", Params: params})
//
// It knows nothing of names, models, stores of answers or plans; it only says
// when what a server answers may have changed.
package upstream

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/revision"
	"mcpschedd/internal/secret"
)

// Spec is one upstream as configured, everything resolved.
type Spec struct {
	Name         string
	Command      Command       // a process; its Path is empty for a server over HTTP
	URL          string        // a server over HTTP; "" for a process
	Header       http.Header   // sent with every HTTP request; never shown
	SSE          bool          // speak the HTTP+SSE transport of 2024-11-05 without trying the newer
	Shared       bool          // one instance for all sessions
	StartTimeout time.Duration // how long a call waits for a starting server
	MaxMessage   int           // bytes
	Secrets      []string      // values that must never be shown, beside what Header and URL hold: of its environment
	Unusable     error         // why it cannot be started at all (an unset variable); nil if it can
}

// Options is what an upstream needs besides its Spec. Nil and zero work.
type Options struct {
	Log   *slog.Logger
	Guard *Guard // of its processes
	Store Store
	// After is closed once its predecessor of the same name has ended: nothing is
	// started before, for two servers of one name may want the same port or lock.
	After <-chan struct{}
	// StopFast is closed when the ends of processes, under way or to come, must take no
	// longer than it needs to ask each once.
	StopFast <-chan struct{}
	// Invalidated is called when what the server answers may have changed by something
	// else than a request sent through here: before anything that comes later on
	// the same connection is acted on, and before a session can see it. The cause
	// is "handshake", "exit", "session" (lost, over HTTP), "gap" (in a stream),
	// "list_changed" or "resources/updated". It is called from any goroutine and
	// must not block.
	Invalidated func(cause string)
	// WriteSettle is for how long after a request was given up, or its session has
	// ended, the server may still send messages about it; nil and 0: a minute.
	WriteSettle func() time.Duration
	// Asked is called when an instance's server asks its client something, before the
	// client is asked; the server does not say for which call. As Invalidated.
	Asked func(instance uint64, method string)
}

// counts are those of an upstream.
type counts struct {
	dropped    atomic.Int64 // notifications that could not be attributed to a session
	refused    atomic.Int64 // questions likewise
	repaired   atomic.Int64 // messages with invalid UTF-8 in them
	unanswered atomic.Int64 // pings and questions without any reply: too many replies had not been taken
}

// Stats is what happened at one upstream.
type Stats struct {
	Dropped    int64 `json:"notifications_dropped"` // it could not be told for which session they were
	Refused    int64 `json:"questions_refused"`     // likewise
	Unanswered int64 `json:"replies_dropped"`       // to pings and questions, of which too many came
	Repaired   int64 `json:"messages_repaired"`     // U+FFFD stands where they were not UTF-8
}

// Stats tells what happened so far.
func (u *Upstream) Stats() Stats {
	return Stats{u.counts.dropped.Load(), u.counts.refused.Load(), u.counts.unanswered.Load(), u.counts.repaired.Load()}
}

// Upstream is one configured server.
type Upstream struct {
	spec      Spec
	o         Options        // Invalidated and Asked are never nil
	log       *slog.Logger   // Options.Log, masked
	mask      *secret.Masker // of all that is said of it
	counts    counts
	transport *http.Transport // for a server over HTTP
	sse       atomic.Bool     // it speaks only the HTTP+SSE transport of 2024-11-05
	known     known

	mu        sync.Mutex
	closed    bool
	prepared  *instance              // started before any session
	shared    *instance              // Spec.Shared only
	instances map[*instance]struct{} // all that run
}

// New makes an upstream and reads its last-known offer. Nothing is started.
func New(spec Spec, o Options) *Upstream {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Invalidated == nil {
		o.Invalidated = func(string) {}
	}
	if o.Asked == nil {
		o.Asked = func(uint64, string) {}
	}
	mask := spec.masker()
	u := &Upstream{
		spec: spec, o: o, log: slog.New(mask.Handler(o.Log.Handler())), mask: mask,
		known: known{store: o.Store}, instances: make(map[*instance]struct{}),
	}
	if spec.URL != "" {
		u.transport = newTransport()
		u.sse.Store(spec.SSE)
	}
	switch kept, err := o.Store.load(); {
	case err == nil:
		u.known.copies = kept
	case errors.Is(err, fs.ErrNotExist):
		u.log.Debug("no last-known copy", "upstream", spec.Name, "err", err)
	default:
		u.log.Warn("last-known copy not used", "upstream", spec.Name, "err", err)
	}
	return u
}

// masker knows what of the server's configuration may be secret.
func (s *Spec) masker() *secret.Masker {
	values := append(secret.In(strings.Join(s.Command.Args, " ")), s.Secrets...)
	if s.URL != "" {
		values = append(values, secret.URL(s.URL)...)
	}
	for _, header := range s.Header {
		for _, value := range header {
			values = append(values, secret.Header(value)...)
		}
	}
	return secret.NewMasker(values...)
}

// Prepare starts an instance ahead of the session that will lease it.
func (u *Upstream) Prepare() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prepared == nil && !u.closed {
		u.prepared = u.start()
	}
}

// Attach gives a session its lease: on an instance of its own, or on the one
// that all share.
func (u *Upstream) Attach(client Client, listener Listener) *Lease {
	u.mu.Lock()
	defer u.mu.Unlock()
	in := u.shared
	if in == nil {
		in, u.prepared = u.prepared, nil
		if in == nil {
			in = u.start()
		}
		in.setClient(client)
		if u.spec.Shared {
			u.shared = in
		}
	}
	l := &Lease{
		in: in, listener: listener, wishes: wishes{uris: make(map[string]bool)},
		mixed: u.spec.Shared || listener.Pooled, mute: revision.Stateless(client.Version),
	}
	in.leases.add(l)
	in.levelChanged() // what another wants may leave out what this session may see
	return l
}

// start runs a new instance. u.mu is held.
func (u *Upstream) start() *instance {
	in := newInstance(u, u.o.After)
	if u.closed {
		in.cancel()
	}
	u.instances[in] = struct{}{}
	return in
}

// release ends an instance that no session holds any more.
func (u *Upstream) release(in *instance) {
	u.mu.Lock()
	idle := len(in.leases.list()) == 0 && in != u.shared
	u.mu.Unlock()
	if !idle {
		return
	}
	in.close()
	u.mu.Lock()
	delete(u.instances, in) // not before: Close waits for what is in it
	u.mu.Unlock()
}

// Close ends every instance and returns when their processes are gone.
func (u *Upstream) Close() {
	u.mu.Lock()
	u.closed = true
	var wg sync.WaitGroup
	for in := range u.instances {
		wg.Go(in.close)
	}
	u.mu.Unlock()
	wg.Wait()
	if u.transport != nil {
		u.transport.CloseIdleConnections()
	}
}

// remember keeps an offer for the next instance and the next run.
func (u *Upstream) remember(client Client, offer *Offer) {
	if err := u.known.remember(client, offer); err != nil {
		u.log.Warn("last-known copy not kept", "upstream", u.spec.Name, "err", err)
	}
}

// writeSettle is Options.WriteSettle.
func (u *Upstream) writeSettle() time.Duration {
	if u.o.WriteSettle != nil {
		if d := u.o.WriteSettle(); d > 0 {
			return d
		}
	}
	return writeSettle
}

// noteRepair counts a message that was repaired.
func (u *Upstream) noteRepair() {
	if u.counts.repaired.Add(1) == 1 {
		u.log.Warn("upstream sends what is not UTF-8: it is read with U+FFFD in its place", "upstream", u.spec.Name)
	}
}

// dial starts the link of c.
func (u *Upstream) dial(c *conn) error {
	if u.spec.Unusable != nil {
		return u.spec.Unusable
	}
	if u.spec.URL != "" {
		c.http = true
		c.open(u.dialHTTP(c.sink()))
		return nil
	}
	p, err := startProcess(u.spec.Command, u.o.Guard, u.o.StopFast, c.sink())
	if err == nil {
		c.open(p)
	}
	return err
}

func (u *Upstream) dialHTTP(in sink) link {
	opts := httpOptions{url: u.spec.URL, header: u.spec.Header, mask: u.mask, transport: u.transport, maxMessage: u.spec.MaxMessage}
	if u.sse.Load() {
		return dialSSE(opts, in)
	}
	return dialStreamable(opts, in)
}

// otherTransport reports whether err means that the server speaks the other
// one of HTTP's two transports, and turns to that.
func (u *Upstream) otherTransport(err error) bool {
	if _, ok := errors.AsType[*notStreamable](err); !ok || u.spec.SSE || !u.sse.CompareAndSwap(false, true) {
		return false
	}
	return true
}

// permanent reports whether trying again can change nothing: what is missing
// must come from a person.
func (u *Upstream) permanent(err error) bool {
	_, auth := errors.AsType[*authRequired](err)
	return auth || u.spec.Unusable != nil
}

// logAttrs is what the log has of an error with which a life ended. Where a command
// was looked for is for the log alone: it tells a model nothing but how the machine
// is laid out.
func (u *Upstream) logAttrs(err error) []any {
	attrs := []any{"upstream", u.spec.Name, "err", err}
	if missing, ok := errors.AsType[*notFound](err); ok {
		attrs = append(attrs, "path", missing.path)
	}
	return attrs
}
