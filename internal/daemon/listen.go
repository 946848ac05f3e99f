package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Listener accepts the daemon's clients.
type Listener struct {
	o        ListenOptions
	place    Place
	lock     *flock.Flock
	lockFile os.FileInfo
	work     sync.WaitGroup // connections being served

	mu     sync.Mutex
	socket socket // replaced if its file was deleted
	warned bool   // of a deleted socket that cannot be created again
	lost   error  // see whyLost
}

// socketCheck is the interval at which the daemon checks that its socket's file was not deleted. It is
// shorter than DefaultWait, so that a client that finds no socket is still dialling when there is one
// again.
const socketCheck = time.Second

// ListenOptions configure a [Listener].
type ListenOptions struct {
	// EnvNames returns the names of the variables that the configuration uses for a folder. A client
	// that works there sends them if they are set, beyond those of Base.
	EnvNames func(dir string) []string
	// Has reports whether a client working in a folder may have the named upstream for its only one.
	Has  func(only, dir string) bool
	Log  *slog.Logger
	Wait time.Duration // for another daemon to end; at least 100 ms
	// Serve serves one client until it disconnects or ctx is done.
	Serve func(ctx context.Context, c *Client)
	// OnReport is called with each report of a client's hook, and must not block. If it is nil,
	// reports are refused.
	OnReport func(r *Report)
	// OnStop is called if the user wants the daemon to end, and must not block. If it is nil, that is
	// refused.
	OnStop func()
}

// Client is a client that has completed the handshake.
type Client struct {
	Hello
	stream // its messages
}

// Listen makes this process the daemon of a place until Run returns or the process exits. It
// returns ErrRunning if another process is the daemon.
func Listen(p Place, o ListenOptions) (*Listener, error) {
	lock := flock.New(p.lock, flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), max(o.Wait, 100*time.Millisecond))
	defer cancel()
	switch _, err := lock.TryLockContext(ctx, 10*time.Millisecond); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, ErrRunning
	case err != nil:
		return nil, fmt.Errorf("lock of the daemon: %w", err)
	}
	lockFile, err := os.Stat(p.lock)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("lock of the daemon: %w", err)
	}
	socket, err := listen(p)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("socket of the daemon: %w", err)
	}
	return &Listener{o: o, place: p, lock: lock, lockFile: lockFile, socket: socket}, nil
}

// Run serves clients until ctx is done. It then waits for their goroutines, calls finish and
// releases the lock, so that another process can become the daemon. If the files of the socket and the lock
// were deleted, new clients cannot find this daemon, and Run returns an error when its clients have left.
func (l *Listener) Run(ctx context.Context, finish func()) error {
	clients, end := context.WithCancel(context.WithoutCancel(ctx))
	defer l.lock.Close()
	defer finish()
	defer l.work.Wait()
	defer end()
	stop := context.AfterFunc(ctx, func() { // close the socket first, so that clients do not reconnect to this daemon
		l.current().Close() // removes the socket while the lock is still held
		end()
	})
	defer stop()
	l.work.Go(func() { l.keepSocket(ctx) })
	for {
		accepted, err := l.current().Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				accepted.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed): // by keepSocket
			if lost := l.whyLost(); lost != nil {
				l.work.Wait()
				return lost
			}
			continue
		case err != nil: // out of descriptors; retry
			l.o.Log.Warn("client not accepted", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		l.work.Go(func() { l.serve(clients, accepted.(conn)) })
	}
}

func (l *Listener) current() socket {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.socket
}

// whyLost returns why new clients cannot find this daemon, or nil if they can.
func (l *Listener) whyLost() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// keepSocket listens anew if the socket's file was deleted. If the lock's file was deleted too,
// another process may be the daemon now, and this one only serves the clients that it has.
func (l *Listener) keepSocket(ctx context.Context) {
	check := time.NewTicker(socketCheck)
	defer check.Stop()
	for l.whyLost() == nil {
		select {
		case <-check.C:
		case <-ctx.Done():
			return
		}
		l.checkSocket(ctx)
	}
}

// checkSocket listens anew if the socket's file was deleted. A daemon that cannot do so warns once,
// and tries again at the next check.
func (l *Listener) checkSocket(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil || l.socket.isThere() { // the AfterFunc of Run closes the socket when ctx is done
		return
	}
	if lock, err := os.Stat(l.place.lock); errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(lock, l.lockFile) {
		l.lost = fmt.Errorf("%s was deleted, so clients cannot find this daemon", l.place.lock)
		l.o.Log.Warn("exiting when the present clients have left", "err", l.lost)
		l.socket.Close()
		return
	}
	next, err := listen(l.place)
	if err != nil {
		if !l.warned {
			l.o.Log.Warn("the daemon's socket was deleted, and cannot be created again", "err", err)
		}
		l.warned = true
		return
	}
	l.o.Log.Warn("the daemon's socket was deleted; listening again", "socket", l.place.Socket)
	l.socket.Close()
	l.socket, l.warned = next, false
}

// serve serves one connection.
func (l *Listener) serve(ctx context.Context, conn conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(greetTimeout)) // must precede AfterFunc, which shortens the deadline when ctx is done
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	c, err := l.handshake(conn)
	stop()
	if errors.Is(err, io.EOF) { // of Find, or of a client that ended during the handshake
		return
	}
	if err != nil {
		l.o.Log.Warn("client refused", "err", err)
		return
	}
	if c.Kind == kindSession { // the others end with the welcome
		defer c.close()
		l.o.Serve(ctx, c)
	}
}

// handshake performs the daemon's side of the handshake.
func (l *Listener) handshake(conn conn) (c *Client, err error) {
	if err := checkPeer(conn); err != nil {
		return nil, err
	}
	lines := handshakeReader(conn)
	c = new(Client)
	h := &c.Hello
	if err := readLine(lines, h); err != nil {
		return nil, err
	}
	answer := welcome{Protocol: Protocol}
	switch {
	case h.Protocol != Protocol:
		answer.Refused = fmt.Sprintf("want version %d of the protocol, have %d", Protocol, h.Protocol)
	case h.Kind == kindHook && h.Report != nil && l.o.OnReport != nil:
		l.o.OnReport(h.Report)
	case h.Kind == kindStop && l.o.OnStop != nil:
		l.o.OnStop()
	case h.Kind != kindSession && h.Kind != kindPing:
		answer.Refused = fmt.Sprintf("unknown kind of connection %q", h.Kind)
	case h.Kind == kindSession && !filepath.IsAbs(h.Dir):
		answer.Refused = fmt.Sprintf("want an absolute path of a folder, have %q", h.Dir)
	case h.Kind == kindSession && h.Only != "" && !l.o.Has(h.Only, h.Dir):
		answer.Refused = fmt.Sprintf("--only: no server %q is configured and enabled for %s", h.Only, h.Dir)
	case h.Kind == kindSession:
		answer.Names = l.o.EnvNames(h.Dir)
	}
	if err := writeLine(conn, answer); err != nil {
		return nil, err
	}
	if answer.Refused != "" {
		return nil, errors.New(answer.Refused)
	}
	if h.Kind != kindSession {
		return c, nil
	}
	var more extraEnv
	if err := readLine(lines, &more); err != nil {
		return nil, err
	}
	h.Env = append(h.Env, more.Env...)
	_ = conn.SetDeadline(time.Time{}) // fails if the connection is closed
	c.stream, err = sendStream(conn)
	return c, err
}
