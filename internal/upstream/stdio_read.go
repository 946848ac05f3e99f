package upstream

import (
	"bytes"
	"errors"

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
