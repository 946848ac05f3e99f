package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"mcpschedd/internal/age"
	"mcpschedd/internal/jsonrpc"
)

const (
	maxBacklog    = 8 << 20         // bytes queued for one side before reading from the other side pauses
	drainTimeout  = 2 * time.Second // for the client to read the last messages
	minRetryDelay = 250 * time.Millisecond
	maxRetryDelay = 10 * time.Second
)

// stableAfter is the connection time after which a daemon has lasted, and reconnecting is immediate. It is
// a variable for tests.
var stableAfter = 10 * time.Second

// Reasons for which a request is not replayed.
var (
	errEnded = errors.New("the daemon that had the request has ended")
	errHung  = errors.New("the daemon that has the request does not answer")
)

// Connect forwards the messages of one client between a pair of streams and the daemon. If the
// daemon ends, Connect reconnects and replays open requests. It returns after the client has
// closed its input and received its last response, or when ctx is done. If it returns an error, such
// as that no daemon can be reached, it has not read from in.
func Connect(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	o.Wait, o.PingEvery = cmp.Or(o.Wait, DefaultWait), cmp.Or(o.PingEvery, pingEvery)
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	r := &relay{o: o, dir: dir}
	r.changed = sync.NewCond(&r.mu)
	l, err := r.dial(ctx)
	if err != nil {
		return fmt.Errorf("no daemon: %w", err)
	}
	var inErr, outErr error // files must not block a thread
	if file, ok := in.(*os.File); ok {
		in, inErr = jsonrpc.OpenStream(file)
	}
	if file, ok := out.(*os.File); ok {
		out, outErr = jsonrpc.OpenStream(file)
	}
	if err := errors.Join(inErr, outErr); err != nil {
		l.close()
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.client = jsonrpc.NewWriter(out)
	defer r.client.Close()
	go r.readClient(ctx, in) // until the process exits, as it may be blocked in a read
	stop := context.AfterFunc(ctx, r.close)
	defer stop()
	r.run(ctx, l)
	last, end := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer end()
	_ = r.client.Drain(last, 0) // a client that does not read loses the rest
	return nil
}

// relay forwards the messages of a client. One goroutine reads from the client, another one reads
// from the daemon and reconnects when the daemon has ended.
type relay struct {
	o      Options
	dir    string // working directory at the start; it may be deleted later
	client *jsonrpc.Writer

	mu           sync.Mutex
	changed      *sync.Cond // of link, failure or done
	link         *link      // nil while there is no daemon
	failure      error      // why the last attempt to reconnect failed; nil before that, and after success
	inputEnded   bool       // the client has closed its input
	done         bool       // close was called
	servedBefore bool       // the first handshake has succeeded
	conversation conversation
}

// link is the connection to one daemon.
type link struct {
	stream
	out     *jsonrpc.Writer // writes to stream
	watched bool            // watch is running; guarded by relay.mu
}

func (l *link) close() {
	l.stream.close()
	l.out.Close()
}

// endInput closes the daemon's input after all queued messages are written.
func (l *link) endInput() {
	if l.out.Drain(context.Background(), 0) == nil {
		_ = l.closeWrite() // fails if the daemon has gone
	}
}

// dial connects to the daemon, starting it if necessary, and completes the handshake.
func (r *relay) dial(ctx context.Context) (*link, error) {
	h := Hello{Kind: kindSession, Dir: r.dir, Env: Base(os.Environ()), Only: r.o.Only, Session: clip(os.Getenv("CLAUDE_CODE_SESSION_ID"), maxName), Parent: os.Getppid()}
	r.mu.Lock()
	r.abandonLocked(r.conversation.open(), maxTries, errEnded)
	for _, k := range r.conversation.awaited() {
		if k.setup == "" {
			h.Replayed = append(h.Replayed, string(k.ID))
		}
	}
	h.ServedBefore = r.servedBefore
	r.mu.Unlock()
	var s stream
	var err error
	for range 2 { // the first daemon may be shutting down
		conn, missing := dialOrStart(ctx, r.o)
		if missing != nil {
			return nil, missing
		}
		if s, err = greetSession(conn, h, r.o.Wait); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return &link{stream: s, out: jsonrpc.NewWriter(s.Out)}, nil
}

// run forwards the messages of the daemon, and of further daemons after that one ends.
func (r *relay) run(ctx context.Context, l *link) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = minRetryDelay, maxRetryDelay
	for {
		began := time.Now()
		r.resume(l)
		r.forward(ctx, l)
		l.close()
		wait := time.Duration(0)
		if time.Since(began) < stableAfter {
			wait = retry.NextBackOff()
		} else {
			retry.Reset()
			r.mu.Lock()
			r.conversation.lasted()
			r.mu.Unlock()
		}
		for l = nil; l == nil; {
			if !r.lostDaemon(wait) {
				return
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			var err error
			if l, err = r.dial(ctx); err != nil {
				r.fail(err)
				wait = retry.NextBackOff()
			}
		}
	}
}

// resume continues with a daemon. A later one first gets the session's setup and the open
// requests.
func (r *relay) resume(l *link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.conversation.replay() {
		_ = l.out.Send(line) // if this daemon ends too, reading from it fails
	}
	r.link, r.failure, r.servedBefore = l, nil, true
	r.watchLocked()
	r.changed.Broadcast()
	if r.inputEnded {
		go l.endInput()
	}
	if r.done {
		l.close()
	}
}

// forward forwards the daemon's messages until the link is closed.
func (r *relay) forward(ctx context.Context, l *link) {
	for lines := jsonrpc.NewReader(l.In, 0); ; {
		line, err := lines.Borrow()
		if err != nil {
			return
		}
		if r.received(l, line.Line) && r.client.Send(line.Line) != nil {
			r.close() // the client has gone away
		}
		line.Release()
		_ = r.client.Drain(ctx, maxBacklog) // fails if the client has gone away
	}
}

// received records a message of the daemon, and reports whether the client gets it.
func (r *relay) received(l *link, line []byte) bool {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link != l { // watch has closed the link
		return false
	}
	second := r.conversation.received(&m)
	if second && m.Error != nil {
		r.o.Log.Warn("the daemon rejects a replayed request", "id", string(m.ID), "err", string(m.Error))
	}
	return !second
}

// lostDaemon records that there is no daemon, and reports whether to look for another one after
// the given time.
func (r *relay) lostDaemon(wait time.Duration) (retry bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.link = nil
	if r.inputEnded {
		r.abandonLocked(r.conversation.open(), 0, errEnded)
	}
	if r.inputEnded || r.done {
		return false
	}
	if r.failure == nil {
		r.o.Log.Warn("the daemon has ended; reconnecting", "wait", age.Text(wait))
	}
	return true
}

// fail answers all open requests with an error, as no daemon is available.
func (r *relay) fail(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = why
	r.o.Log.Error("no daemon is available", "err", why)
	r.abandonLocked(r.conversation.open(), 0, fmt.Errorf("%w: %w", errEnded, why))
	r.changed.Broadcast()
}

// abandonLocked answers those of some requests that at least so many daemons have received with an
// error.
func (r *relay) abandonLocked(requests []*kept, tries int, why error) {
	for _, k := range requests {
		if k.tries >= tries {
			_ = r.client.Send(errorResponse(&k.Message, outcomeUnknown, why)) // fails if the client has gone away
			r.conversation.end(k)
		}
	}
}

// close closes the connection.
func (r *relay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
	r.changed.Broadcast()
	if r.link != nil {
		r.link.close()
	}
}

// readClient forwards the client's messages until it closes its input, and then closes the
// daemon's.
func (r *relay) readClient(ctx context.Context, in io.Reader) {
	lines := jsonrpc.NewReader(in, 0)
	for line, err := lines.Next(); err == nil; line, err = lines.Next() {
		if to := r.send(line); to != nil {
			_ = to.Drain(ctx, maxBacklog) // fails when the link is closed
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inputEnded = true
	if r.link != nil {
		go r.link.endInput()
	}
}

// send sends a line to the daemon and returns the writer that it used. While a daemon is being
// looked for, send blocks. If none is available, it answers requests with an error and returns
// nil.
func (r *relay) send(line []byte) *jsonrpc.Writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.link == nil && r.failure == nil && !r.done {
		r.changed.Wait()
	}
	for raw := range r.conversation.messages(line) {
		m, err := jsonrpc.Parse(raw)
		switch {
		case err != nil: // the daemon refuses it
		case r.link == nil && m.IsRequest():
			_ = r.client.Send(errorResponse(&m, notSent, cmp.Or(r.failure, errEnded))) // fails if the client has gone
		default: // the next daemon may need it too
			r.conversation.sent(&m)
		}
	}
	if r.link == nil {
		return nil
	}
	r.watchLocked()
	_ = r.link.out.Send(line) // requests lost with the daemon are replayed or answered with an error
	return r.link.out
}

// A daemon that hangs is detected within 2*(pingEvery+pingTimeout), 10 s, after a request. One ping
// without an answer is not enough: this process may have been stopped, or the computer asleep.
const (
	pingEvery   = 2 * time.Second // while a request is awaited
	pingTimeout = 3 * time.Second
	maxSilent   = 2 // pings without an answer, in a row, after which the daemon hangs
)

// watchLocked starts to watch the daemon if a request is awaited.
func (r *relay) watchLocked() {
	if !r.link.watched && len(r.conversation.awaited()) > 0 {
		r.link.watched = true
		go r.watch(r.link)
	}
}

// watch pings the daemon while a request is awaited. If the daemon hangs, it answers these requests
// with an error and closes the link, which discards unread messages.
func (r *relay) watch(l *link) {
	for silent := 0; silent < maxSilent; {
		time.Sleep(r.o.PingEvery)
		r.mu.Lock()
		l.watched = r.link == l && len(r.conversation.awaited()) > 0
		watched := l.watched
		r.mu.Unlock()
		if !watched {
			return
		}
		if silent++; r.o.Place.Ping() == nil {
			silent = 0
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.link == l {
		r.o.Log.Error("the daemon does not answer; closing the connection")
		r.link = nil
		r.abandonLocked(r.conversation.awaited(), 0, errHung)
		l.close()
	}
}

// Ping waits for the daemon to answer on a new connection. It returns an error if the daemon hangs.
func (p Place) Ping() error { return p.tell(Hello{Kind: kindPing}, pingTimeout) }
