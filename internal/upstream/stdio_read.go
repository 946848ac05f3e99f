package upstream

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// pipeSize (bytes) is the room in the pipes to and from a process, where that can
// be set: most large messages then pass in one piece, without a change between the
// processes every 64 KiB. More would soon use up what Linux grants a user for all
// pipes (64 MiB), after which those of other programs get slow.
const pipeSize = 256 << 10

// read hands every line of stdout to the sink, until it ends.
func (p *process) read() {
	lines := jsonrpc.NewReader(p.stdout, p.max)
	for {
		line, err := lines.Borrow()
		if long, ok := errors.AsType[*jsonrpc.LineTooLong](err); ok {
			p.in.unreadable(jsonrpc.Message{ID: long.ID()}, long.Head, err)
			continue
		}
		if err != nil {
			return
		}
		deliver(p.in, line)
	}
}

// deliver parses one line. The messages of a batch share its memory, so that it is not
// given back.
func deliver(in sink, from *jsonrpc.Buffer) {
	batch := bytes.HasPrefix(bytes.TrimLeft(from.Line, " \t\r"), []byte("["))
	for m, err := range in.messages(from.Line) {
		if err != nil {
			in.unreadable(m, from.Line, err)
			continue
		}
		if !batch {
			m.Buffer = from // of a message that was repaired, too: it lies elsewhere, but is read no more
		}
		in.message(m, 0)
	}
}

// outlet reads a pipe from a process until it ends. Once the process has ended,
// that may be never, since a grandchild can hold the pipe open: finish lets the
// outlet end when nothing more is in the pipe.
type outlet struct {
	file *jsonrpc.Pipe
	left int // bytes still to be taken after finish: the pipe held no more when the process ended
}

func newOutlet(file *os.File) *outlet { return &outlet{file: jsonrpc.NewPipe(file), left: pipeSize} }

// finish may be called while Read waits. Where a pipe has no deadlines
// (Windows), the end of the group has closed it.
func (o *outlet) finish() { o.file.SetReadDeadline(time.Unix(1, 0)) }

func (o *outlet) Read(b []byte) (int, error) {
	n, err := o.file.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	b = b[:min(len(b), o.left)]
	if len(b) == 0 {
		return 0, io.EOF
	}
	n, err = readNow(o.file.File, b)
	o.left -= n
	return n, err
}

// pipe is an os.Pipe.
type pipe struct{ r, w *os.File }

func newPipe() (pipe, error) {
	r, w, err := os.Pipe()
	return pipe{r, w}, err
}

func (p pipe) close() {
	p.r.Close()
	p.w.Close()
}
