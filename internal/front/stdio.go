package front

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"mcpschedd/internal/jsonrpc"
)

// lineOutlet writes messages as lines.
type lineOutlet struct{ *jsonrpc.Writer }

// Send drops a notification if more than backlog bytes are unread, to bound memory.
func (o lineOutlet) Send(line []byte) error {
	if o.Queued() > backlog && jsonrpc.Get(line, "id") == nil {
		return errNotReading
	}
	return o.Writer.Send(line)
}

func (o lineOutlet) Answer(line []byte) error { return o.Writer.Send(line) }

func (lineOutlet) Connected() bool { return true } // the session ends with the stream

// ServeStdio serves one client on a pair of streams until in or ctx ends, or out breaks.
// When in ends, open requests have DrainTimeout to finish. only is [Client.Only].
func ServeStdio(ctx context.Context, in io.Reader, out io.Writer, only string, o Options) error {
	o = o.withDefaults()
	if file, ok := in.(*os.File); ok {
		own, err := jsonrpc.OpenStream(file)
		if err != nil {
			return err
		}
		defer own.Close()
		in = own
	}
	if file, ok := out.(*os.File); ok {
		own, err := jsonrpc.OpenStream(file)
		if err != nil {
			return err
		}
		defer file.Close()
		out = own
	}
	w := jsonrpc.NewWriter(out)
	defer w.Close()
	return serveLines(ctx, jsonrpc.NewReader(in, o.MaxMessage), w, only, o)
}

// serveLines serves the client that writes the lines of in and reads what w writes.
func serveLines(ctx context.Context, in *jsonrpc.Reader, w *jsonrpc.Writer, only string, o Options) error {
	l := &lines{to: lineOutlet{w}}
	l.intake = intake{Session: o.NewSession(Client{Only: only, NonBlocking: true, Out: l.to}), replayed: make(map[string]bool)}
	for _, id := range o.Replayed {
		l.replayed[id] = true
	}
	defer l.serving.Wait()
	ended := make(chan error, 1)
	go func() { ended <- l.read(in) }()
	var err error
	select {
	case err = <-ended:
		if drainErr := l.Drain(ctx, o.DrainTimeout); drainErr != nil {
			o.Log.Warn("calls cut off", "err", drainErr)
		}
	case <-w.Ended(): // no answer can reach the client
	case <-ctx.Done(): // the reader ends with the stream
	}
	if ctx.Err() == nil {
		l.End(ErrEnded) // which answers the calls that were cut off
		flush, cancel := context.WithTimeout(ctx, max(o.DrainTimeout, shutdownFlush))
		defer cancel()
		lost := w.Drain(flush, 0)
		if errors.Is(lost, syscall.EPIPE) { // the client has ended, and closed both its ends
			o.Log.Debug("last answers not delivered", "err", lost)
			lost = nil
		}
		return errors.Join(err, lost)
	}
	l.End(ErrShutdown)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownFlush)
	defer cancel()
	if err := w.Drain(last, 0); err != nil {
		o.Log.Debug("last answers not delivered", "err", err)
	}
	return nil
}

// lines is a client on a pair of streams.
type lines struct {
	intake
	to      lineOutlet
	serving sync.WaitGroup
}

// read processes messages until the stream ends.
func (l *lines) read(r *jsonrpc.Reader) error {
	for {
		line, err := r.Next()
		switch long, tooLong := errors.AsType[*jsonrpc.MessageTooLong](err); {
		case tooLong:
			l.Refuse(&Message{Message: long.Message()}, refusal(err.Error()), l.to)
			continue
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			l.Refuse(new(Message), &jsonrpc.Error{Code: jsonrpc.CodeParse, Message: "input ended inside a message"}, l.to)
			return nil
		case err != nil:
			return err
		}
		l.take(line, l.to, l.serving.Go)
		if l.to.Queued() > backlog && l.to.Drain(l.Context(), backlog) != nil && l.Context().Err() != nil {
			return nil
		}
	}
}
