package proxy

import (
	"context"
	"errors"
	"io"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/revision"
)

// backlog is how many bytes may wait for a client that does not read before
// no more of its requests are taken.
const backlog = 8 << 20

// lineOutlet sends messages as lines.
type lineOutlet struct{ *jsonrpc.Writer }

func (o lineOutlet) Answer(line []byte) error { return o.Send(line) }

// ServeStdio serves one client on a pair of streams until in ends, then lets
// open calls finish for DrainTimeout, or until ctx ends. only limits the view
// to one upstream under its own names; "" shows all.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, only string) error {
	p := s.policy.Load()
	w := jsonrpc.NewWriter(out)
	defer w.Close()
	session := s.newSession(only, lineOutlet{w})
	defer session.close()
	stop := context.AfterFunc(ctx, func() { session.cancel(errShutdown) })
	defer stop()

	ended := make(chan error, 1)
	go func() { ended <- session.readLines(jsonrpc.NewReader(in, p.MaxMessage), w) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done(): // the reader ends with the process
		return nil
	}
	if drainErr := session.drain(p.DrainTimeout); drainErr != nil {
		s.log.Warn("calls cut off", "err", drainErr)
	}
	flush, cancel := context.WithTimeout(ctx, p.DrainTimeout)
	defer cancel()
	return errors.Join(err, w.Flush(flush))
}

// readLines takes messages until the stream ends.
func (s *session) readLines(r *jsonrpc.Reader, w *jsonrpc.Writer) error {
	to := lineOutlet{w}
	for {
		line, err := r.Next()
		var long *jsonrpc.LineTooLong
		switch {
		case errors.As(err, &long):
			s.refuse(to, jsonrpc.SalvageID(long.Head), &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
			continue
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			s.refuse(to, nil, &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "input ended inside a message"})
			return nil
		case err != nil:
			return err
		}
		s.take(line, to)
		if w.Queued() > backlog {
			select {
			case <-w.Drained(backlog):
			case <-s.ctx.Done():
				return nil
			}
		}
	}
}

// take parses one line, or each message of a batch, and serves it.
func (s *session) take(line []byte, to outlet) {
	if line[0] == '[' && s.batches() && jsonrpc.Valid(line) {
		for raw := range jsonrpc.Elements(line) {
			s.take(raw, to)
		}
		return
	}
	m, err := jsonrpc.Parse(line)
	var bad *jsonrpc.Error
	if errors.As(err, &bad) {
		s.refuse(to, m.ID, bad)
		return
	}
	if serve := s.accept(s.ctx, m, to); serve != nil {
		s.work.Go(serve)
	}
}

// batches reports whether the client may send arrays of messages.
func (s *session) batches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version == revision.Batches
}

// refuse answers a message that could not be taken.
func (s *session) refuse(to outlet, id []byte, bad *jsonrpc.Error) {
	s.srv.log.Warn("client message refused", "err", bad.Message)
	if err := to.Send(jsonrpc.AppendError(nil, id, bad.Append(nil))); err != nil {
		s.srv.log.Debug("answer not delivered", "err", err)
	}
}
