package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"mcpschedd/tools/launch"
)

const (
	answerHead = `{"jsonrpc":"2.0","id":`
	blobHead   = `,"result":{"content":[{"type":"text","text":"`
	blobEnd    = `"}]}}` + "\n"

	// idRoom is the maximum length of an id in the prepared answers.
	idRoom = 128
	// maxBlob bounds the memory of the answer to one call.
	maxBlob = 64 << 20

	toolList = `{"tools":[` +
		`{"name":"blob","description":"Returns a text of the given size in bytes.","inputSchema":{"type":"object","properties":{"size":{"type":"integer"},"n":{"type":"integer"}},"required":["size"]}},` +
		`{"name":"sleep","description":"Answers after the given number of milliseconds.","inputSchema":{"type":"object","properties":{"ms":{"type":"integer"},"n":{"type":"integer"}},"required":["ms"]}}]}`
)

// revisions are those with an initialize handshake, newest first.
var revisions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

func upstreamMain([]string) error {
	in, out, err := launch.Stdio()
	if err != nil {
		return err
	}
	return serveUpstream(in, out)
}

// upstream is an MCP server with minimal cost, so that measurements show the cost of what is in
// front of it: a blob is never copied; only the id is written before the prepared rest.
type upstream struct {
	mu    sync.Mutex     // also serializes answers on out
	out   io.Writer      // one answer per write
	blobs map[int][]byte // size → room for head and id, then the rest of the answer
}

// request is the part of a message that the upstream reads.
type request struct {
	ID     json.RawMessage
	Method string
	Params struct {
		ProtocolVersion string
		Name            string
		Arguments       struct{ Size, MS int }
	}
}

// serveUpstream answers until in ends; calls that still sleep then are dropped.
func serveUpstream(in io.Reader, out io.Writer) error {
	u := &upstream{out: out, blobs: make(map[int][]byte)}
	ctx, cancel := context.WithCancel(context.Background())
	var sleeping sync.WaitGroup
	defer sleeping.Wait()
	defer cancel()
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("request %.100q: %w", line, err)
		}
		if len(r.ID) == 0 || r.Method == "" {
			continue // a notification, or a response without a question
		}
		if r.Method == "tools/call" && r.Params.Name == "sleep" {
			if d := time.Duration(r.Params.Arguments.MS) * time.Millisecond; d > 0 {
				sleeping.Go(func() {
					if launch.Pause(ctx, d) == nil {
						u.answer(r)
					}
				})
				continue
			}
		}
		if err := u.answer(r); err != nil {
			return err
		}
	}
}

func (u *upstream) answer(r request) error {
	switch r.Method {
	case "initialize":
		v := revisions[0]
		if slices.Contains(revisions, r.Params.ProtocolVersion) {
			v = r.Params.ProtocolVersion
		}
		return u.write(r.ID, "result", `{"protocolVersion":"`+v+`","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}`)
	case "ping":
		return u.write(r.ID, "result", `{}`)
	case "tools/list":
		return u.write(r.ID, "result", toolList)
	case "tools/call":
		switch r.Params.Name {
		case "blob":
			if size := r.Params.Arguments.Size; size >= 0 && size <= maxBlob && len(r.ID) <= idRoom {
				return u.writeBlob(r.ID, size)
			}
		case "sleep":
			return u.write(r.ID, "result", `{"content":[{"type":"text","text":"slept"}]}`)
		}
		return u.write(r.ID, "error", `{"code":-32602,"message":"no such tool or size"}`)
	}
	return u.write(r.ID, "error", `{"code":-32601,"message":"method not found"}`)
}

// write sends a short answer; member is result or error.
func (u *upstream) write(id json.RawMessage, member, value string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, err := fmt.Fprintf(u.out, "%s%s,%q:%s}\n", answerHead, id, member, value)
	return err
}

// writeBlob sends the prepared answer of this size, with a head that ends where the prepared rest
// begins.
func (u *upstream) writeBlob(id json.RawMessage, size int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	const room = len(answerHead) + idRoom
	b, ok := u.blobs[size]
	if !ok {
		b = make([]byte, room, room+len(blobHead)+size+len(blobEnd))
		b = append(b, blobHead...)
		b = append(b, text(size)...)
		b = append(b, blobEnd...)
		u.blobs[size] = b
	}
	from := room - len(id) - len(answerHead)
	copy(b[from:], answerHead)
	copy(b[from+len(answerHead):], id)
	_, err := u.out.Write(b[from:])
	return err
}
