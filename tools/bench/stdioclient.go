package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"time"
)

// slots is the maximum number of ids that may be used while one call is in flight.
const slots = 1 << 12

// stdioClient drives a server over its pipes from one goroutine: it reads an answer, records the
// time and sends the next request. So its own cost is small, and the same for every target.
type stdioClient struct {
	to    io.WriteCloser
	from  *os.File
	lines *bufio.Reader // of from
	next  int64         // the next id
	buf   []byte        // the request being written
	sent  [slots]flight // by id modulo slots
}

// flight is a call in flight; its id is 0 after it was answered.
type flight struct {
	id int64
	at time.Duration // time since the start of the load
}

func newStdioClient(to io.WriteCloser, from *os.File) *stdioClient {
	return &stdioClient{to: to, from: from, lines: bufio.NewReaderSize(from, lineBuffer), next: firstID}
}

func (c *stdioClient) ask(r template) ([]byte, error) {
	id := c.next
	c.next++
	if err := c.send(r.append(c.buf[:0], id)); err != nil {
		return nil, err
	}
	c.from.SetReadDeadline(time.Now().Add(patience))
	for {
		line, err := c.lines.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if got, ok := idOf(line); ok && got == id {
			return bytes.TrimSpace(line), nil
		}
	}
}

func (c *stdioClient) tell(method string) error {
	return c.send(fmt.Appendf(c.buf[:0], `{"jsonrpc":"2.0","method":%q}`+"\n", method))
}

func (c *stdioClient) send(message []byte) error {
	c.buf = message
	_, err := c.to.Write(message)
	return err
}

func (c *stdioClient) drive(l load) (sample, error) {
	var s sample
	begun, answered := 0, 0
	start := time.Now()
	begin := func() error {
		id := c.next
		c.next++
		begun++
		c.sent[id%slots] = flight{id, time.Since(start)}
		return c.send(l.call.append(c.buf[:0], id))
	}
	c.from.SetReadDeadline(start.Add(l.span + patience))
	for begun < l.window && !l.done(begun, 0) {
		if err := begin(); err != nil {
			return s, err
		}
	}
	for answered < begun {
		line, err := c.lines.ReadSlice('\n')
		if err != nil {
			return s, fmt.Errorf("after %d answers: %w", answered, err)
		}
		now := time.Since(start)
		id, ok := idOf(line)
		if !ok || id < firstID {
			continue // a notification, or a question of the server
		}
		f := &c.sent[id%slots]
		if f.id != id {
			return s, fmt.Errorf("an answer to %d, which is not in flight", id)
		}
		if err := l.check(bytes.TrimSpace(line)); err != nil {
			return s, err
		}
		f.id = 0
		answered++
		late := l.done(begun, now)
		s.add(now-f.at, now, late)
		if late {
			continue
		}
		if err := begin(); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (c *stdioClient) close() error { return c.to.Close() }
