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

	"mcpschedd/internal/jsonrpc"
)

const (
	maxBacklog    = 8 << 20                // bytes that may wait for the daemon or the client before no more is read of the other
	drainTimeout  = 2 * time.Second        // for the client to read what is left when the daemon has ended
	stableAfter   = 10 * time.Second       // how long a daemon must have lived for its end to be answered by another one at once
	minRetryDelay = 250 * time.Millisecond // between tries to reach a daemon, from the second one on
	maxRetryDelay = 10 * time.Second
)

// Options say which daemon a client wants.
type Options struct {
	Place Place
	Start Start
	Only  string        // the one upstream that the client sees; "": all
	Log   *slog.Logger  // of what the client's user should know
	Wait  time.Duration // for a daemon that starts, and for one that greets; 0: DefaultWait

	PingEvery time.Duration // to a daemon that has a request to answer; 0: 2 s
}

// Connect carries the messages of one client, on a pair of streams, to the daemon and back. It
// returns when the client has ended its input and got its last answer, or when ctx ends. Where
// there is no daemon it is ErrNoDaemon, and nothing has been read of in.
func Connect(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	o.Wait, o.PingEvery = cmp.Or(o.Wait, DefaultWait), cmp.Or(o.PingEvery, pingEvery)
	c := &connection{o: o, conversation: newConversation()}
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
	go func() { // ends with the process, as its read does
		c.readClient(ctx, jsonrpc.NewShortReader(in, 0))
		c.endInput()
	}()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	c.readDaemon(ctx)
	last, end := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer end()
	_ = c.client.Drain(last, 0) // a client that does not read gets no more
	return nil
}

// streams are a client's as they are read and written without blocking a thread.
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

// connection is a client's way to the daemon. One goroutine reads the client, another one the
// daemon; the latter also finds another daemon when that one has ended.
type connection struct {
	o      Options
	client *jsonrpc.Writer

	mu           sync.Mutex
	changed      *sync.Cond
	link         *link // nil: the daemon has gone
	unavailable  error // why there is no other one; nil: it is looked for
	inputEnded   bool  // the client says no more
	closed       bool  // this end says no more
	reconnecting bool  // a daemon has had this client
	watching     bool  // the daemon is pinged, or about to be
	conversation *conversation
}

// link is the connection to one daemon.
type link struct {
	stream
	out   *jsonrpc.Writer // to stream
	lines *jsonrpc.Reader
	pings pingState
}

// reach connects to the daemon, started where there is none, as this client.
func (c *connection) connect(ctx context.Context) (*link, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.abandonLocked(maxTries, errEnded)
	h := hello{Kind: kindSession, Dir: dir, Env: Base(os.Environ()), Only: c.o.Only, Repeated: c.conversation.ids(), Session: name(os.Getenv("CLAUDE_CODE_SESSION_ID")), Parent: os.Getppid(), Reconnected: c.reconnecting}
	c.mu.Unlock()
	var s stream
	for range 2 { // the first one may have been about to end
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

// fromClient passes on what the client says.
func (c *connection) readClient(ctx context.Context, lines *jsonrpc.Reader) {
	for {
		line, err := lines.Next()
		if err != nil {
			return
		}
		to := c.send(line)
		if to != nil {
			_ = to.Drain(ctx, maxBacklog) // it ends with the link
		}
	}
}

// say sends one message to the daemon, and returns where it went. While there is no daemon it
// waits for one; nil: there is none, and a request was answered with that.
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
			_ = c.client.Send(errorResponse(m, notSent, c.unavailable)) // the client may have gone
		}
	}
	if c.link == nil {
		return nil
	}
	if !c.conversation.idle() {
		c.startPingsLocked()
	}
	_ = c.link.out.Send(line) // what is lost with the daemon is repeated or answered
	return c.link.out
}

// endInput notes that the client has ended its input.
func (c *connection) endInput() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inputEnded = true
	c.changed.Broadcast()
	if c.link != nil {
		go c.link.endInput()
	}
}

// endInput tells the daemon that nothing more comes, once it has what came before.
func (l *link) endInput() {
	if l.out.Drain(context.Background(), 0) == nil {
		_ = l.closeWrite() // else the daemon has gone
	}
}

// hangUp ends the connection from this end.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
	if c.link != nil {
		c.link.close()
	}
}

// fromDaemon passes on what the daemon says, and what the next one says when that has ended.
func (c *connection) readDaemon(ctx context.Context) {
	var wait time.Duration // before the next daemon is looked for
	for {
		c.mu.Lock()
		l := c.link
		c.mu.Unlock()
		began := time.Now()
		if l != nil { // else it was given up at once
			c.forward(ctx, l)
			l.close()
		}
		if c.daemonEnded() {
			return
		}
		if time.Since(began) >= stableAfter {
			wait = 0
		}
		if wait = c.reconnect(ctx, wait); wait < 0 {
			return
		}
	}
}

// lost notes that the daemon has ended. It says whether no other one is needed.
func (c *connection) daemonEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link = nil; c.inputEnded {
		c.abandonLocked(0, errEnded)
	}
	return c.inputEnded || c.closed
}

// errEnded and errHung are why a request is not asked of another daemon.
var (
	errEnded = errors.New("the daemon that had the request has ended")
	errHung  = errors.New("the daemon that has the request does not answer")
)

// pass passes on what the daemon says until that has ended.
func (c *connection) forward(ctx context.Context, l *link) {
	for {
		line, err := l.lines.Borrow()
		if err != nil {
			return
		}
		if !c.received(l, line.Line) && c.client.Send(line.Line) != nil {
			c.close() // the client has gone
		}
		line.Release()
		_ = c.client.Drain(ctx, maxBacklog) // the client may have gone
	}
}

// heard takes note of what the daemon says. It is true for what is not for the client.
func (c *connection) received(l *link, line []byte) bool {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l { // given up, as it did not answer
		return true
	}
	swallowed := c.conversation.received(&m)
	if swallowed && m.Error != nil {
		c.o.Log.Warn("the daemon does not take again what another one took", "id", string(m.ID), "err", string(m.Error))
	}
	return swallowed
}

// again finds a daemon after one has ended, after a wait, and returns the wait before the
// next one. What cannot be asked of any is answered. It is negative when there is nothing left
// to do.
func (c *connection) reconnect(ctx context.Context, wait time.Duration) time.Duration {
	c.o.Log.Warn("the daemon has ended; looking for another one", "wait", wait)
	for {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return -1
		}
		wait = min(max(2*wait, minRetryDelay), maxRetryDelay)
		l, err := c.connect(ctx)
		if err == nil {
			c.resume(l)
			return wait
		}
		if c.fail(err) {
			return -1
		}
	}
}

// resume goes on with another daemon: it hears what the client has said of itself, and what
// it has not answered. What it asked itself is asked no more.
func (c *connection) resume(l *link) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, question := range c.conversation.takeQuestions() {
		params := []byte(`{"requestId":` + question + `,"reason":"the daemon has ended"}`)
		_ = c.client.Send(jsonrpc.AppendNotification(nil, "notifications/cancelled", params)) // it may have gone
	}
	for _, line := range c.conversation.replay() {
		_ = l.out.Send(line) // if it ends as well, it is found out by reading
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

// giveUp answers all that is open, as there is no daemon to ask. It says whether no other one
// is needed.
func (c *connection) fail(why error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unavailable = why
	c.o.Log.Error("there is no daemon", "err", why)
	c.abandonLocked(0, fmt.Errorf("%w: %w", errEnded, why))
	c.changed.Broadcast()
	return c.inputEnded || c.closed
}

// abandonLocked answers what is open that at least so many daemons have had.
func (c *connection) abandonLocked(tries int, why error) {
	for _, m := range c.conversation.abandon(tries) {
		_ = c.client.Send(errorResponse(&m, outcomeUnknown, why)) // it may have gone
	}
}

// unanswered answers a request that no daemon has answered: a tool's call by a result, so that
// the model reads why.
func errorResponse(m *jsonrpc.Message, what string, why error) []byte {
	text := jsonrpc.AppendString(nil, "mcpschedd: "+what+": "+why.Error())
	if m.Method == "tools/call" {
		return jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil, `{"resultType":"complete","content":[{"type":"text","text":%s}],"isError":true}`, text))
	}
	return jsonrpc.AppendError(nil, m.ID, fmt.Appendf(nil, `{"code":%d,"message":%s}`, jsonrpc.CodeInternal, text))
}

// What is said of such a request.
const (
	notSent        = "not done: the daemon cannot be reached"
	outcomeUnknown = "outcome unknown"
)
