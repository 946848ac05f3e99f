package upstream

import (
	"bytes"
	"errors"
	"io"
	"os"

	"mcpschedd/internal/jsonrpc"
)

// pipeSize (bytes) is the room in the pipes to and from a process, where that can
// be set: most large messages then pass in one piece, without a change between the
// processes every 64 KiB. More would soon use up what Linux grants a user for all
// pipes (64 MiB), after which those of other programs get slow.
const pipeSize = 256 << 10

// read hands every line of stdout to the connection, until it ends.
func (p *process) read() {
	lines := jsonrpc.NewReader(p.stdout, p.c.in.up.spec.MaxMessage)
	for {
		line, err := lines.Borrow()
		if long, ok := errors.AsType[*jsonrpc.LineTooLong](err); ok {
			p.c.unreadable(answers(jsonrpc.Message{ID: long.ID()}, long.Head, false), long.Head, err)
			continue
		}
		if err != nil {
			return
		}
		p.c.line(line)
	}
}

// line takes one line from the process. The messages of a batch share its memory, so that
// it is not given back.
func (c *conn) line(from *jsonrpc.Buffer) {
	batch := bytes.HasPrefix(bytes.TrimLeft(from.Line, " \t\r"), []byte("["))
	for m, err := range c.messages(from.Line) {
		if err != nil {
			c.unreadable(answers(m, from.Line, false), from.Line, err)
			continue
		}
		if !batch {
			m.Buffer = from // of a message that was repaired, too: it lies elsewhere, but is read no more
		}
		c.message(m, 0)
	}
}

// pipe is an os.Pipe.
type pipe struct{ r, w *os.File }

// newPipes makes the three pipes of a process.
func newPipes() (pipes [3]pipe, err error) {
	for i := range pipes {
		p := &pipes[i]
		if p.r, p.w, err = os.Pipe(); err != nil {
			for _, made := range pipes[:i] {
				closeAll(made.r, made.w)
			}
			return pipes, err
		}
	}
	return pipes, nil
}

func closeAll(files ...io.Closer) {
	for _, f := range files {
		f.Close()
	}
}
