package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
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
			discard(p.in, long.Head, long.ID(), err)
			continue
		}
		if err != nil {
			return
		}
		deliver(p.in, line)
	}
}

// deliver parses one line: a message, or a batch of revision 2025-03-26, whose
// messages share the line's memory, so that nobody gives it back.
func deliver(in sink, from *jsonrpc.Buffer) {
	line := from.Line
	if !bytes.HasPrefix(bytes.TrimLeft(line, " \t\r"), []byte("[")) {
		deliverMessage(in, line, from)
		return
	}
	batch := in.batch(line)
	if batch == nil {
		in.garbage(line, errors.New("not JSON"))
		return
	}
	for message := range jsonrpc.Elements(batch) {
		deliverMessage(in, message, nil)
	}
}

func deliverMessage(in sink, raw []byte, from *jsonrpc.Buffer) {
	m, err := in.parse(raw)
	if err == nil {
		m.Buffer = from // of a message that was repaired, too: it lies elsewhere, but is read no more
		in.message(m, 0)
		return
	}
	id := m.ID
	if id == nil {
		id = jsonrpc.SalvageID(raw)
	}
	discard(in, raw, id, err)
}

// discard reports what cannot be read. If it is the answer to a request, as far
// as can be told, nobody need wait for that any longer.
func discard(in sink, head, id []byte, err error) {
	in.garbage(head, err)
	number, parseErr := strconv.ParseInt(string(id), 10, 64)
	if parseErr == nil && answers(head) {
		in.lost(number, fmt.Errorf("its answer cannot be read: %w", err))
	}
}

// answers says whether head, the beginning of a broken message, is that of a
// response: it has a result or an error, and no method before. A server's own
// request has an id too, which says nothing of ours.
func answers(head []byte) bool {
	before, _, found := bytes.Cut(head, []byte(`"result"`))
	if !found {
		before, _, found = bytes.Cut(head, []byte(`"error"`))
	}
	return found && !bytes.Contains(before, []byte(`"method"`))
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
