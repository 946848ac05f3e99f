package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/jsonrpc"
)

const (
	maxBacklog    = 8 << 20          // bytes queued for one side before reading from the other side pauses
	drainTimeout  = 2 * time.Second  // for the client to read the last messages
	stableAfter   = 10 * time.Second // minimum connection time after which reconnecting is immediate
	minRetryDelay = 250 * time.Millisecond
	maxRetryDelay = 10 * time.Second
)

// Options configure [Connect].
type Options struct {
	Place Place
	Start Start
	Only  string        // the only upstream that the client sees; empty for all
	Log   *slog.Logger  // for messages to the user
	Wait  time.Duration // for the daemon to start, and for the handshake; default DefaultWait

	PingEvery time.Duration // interval of pings while a request is open; default 2 s
}

// Connect forwards the messages of one client between a pair of streams and the daemon. If the
// daemon ends, Connect reconnects and replays open requests. It returns after the client has
// closed its input and received its last response, or when ctx is done. It returns ErrNoDaemon,
// without having read from in, if no daemon can be reached.
func Connect(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	o.Wait, o.PingEvery = cmp.Or(o.Wait, DefaultWait), cmp.Or(o.PingEvery, pingEvery)
	c := &connection{o: o, conversation: &conversation{}}
	c.changed = sync.NewCond(&c.mu)
	l, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoDaemon, err)
	}
	c.link = l
	if in, out, err = streams(in, out); err != nil {
		l.close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.client = jsonrpc.NewWriter(out)
	defer c.client.Close()
	go func() { // runs until the process exits, as it may be blocked in a read
		c.readClient(ctx, jsonrpc.NewShortReader(in, 0))
		c.endInput()
	}()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	c.readDaemon(ctx, l)
	last, end := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer end()
	_ = c.client.Drain(last, 0) // a client that does not read loses the rest
	return nil
}

// streams opens a client's files for reading and writing without blocking a thread.
func streams(in io.Reader, out io.Writer) (io.Reader, io.Writer, error) {
	if file, ok := in.(*os.File); ok {
		own, err := jsonrpc.OpenStream(file)
		if err != nil {
			return nil, nil, err
		}
		in = own
	}
	if file, ok := out.(*os.File); ok {
		own, err := jsonrpc.OpenStream(file)
		return in, own, err
	}
	return in, out, nil
}

// connection connects a client to the daemon. One goroutine reads from the client, another one
// reads from the daemon and reconnects when the daemon has ended.
type connection struct {
	o      Options
	client *jsonrpc.Writer

	mu           sync.Mutex
	changed      *sync.Cond
	link         *link // nil while there is no daemon
	unavailable  error // why the last attempt to reconnect failed; nil before that, and after success
	inputEnded   bool  // the client has closed its input
	closed       bool  // close was called
	reconnecting bool  // the first handshake has succeeded
	conversation *conversation
}

// link is the connection to one daemon.
type link struct {
	stream
	out     *jsonrpc.Writer // writes to stream
	lines   *jsonrpc.Reader
	watched bool // watch is running; guarded by connection.mu
}

// connect connects to the daemon, starting it if necessary, and completes the handshake.
func (c *connection) connect(ctx context.Context) (*link, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.abandonLocked(maxTries, errEnded)
	h := Hello{Kind: kindSession, Dir: dir, Env: Base(os.Environ()), Only: c.o.Only, Repeated: c.conversation.ids(), Session: clip(os.Getenv("CLAUDE_CODE_SESSION_ID"), maxName), Parent: os.Getppid(), Reconnected: c.reconnecting}
	c.mu.Unlock()
	var s stream
	for range 2 { // the first daemon may be shutting down
		conn, missing := dialOrStart(ctx, c.o.Place, c.o.Start, c.o.Wait)
		if missing != nil {
			return nil, missing
		}
		if s, err = greetSession(conn, h, c.o.Wait); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.reconnecting = true
	c.mu.Unlock()
	return &link{stream: s, out: jsonrpc.NewWriter(s.Out), lines: jsonrpc.NewShortReader(s.In, 0)}, nil
}

func (l *link) close() {
	l.stream.close()
	l.out.Close()
}

// readClient forwards the client's messages until it closes its input.
func (c *connection) readClient(ctx context.Context, lines *jsonrpc.Reader) {
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		to := c.send(line)
		if to != nil {
			_ = to.Drain(ctx, maxBacklog) // fails when the link is closed
		}
	}
}

// send sends a line to the daemon and returns the writer that it used. While a daemon is being
// looked for, send blocks. If none is available, it answers requests with an error and returns
// nil.
func (c *connection) send(line []byte) *jsonrpc.Writer {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.link == nil && c.unavailable == nil && !c.closed {
		c.changed.Wait()
	}
	for m := range messages(line) {
		switch {
		case c.link != nil:
			c.conversation.sent(m)
		case m.IsRequest():
			_ = c.client.Send(errorResponse(m, notSent, c.unavailable)) // fails if the client has gone
		}
	}
	if c.link == nil {
		return nil
	}
	if !c.conversation.idle() && !c.link.watched {
		c.link.watched = true
		go c.watch(c.link)
	}
	_ = c.link.out.Send(line) // requests lost with the daemon are replayed or answered with an error
	return c.link.out
}

// endInput records that the client has closed its input, and closes the daemon's.
func (c *connection) endInput() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inputEnded = true
	c.changed.Broadcast()
	if c.link != nil {
		go c.link.endInput()
	}
}

// endInput closes the daemon's input after all queued messages are written.
func (l *link) endInput() {
	if l.out.Drain(context.Background(), 0) == nil {
		_ = l.closeWrite() // fails if the daemon has gone
	}
}

// close closes the connection.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
	if c.link != nil {
		c.link.close()
	}
}

// readDaemon forwards the messages of the daemon, and of further daemons after that one ends.
func (c *connection) readDaemon(ctx context.Context, l *link) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = minRetryDelay, maxRetryDelay
	for {
		began := time.Now()
		c.forward(ctx, l)
		l.close()
		if c.daemonEnded() {
			return
		}
		wait := time.Duration(0)
		if time.Since(began) < stableAfter {
			wait = retry.NextBackOff()
		} else {
			retry.Reset()
		}
		c.o.Log.Warn("the daemon has ended; reconnecting", "wait", wait)
		for l = nil; l == nil; wait = retry.NextBackOff() {
			if l = c.reconnect(ctx, wait); l == nil && (ctx.Err() != nil || c.done()) {
				return
			}
		}
	}
}

// daemonEnded records that the daemon has ended, and reports whether the client is done.
func (c *connection) daemonEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link = nil; c.inputEnded {
		c.abandonLocked(0, errEnded)
	}
	return c.inputEnded || c.closed
}

// done reports whether the client is done.
func (c *connection) done() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inputEnded || c.closed
}

// errEnded and errHung are the reasons for which a request is not replayed.
var (
	errEnded = errors.New("the daemon that had the request has ended")
	errHung  = errors.New("the daemon that has the request does not answer")
)

// forward forwards the daemon's messages until the link is closed.
func (c *connection) forward(ctx context.Context, l *link) {
	for {
		line, err := l.lines.Borrow()
		if err != nil {
			return
		}
		if !c.received(l, line.Line) && c.client.Send(line.Line) != nil {
			c.close() // the client has gone away
		}
		line.Release()
		_ = c.client.Drain(ctx, maxBacklog) // fails if the client has gone away
	}
}

// received records a message of the daemon, and reports whether to withhold it from the client.
func (c *connection) received(l *link, line []byte) bool {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l { // checkDaemon has closed the link
		return true
	}
	swallowed := c.conversation.received(&m)
	if swallowed && m.Error != nil {
		c.o.Log.Warn("the daemon rejects a replayed request", "id", string(m.ID), "err", string(m.Error))
	}
	return swallowed
}

// reconnect waits, connects to a daemon and resumes the conversation. It returns nil if no daemon is
// available.
func (c *connection) reconnect(ctx context.Context, wait time.Duration) *link {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return nil
	}
	l, err := c.connect(ctx)
	if err != nil {
		c.fail(err)
		return nil
	}
	c.resume(l)
	return l
}

// resume continues with another daemon: it replays the session's setup and the open requests.
func (c *connection) resume(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.conversation.replay() {
		_ = l.out.Send(line) // if this daemon ends too, reading from it fails
	}
	c.link, c.unavailable = l, nil
	c.changed.Broadcast()
	if c.inputEnded {
		go l.endInput()
	}
	if c.closed {
		l.close()
	}
}

// fail answers all open requests with an error, as no daemon is available.
func (c *connection) fail(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unavailable = why
	c.o.Log.Error("no daemon is available", "err", why)
	c.abandonLocked(0, fmt.Errorf("%w: %w", errEnded, why))
	c.changed.Broadcast()
}

// abandonLocked answers the open requests that at least so many daemons have received with an
// error.
func (c *connection) abandonLocked(tries int, why error) {
	for _, m := range c.conversation.abandon(tries) {
		_ = c.client.Send(errorResponse(&m, outcomeUnknown, why)) // fails if the client has gone away
	}
}

// errorResponse returns the response to a request that no daemon has answered. For a tools/call
// it is a result with isError, so that the model sees the reason.
func errorResponse(m *jsonrpc.Message, what string, why error) []byte {
	text := jsonrpc.AppendString(nil, "mcpschedd: "+what+": "+why.Error())
	if m.Method == "tools/call" {
		return jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil, `{"resultType":"complete","content":[{"type":"text","text":%s}],"isError":true}`, text))
	}
	return jsonrpc.AppendError(nil, m.ID, fmt.Appendf(nil, `{"code":%d,"message":%s}`, jsonrpc.CodeInternal, text))
}

// The outcomes that errorResponse states.
const (
	notSent        = "not sent: the daemon cannot be reached"
	outcomeUnknown = "outcome unknown"
)
