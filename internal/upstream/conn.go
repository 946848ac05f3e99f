package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
	"mcpschedd/internal/secret"
)

// Listener hears what a server sends beside answers. Its functions are called
// from the connection's reader and must not block it. A nil function hears
// nothing; a nil Ask refuses.
type Listener struct {
	Notify func(method string, params []byte)
	// Ask says on the reader which client is meant by a question that came just
	// now; what it returns puts the question, runs on a goroutine of its own, and
	// may wait.
	Ask func(method string) askFunc
	// Changed says that a list of the offer is not what it was.
	Changed func(l List)
	// Pooled: the session's requests are of clients that know nothing of each
	// other, so that what could be about a request given up is for none of them.
	Pooled bool
}

// askFunc puts a question of a server to a client and waits for the answer.
type askFunc = func(ctx context.Context, method string, params []byte) (result []byte, err *jsonrpc.Error)

// unbound hears what a connection's server sends on no stream of a request that
// wants it. Both are called from the reader; nil hears nothing, or refuses. p is
// the request on whose stream it came, nil if none is known.
type unbound struct {
	notify func(p *pending, method string, params []byte)
	asker  func(p *pending, method string) askFunc
}

// rubbishShown is how many messages of one connection that are none are logged
// as warnings; the rest would drown what matters.
const rubbishShown = 5

// garbageShown is how many bytes of each stand in the log.
const garbageShown = 200

var (
	// errClosed: the connection ended before the request was sent.
	errClosed = errors.New("connection closed")
	// errEnded: the connection ended while the request was with the server.
	errEnded = errors.New("connection ended before the answer")
	// ErrTimeout: the request's own timeout passed without an answer.
	ErrTimeout = errors.New("no answer within the timeout")
)

// conn is one live connection to a server: it numbers requests, pairs answers
// with them, routes progress by its token, and answers pings.
type conn struct {
	name    string
	log     *slog.Logger
	mask    *secret.Masker
	link    link
	http    bool    // over HTTP: headers, and a stateless request is cancelled by dropping its stream
	unbound unbound // the instance's
	offer   func() *Offer
	stirred func(cause string)   // Options.Stirred
	settle  func() time.Duration // Options.Settle
	counts  *counts              // the upstream's
	started chan struct{}        // closed once link is set: a server may speak first
	done    chan struct{}        // closed once the link has ended

	version atomic.Pointer[string] // negotiated revision; nil during the handshake
	told    atomic.Pointer[string] // the log level the server was told last; nil: none
	telling bool                   // over HTTP: it has not answered that; guarded by instance.levelling
	next    atomic.Int64
	rubbish atomic.Int64 // messages that were none

	mu       sync.Mutex
	waiting  map[int64]*pending
	late     *simplelru.LRU[int64, abandoned] // id of a request given up → what its answer means; nil: none was
	accounts map[uint64]*account              // Lease.number → what it has under way
	asked    map[string]asked                 // raw id of a server's question → the question
	replies  replies
	unlisten context.CancelFunc // ends the open listen request; nil: none
	err      error              // why the link ended; set before done closes

	work sync.WaitGroup // the connection's own goroutines
}

// newConn makes a connection; its link is started with sink() and given to
// open.
func newConn(name string, log *slog.Logger, mask *secret.Masker, offer func() *Offer, stirred func(string)) *conn {
	return &conn{
		name: name, log: log, mask: mask, offer: offer, stirred: stirred,
		settle: func() time.Duration { return writeSettle }, counts: new(counts),
		started: make(chan struct{}),
		done:    make(chan struct{}),
		waiting: make(map[int64]*pending),
		asked:   make(map[string]asked),
	}
}

func (c *conn) sink() sink {
	message := func(m jsonrpc.Message, stream int64) {
		<-c.started
		c.message(m, stream)
	}
	return sink{
		message: message, lost: c.lost, repaired: c.noteRepair, garbage: c.garbage,
		limited: c.limited, gap: c.gap, forgot: c.forgot, closed: c.closed,
	}
}

func (c *conn) open(l link) {
	c.link = l
	close(c.started)
}

// spawn runs f on a goroutine that close waits for; false if the connection
// has ended.
func (c *conn) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.work.Go(f)
	return true
}

// revision returns the negotiated revision, "" during the handshake.
func (c *conn) revision() string {
	if v := c.version.Load(); v != nil {
		return *v
	}
	return ""
}

func (c *conn) stateless() bool { return revision.Stateless(c.revision()) }

// message takes one message from the link.
func (c *conn) message(m jsonrpc.Message, stream int64) {
	switch {
	case m.IsResponse():
		id, err := strconv.ParseInt(string(m.ID), 10, 64)
		if err != nil || id <= 0 || id > c.next.Load() {
			c.garbage(m.Raw, errors.New("answer to a request that was never made"))
			return
		}
		p := c.take(id)
		if p == nil {
			c.overdue(id)
			return
		}
		a := answer{msg: m}
		if m.Error == nil && m.Result[0] != '{' {
			a.err = fmt.Errorf("%s: the result is no object", p.req.Method)
		}
		p.finish(a)
	case m.IsRequest():
		c.question(m, stream)
	case m.Method == "notifications/progress":
		c.progress(m.Params)
	case m.Method == "notifications/cancelled":
		c.withdraw(m.Params)
	default:
		if cause := stirring(m.Method); cause != "" {
			c.stirred(cause)
		}
		if p := c.peek(stream); p != nil && p.req.Notify != nil && !listNotification(m.Method) {
			p.req.Notify(m.Method, m.Params)
		} else if c.unbound.notify != nil {
			c.unbound.notify(p, m.Method, m.Params)
		}
	}
}

// listNotification reports whether a notification is about what the server
// has, whatever stream it came on.
func listNotification(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
		return true
	}
	return false
}

// stirring names the cause where a notification says that what the server answers
// may have changed, "" where it does not.
func stirring(method string) (cause string) {
	switch {
	case method == "notifications/resources/updated":
		return "resources/updated"
	case strings.HasSuffix(method, "/list_changed"):
		return "list_changed"
	}
	return ""
}

// progress passes a progress notification to the request whose id is its token.
func (c *conn) progress(params []byte) {
	id, err := strconv.ParseInt(string(jsonrpc.Get(params, "progressToken")), 10, 64)
	if err != nil {
		return
	}
	p := c.peek(id)
	if p == nil {
		return // after its answer: the specification forbids it
	}
	if p.timer != nil {
		p.timer.Reset(p.req.Timeout)
	}
	if p.req.Notify != nil {
		p.req.Notify("notifications/progress", params)
	}
}

func (c *conn) lost(id int64, err error) {
	if p := c.take(id); p != nil {
		if c.http && !neverRun(err) {
			c.mu.Lock()
			c.noteUnfinishedLocked(p.account)
			c.mu.Unlock()
		}
		p.finish(answer{err: err, unsent: neverRun(err)})
	} else if !c.http {
		c.overdue(id) // it came, and cannot be read
	}
}

// limited notes on a request what its HTTP status said.
func (c *conn) limited(id int64, retryAfter string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.waiting[id]; p != nil {
		p.limited, p.retryAfter = true, retryAfter
	}
}

// forgot: the server began anew without a word.
func (c *conn) forgot() { c.stirred("session") }

// noteRepair counts a message that was repaired.
func (c *conn) noteRepair() {
	if c.counts.repaired.Add(1) == 1 {
		c.log.Warn("upstream sends what is not UTF-8: it is read with U+FFFD in its place", "upstream", c.name)
	}
}

func (c *conn) garbage(head []byte, err error) {
	level := slog.LevelWarn
	if c.rubbish.Add(1) > rubbishShown {
		level = slog.LevelDebug
	}
	if c.log.Enabled(context.Background(), level) {
		c.log.Log(context.Background(), level, "upstream sent something that is no MCP message", "upstream", c.name, "err", err, "head", c.mask.Head(head, garbageShown))
	}
}

// gap: notifications may have been missed, so every list may have changed.
func (c *conn) gap() {
	c.stirred("gap")
	if c.unbound.notify != nil {
		for _, l := range []List{Tools, Prompts, Resources} {
			c.unbound.notify(nil, l.Changed(), nil)
		}
	}
}

// closed answers whatever still waits: the server will not.
func (c *conn) closed(err error) {
	if err == nil {
		err = errEnded
	}
	c.stirred("exit")
	c.mu.Lock()
	c.err = err
	c.late = nil
	waiting := c.waiting
	c.waiting = make(map[int64]*pending)
	for _, q := range c.asked {
		q.cancel()
	}
	c.mu.Unlock()
	close(c.done) // first: who hears of the end asks what stderr said
	for _, p := range waiting {
		// Not wrapped: what ended the connection may say "not run", and these
		// may have been.
		p.finish(answer{err: fmt.Errorf("%w: %v", errEnded, err)})
	}
}

// close ends the connection and returns when nothing of it is left.
func (c *conn) close() {
	c.link.close()
	<-c.done
	c.work.Wait()
}
