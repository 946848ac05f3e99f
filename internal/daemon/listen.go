package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

// Listener is the daemon's end.
type Listener struct {
	o      ListenOptions
	lock   *flock.Flock
	socket net.Listener
	work   sync.WaitGroup // connections that are served
}

// ListenOptions are what the daemon says to its clients, and what it does for them.
type ListenOptions struct {
	Version string // of its program
	// Names are those of the variables that a client brings that works in a folder, besides
	// those that all bring.
	EnvNames func(dir string) []string
	Log      *slog.Logger
	Wait     time.Duration // for a daemon that is ending; 0: not at all
	// Serve serves one client until it has gone or ctx ends.
	Serve func(ctx context.Context, c *Client)
	// Hear takes note of what a client's hook reports, and waits for nothing. nil: nothing does.
	OnReport func(r *Report)
}

// Client is a client that has said hello.
type Client struct {
	Dir         string   // where it works; absolute
	Env         []string // NAME=value
	Only        string   // the one upstream that it sees; "": all
	Repeated    []string // raw ids of its first requests that a daemon before may have had already
	Session     string   // as the reports of its hook name it; "": not known
	Parent      int      // the process that it is, unless another one stands between
	Reconnected bool     // another daemon served it before

	stream // what its messages come from, and where its answers go
}

// Listen makes this process the daemon of a place, for as long as it lives or until Run has
// returned. It is ErrRunning if there is one.
func Listen(p Place, o ListenOptions) (*Listener, error) {
	lock := flock.New(p.lock, flock.SetPermissions(0o600))
	ctx, cancel := context.WithTimeout(context.Background(), max(o.Wait, 100*time.Millisecond))
	defer cancel()
	switch held, err := lock.TryLockContext(ctx, 10*time.Millisecond); {
	case errors.Is(err, context.DeadlineExceeded) || err == nil && !held:
		return nil, ErrRunning
	case err != nil:
		return nil, fmt.Errorf("lock of the daemon: %w", err)
	}
	socket, err := listen(p)
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("socket of the daemon: %w", err)
	}
	return &Listener{o: o, lock: lock, socket: socket}, nil
}

// Run serves clients until ctx ends. It returns when all have been served and finish has
// returned; then another process may be the daemon.
func (l *Listener) Run(ctx context.Context, finish func()) {
	clients, end := context.WithCancel(context.WithoutCancel(ctx))
	defer l.lock.Close()
	defer finish()
	defer l.work.Wait()
	defer end()
	defer l.socket.Close()                  // removes it, before another daemon may make its own
	stop := context.AfterFunc(ctx, func() { // a client that is ended must not find this daemon once more
		l.socket.Close()
		end()
	})
	defer stop()
	for {
		accepted, err := l.socket.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				accepted.Close()
			}
			return
		case err != nil: // no descriptor is free: some will be
			l.o.Log.Warn("client not accepted", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		l.work.Go(func() { l.serve(clients, accepted.(conn)) })
	}
}

// serve serves one connection.
func (l *Listener) serve(ctx context.Context, conn conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(greetTimeout)) // it is no file; before ctx, which shortens it, may have ended
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Now()) })
	lines := bufio.NewReader(conn)
	h, err := l.handshake(conn, lines)
	stop()
	if errors.Is(err, io.EOF) { // it only looked whether there is a daemon
		return
	}
	if err != nil {
		l.o.Log.Warn("client refused", "err", err)
		return
	}
	if h.Kind != kindSession { // the welcome has answered it
		return
	}
	s, err := sendStream(conn)
	if err != nil {
		l.o.Log.Warn("client refused", "err", err)
		return
	}
	defer s.close()
	c := &Client{Dir: h.Dir, Env: h.Env, Only: h.Only, Session: h.Session, Parent: h.Parent, Reconnected: h.Reconnected, stream: s}
	for _, id := range h.Repeated {
		c.Repeated = append(c.Repeated, string(id))
	}
	l.o.Serve(ctx, c)
}

// hear hears what a client says before its messages.
func (l *Listener) handshake(conn conn, lines *bufio.Reader) (h hello, err error) {
	if err := checkPeer(conn); err != nil {
		return h, err
	}
	if err := readLine(lines, &h); err != nil {
		return h, err
	}
	answer := welcome{Protocol: Protocol, Version: l.o.Version}
	switch {
	case h.Protocol != Protocol:
		answer.Refused = fmt.Sprintf("want version %d of the protocol, have %d", Protocol, h.Protocol)
	case h.Kind == kindHook && h.Report != nil && l.o.OnReport != nil:
		l.o.OnReport(h.Report)
	case h.Kind != kindSession && h.Kind != kindPing:
		answer.Refused = fmt.Sprintf("unknown kind of connection %q", h.Kind)
	case h.Kind == kindSession && !filepath.IsAbs(h.Dir):
		answer.Refused = fmt.Sprintf("want an absolute path of a folder, have %q", h.Dir)
	case h.Kind == kindSession:
		answer.Names = l.o.EnvNames(h.Dir)
	}
	if err := writeLine(conn, answer); err != nil {
		return h, err
	}
	if answer.Refused != "" {
		return h, errors.New(answer.Refused)
	}
	if h.Kind == kindSession {
		var more extraEnv
		if err := readLine(lines, &more); err != nil {
			return h, err
		}
		h.Env = append(h.Env, more.Env...)
		if lines.Buffered() > 0 {
			return h, errors.New("the client spoke out of turn")
		}
	}
	return h, conn.SetDeadline(time.Time{})
}
