// Package upstream manages the connections to the MCP servers behind the proxy: it starts a
// server, performs the handshake, caches the server's lists, sends requests, and restarts the
// server when it exits.
//
// Each session holds a lease on one instance of each upstream. An instance owns one connection at
// a time and outlives it. A request goes out over the live connection, and the answer is returned
// as the bytes that the server wrote.
//
//	up := upstream.New(spec, options)
//	lease := up.Attach(client, listener)
//	lease.Send(ctx, lease.Turn(), &upstream.Request{Method: "tools/call", Params: params}, func(answer upstream.Answer, err error) { … })
//
// The package does not deal with tool names, models, cached answers or plans. It only reports
// when answers of a server may have changed.
package upstream

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpschedd/internal/revision"
	"mcpschedd/internal/secret"
)

// Upstream is one configured server. Mutexes of the package nest in this order: Upstream.mu,
// listenRequest.mu, conn.mu, then those of an instance, a request and a link. It has more than 15
// fields because what is known of a server outlives its instances.
type Upstream struct {
	spec Spec
	o    Options
	log  *slog.Logger   // Options.Log with secrets masked
	mask *secret.Masker // masks secrets in errors and log lines
	// For a server over HTTP: client sends requests; sideClient sends notifications, replies, GETs
	// and DELETEs. net/http may reuse a connection before the previous response is finished if that
	// had no body; a late cancellation then fails the next request. So messages that are
	// answered without a body use sideClient, except requests over HTTP+SSE: httpLink.exchange
	// prevents late cancellations of those. In a session a cancelled call may be answered without a
	// body too, so its exchange lingers; that of a prefetch does not, as its limits count it as ended.
	client, sideClient *http.Client
	sse                atomic.Bool           // connect by HTTP+SSE of 2024-11-05
	known              atomic.Pointer[Offer] // the latest offer to any client, of this process or an earlier one; may be nil
	saving             sync.Mutex            // held while an offer is stored
	restarts           atomic.Int64
	lastEnd            atomic.Pointer[string] // why the last connection failed, or ended before it was of use; nil if none has since one was made
	startFailure       atomic.Value           // the logged reason why it cannot be started, a string
	retired            atomic.Int64           // a time.Duration, that of Retire; zero before

	mu        sync.Mutex
	closed    bool
	shared    *instance              // nil unless Spec.Shared
	instances map[*instance]struct{} // every running instance
}

// New returns an upstream with its last-known offer loaded. It starts nothing.
func New(spec Spec, o Options) *Upstream {
	if o.Guard == nil {
		o.Guard = NewGuard(o.Log)
		o.Guard.Close() // it never starts
	}
	mask := spec.masker()
	u := &Upstream{
		spec: spec, o: o, log: slog.New(mask.Handler(o.Log.Handler())).With("upstream", spec.Name), mask: mask,
		instances: make(map[*instance]struct{}),
	}
	if u.spec.MaxMessage == 0 {
		u.spec.MaxMessage = defaultMaxMessage
	}
	if spec.URL != "" {
		u.client, u.sideClient = newClient(spec.Proxy, o.Dial), newClient(spec.Proxy, o.Dial)
		u.sse.Store(spec.SSE)
	}
	last, err := o.Store.LastOffer()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		u.log.Warn("last-known offer not used", "err", err)
	}
	u.known.Store(last) // nil after an error
	return u
}

// Attach returns a lease for a session: on an instance of its own, or on the shared one. Without
// a version the client counts as one of the handshake era; its log level is ignored.
func (u *Upstream) Attach(client revision.Client, listener Listener) *Lease {
	u.mu.Lock()
	defer u.mu.Unlock()
	in := u.shared
	if in == nil {
		in = newInstance(u, u.spec.forServer(client))
		if u.closed {
			in.cancel()
		}
		u.instances[in] = struct{}{}
		if u.spec.Shared {
			u.shared = in
		}
	}
	l := &Lease{in: in, listener: listener, uris: make(map[string]bool), logsPerRequest: revision.Stateless(client.Version)}
	in.mu.Lock()
	in.leases = append(slices.Clone(in.leases), l)
	in.mu.Unlock()
	in.sendLevel(in.live()) // another session's level may be too terse for this session
	return l
}

// release closes an instance that has no leases.
func (u *Upstream) release(in *instance) {
	u.mu.Lock()
	idle := len(in.currentLeases()) == 0 && in != u.shared
	u.mu.Unlock()
	if !idle {
		return
	}
	in.close()
	u.mu.Lock()
	delete(u.instances, in) // last, because Close waits for every instance in the map
	u.mu.Unlock()
}

// Retire is called before Close if another upstream takes the place of this one. From its return on, no request
// of a session is sent. Close then waits up to grace for the answers to those that were sent.
func (u *Upstream) Retire(grace time.Duration) { u.retired.Store(int64(max(grace, 1))) }

// ended returns why requests that were not sent fail.
func (u *Upstream) ended() error {
	if u.retired.Load() > 0 {
		return errReplaced
	}
	return errRemoved
}

// Close closes every instance and returns when their processes have exited.
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

// writeSettle returns Options.WriteSettle, or its default.
func (u *Upstream) writeSettle() time.Duration { return cmp.Or(u.o.WriteSettle(), defaultWriteSettle) }

// dial starts c's link.
func (u *Upstream) dial(c *conn) error {
	switch {
	case u.spec.Unusable != nil:
		return u.spec.Unusable
	case u.spec.URL == "":
		return startProcess(c)
	}
	openHTTP(c, u.sse.Load())
	return nil
}

// Spec is the configuration of one upstream with all variables resolved.
type Spec struct {
	Name           string
	Command        Command       // for a process; Path is empty for a server over HTTP
	URL            string        // for a server over HTTP; empty for a process
	Header         http.Header   // sent with every HTTP request; secret
	Proxy          ProxyFunc     // for a server over HTTP; nil means none
	SSE            bool          // use only HTTP+SSE of 2024-11-05
	Shared         bool          // one instance serves all sessions
	NoCapabilities bool          // declare no client capabilities, because sessions on the shared instance differ in theirs
	StartTimeout   time.Duration // how long a call waits for a starting server; also limits a list or a setting, and fourfold the handshake
	MaxMessage     int           // bytes in one message from the server; zero means 64 MiB
	Secrets        []string      // values to mask, in addition to Header and URL
	Unusable       error         // why it can never be started (e.g. an unset variable), or nil
}

const defaultMaxMessage = 64 << 20 // bytes

// Options configures an upstream. Log, Invalidated, WriteSettle, Asked and Changed must be set.
type Options struct {
	Log   *slog.Logger
	Guard *Guard // kills the processes if the proxy is killed; nil means none
	Store Store
	// Stderr receives the stderr of the processes with secrets masked, one line per write. If
	// nil, only the last lines are kept, for error messages.
	Stderr io.Writer
	Dial   DialFunc // for a server over HTTP; nil means a net.Dialer
	// StopFast is closed when processes must stop quickly: the grace periods before SIGTERM and
	// SIGKILL become short. Nil means never.
	StopFast <-chan struct{}
	// Invalidated is called when the server's answers may have changed for a reason other than a
	// request sent through this package. Except for a gap, it is called before any later message on
	// the connection is handled and before a session can observe the change. The cause is "handshake", "exit",
	// "session" (an HTTP session was lost), "gap" (a stream was interrupted), "list_changed" or
	// "resources/updated". A handshake, an exit and changed tools or prompts are not reported
	// before the first request to the server, nor is an exit at the end of a session if all requests were
	// [Request.ReadOnly]. Invalidated is called from any goroutine and must not block.
	Invalidated func(cause string)
	// WriteSettle returns how long the server may still send messages about a request after the
	// request was given up or its session ended. Zero means one minute.
	WriteSettle func() time.Duration
	// Asked is called when a server sends a request other than a ping or one for a [Request.Ask],
	// before a client receives it. The server does not say which call caused it. Asked must not block.
	Asked func(instance uint64, method string)
	// Changed is called when [Upstream.Health] or the server's lists may have changed. It must
	// not block.
	Changed func()
}

// masker returns a masker for the secrets in the server's configuration.
func (s *Spec) masker() *secret.Masker {
	values := append(secret.In(strings.Join(s.Command.Args, " ")), s.Secrets...)
	before := ""
	for _, arg := range s.Command.Args { // values that are one argument here but not one shell word
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
