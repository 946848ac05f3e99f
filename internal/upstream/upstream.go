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
	"cmp"
	"errors"
	"io"
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

// Upstream is one configured server.
type Upstream struct {
	spec Spec
	o    Options        // Invalidated, WriteSettle, Asked and Changed are never nil
	log  *slog.Logger   // Options.Log, masked
	mask *secret.Masker // for all errors and log lines about it
	// Of a server over HTTP: for requests, and for notifications, ends of sessions and the
	// server's own stream. net/http gives a connection to the next request before the last one
	// knows of an answer without a body; if that one is cancelled at this moment, the next one
	// fails with the reason of the other. Requests have answers with a body.
	client, sideClient *http.Client
	sse                atomic.Bool // it speaks only the HTTP+SSE transport of 2024-11-05
	known              known
	counts             counts

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
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.WriteSettle == nil {
		o.WriteSettle = func() time.Duration { return 0 }
	}
	if o.Asked == nil {
		o.Asked = func(uint64, string) {}
	}
	mask := spec.masker()
	u := &Upstream{
		spec: spec, o: o, log: slog.New(mask.Handler(o.Log.Handler())), mask: mask,
		known: known{store: o.Store}, instances: make(map[*instance]struct{}),
	}
	if u.spec.MaxMessage == 0 {
		u.spec.MaxMessage = defaultMaxMessage
	}
	if spec.URL != "" {
		u.client, u.sideClient = newClient(o.Dial), newClient(o.Dial)
		u.sse.Store(spec.SSE)
	}
	switch kept, err := o.Store.load(); {
	case err == nil:
		u.known.set(kept)
	case errors.Is(err, fs.ErrNotExist):
		u.log.Debug("no last-known copy", "upstream", spec.Name, "err", err)
	default:
		u.log.Warn("last-known copy not used", "upstream", spec.Name, "err", err)
	}
	return u
}

// Prepare starts an instance ahead of the session that will lease it, if that needs one.
func (u *Upstream) Prepare() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prepared == nil && u.shared == nil && !u.closed {
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
		in.setClient(u.spec.forServer(client))
		if u.spec.Shared {
			u.shared = in
		}
	}
	l := &Lease{
		in: in, listener: listener, wants: wants{uris: make(map[string]bool)},
		mixed: u.spec.Shared || listener.Pooled, mute: revision.Stateless(client.Version),
	}
	in.holders.add(l)
	in.levelChanged() // the level that another session wants may be too terse for this one
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
	idle := len(in.holders.list()) == 0 && in != u.shared
	u.mu.Unlock()
	if !idle {
		return
	}
	in.close()
	u.mu.Lock()
	delete(u.instances, in) // not before: Close waits for all in it
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
	if u.client != nil {
		u.client.CloseIdleConnections()
		u.sideClient.CloseIdleConnections()
	}
}

// writeSettle is Options.WriteSettle.
func (u *Upstream) writeSettle() time.Duration { return cmp.Or(u.o.WriteSettle(), writeSettle) }

// dial starts the link of c.
func (u *Upstream) dial(c *conn) error {
	switch {
	case u.spec.Unusable != nil:
		return u.spec.Unusable
	case u.spec.URL == "":
		return startProcess(c)
	}
	c.http = true
	if !u.sse.Load() {
		c.link = newStreamable(c)
		return nil
	}
	l := newSSE(c)
	c.link = l
	l.open()
	return nil
}

// Spec is one upstream as configured, everything resolved.
type Spec struct {
	Name           string
	Command        Command       // a process; its Path is empty for a server over HTTP
	URL            string        // a server over HTTP; "" for a process
	Header         http.Header   // sent with every HTTP request; never shown
	SSE            bool          // speak the HTTP+SSE transport of 2024-11-05 without trying the newer
	Shared         bool          // one instance for all sessions
	NoCapabilities bool          // of a shared one: it is told of nothing that its client could be asked for, as its sessions differ in that
	StartTimeout   time.Duration // how long a call waits for a starting server
	MaxMessage     int           // bytes of one message from the server; 0 is 64 MiB
	Secrets        []string      // values of its environment that must never be shown, like those in Header and URL
	Unusable       error         // why it cannot be started at all (an unset variable); nil if it can
}

const defaultMaxMessage = 64 << 20 // bytes

// Options is what an upstream needs besides its Spec. Nil and zero work.
type Options struct {
	Log   *slog.Logger
	Guard *Guard // of its processes
	Store Store
	// Stderr gets what its processes write there, a line a write, without secrets; nil:
	// only the last lines are kept, for errors.
	Stderr io.Writer
	Dial   DialFunc // of a server over HTTP; nil: over the network
	// After is closed once its predecessor of the same name has ended. Nothing is
	// started before that: two servers of one name may want the same port or lock.
	After <-chan struct{}
	// StopFast is closed when processes must end quickly: each is asked once, with a
	// short grace.
	StopFast <-chan struct{}
	// Invalidated is called when what the server answers may have changed by something
	// else than a request sent through here: before anything that comes later on
	// the same connection is acted on, and before a session can see it. The cause
	// is "handshake", "exit", "session" (lost, over HTTP), "gap" (in a stream),
	// "list_changed" or "resources/updated". What concerns a server alone, a handshake, an
	// exit and changed tools or prompts, is none before the first request to it. It is
	// called from any goroutine and must not block.
	Invalidated func(cause string)
	// WriteSettle is for how long after a request was given up, or its session has
	// ended, the server may still send messages about it; nil and 0: a minute.
	WriteSettle func() time.Duration
	// Asked is called when an instance's server asks its client something, before the
	// client is asked; the server does not say for which call. As Invalidated.
	Asked func(instance uint64, method string)
	// Changed is called when [Upstream.Health] or what the server offers may have
	// changed. As Invalidated.
	Changed func()
}

// masker knows what of the server's configuration may be secret.
func (s *Spec) masker() *secret.Masker {
	values := append(secret.In(strings.Join(s.Command.Args, " ")), s.Secrets...)
	before := ""
	for _, arg := range s.Command.Args { // a value that no line of a shell has as one word, too
		for _, found := range secret.Find(arg, before) {
			if found.Name != "" {
				values = append(values, arg[found.From:found.To])
			}
		}
		before = arg
	}
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
