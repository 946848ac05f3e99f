package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// backlog is how many bytes may wait for a client that does not read before
// no more of its requests are taken.
const backlog = 8 << 20

// lastWords is how long a client may take to read what it is told at a signal.
// Claude Code kills 490 ms after its first.
const lastWords = 100 * time.Millisecond

// lineOutlet sends messages as lines.
type lineOutlet struct{ *jsonrpc.Writer }

func (o lineOutlet) Answer(line []byte) error { return o.Send(line) }

func (o lineOutlet) behind() bool { return o.Queued() > backlog }

// ServeStdio serves one client on a pair of streams until in ends, then lets
// open calls finish for DrainTimeout, or until ctx ends. only limits the view
// to one upstream under its own names; "" shows all.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer, only string) error {
	p := s.policy.Load()
	if own := reopened(in); own != nil {
		in = own
		defer own.Close()
	}
	if own := reopened(out); own != nil {
		defer out.(*os.File).Close()
		out = own
	}
	w := jsonrpc.NewWriter(out)
	defer w.Close()
	session := s.newSession(only, lineOutlet{w})
	defer session.close()
	ended := make(chan error, 1)
	go func() { ended <- session.readLines(jsonrpc.NewReader(in, p.MaxMessage), w) }()
	select {
	case err := <-ended:
		if drainErr := session.drain(ctx, p.DrainTimeout); drainErr != nil {
			s.log.Warn("calls cut off", "err", drainErr)
		}
		if ctx.Err() == nil {
			flush, cancel := context.WithTimeout(ctx, p.DrainTimeout)
			defer cancel()
			return errors.Join(err, w.Flush(flush))
		}
	case <-ctx.Done(): // the reader ends with the process
	}
	session.end(errShutdown)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if err := w.Flush(last); err != nil {
		s.log.Debug("last answers not delivered", "err", err)
	}
	return nil
}

// reopened returns a pipe as one that is not shared, nil if it is none.
func reopened(stream any) *jsonrpc.Pipe {
	if file, ok := stream.(*os.File); ok {
		return jsonrpc.Reopen(file)
	}
	return nil
}

// readLines takes messages until the stream ends.
func (s *session) readLines(r *jsonrpc.Reader, w *jsonrpc.Writer) error {
	to := lineOutlet{w}
	for {
		line, err := r.Next()
		switch long, tooLong := errors.AsType[*jsonrpc.LineTooLong](err); {
		case tooLong:
			s.refuse(to, long.ID(), &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()})
			continue
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			s.refuse(to, nil, &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "input ended inside a message"})
			return nil
		case err != nil:
			return err
		}
		s.take(line, to, s.work.Go)
		if w.Queued() > backlog {
			select {
			case <-w.Drained(backlog):
			case <-s.ctx.Done():
				return nil
			}
		}
	}
}

// take takes the message of a line, or each of a batch; run has requests served.
func (s *session) take(line []byte, to outlet, run func(serve func())) {
	if line[0] == '[' && s.client.facts().batches() && jsonrpc.Valid(line) {
		empty := true
		for raw := range jsonrpc.Elements(line) {
			empty = false
			s.takeMessage(raw, to, run)
		}
		if empty {
			s.refuse(to, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "empty batch"})
		}
		return
	}
	s.takeMessage(line, to, run)
}

// takeMessage parses a message and takes it. An array is none: a batch holds no others.
func (s *session) takeMessage(line []byte, to outlet, run func(serve func())) {
	m, err := jsonrpc.Parse(line)
	if bad, ok := errors.AsType[*jsonrpc.Error](err); ok {
		s.misread(m, line, bad, to)
		return
	}
	if serve := s.accept(s.ctx, m, to); serve != nil {
		run(serve)
	}
}

// misread deals with a message that is none: a request is refused, an answer
// or a notification gets no answer, but whoever waits for it hears of it.
func (s *session) misread(m jsonrpc.Message, line []byte, bad *jsonrpc.Error, to outlet) {
	if m.ID == nil && bad.Code == jsonrpc.CodeParse {
		m.ID = jsonrpc.SalvageID(line)
	}
	if m.Method == "" && (m.Result != nil || m.Error != nil || s.questions.awaits(m.ID)) {
		s.srv.log.Warn("client answer not understood", "err", bad.Message)
		s.questions.answered(jsonrpc.Message{ID: m.ID, Error: bad.Append(nil)})
		return
	}
	s.refuse(to, m.ID, bad)
}

// refuse answers a message that could not be taken.
func (s *session) refuse(to outlet, id []byte, bad *jsonrpc.Error) {
	s.srv.log.Warn("client message refused", "err", bad.Message)
	if err := to.Send(jsonrpc.AppendError(nil, id, bad.Append(nil))); err != nil {
		s.srv.log.Debug("answer not delivered", "err", err)
	}
}
