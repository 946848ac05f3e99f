package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"mcpschedd/internal/jsonrpc"
)

// journalVariable makes the test binary a server with a journal in that file.
const journalVariable = "MCPSCHEDD_TEST_JOURNAL"

// journal is a server's state: a file of puts, with a line "KEY N" each. The file outlives the
// servers that write it.
type journal struct {
	name    string // of the file, and of its resources: NAME:///KEY
	in, out *os.File
	half    []byte            // beginning of an incomplete line
	last    map[string]string // key → last number
	watched map[string]bool   // subscribed resources
	buf     [1 << 14]byte
}

// journalMain makes this process a server with a journal if its environment says so, and then does
// not return. It handles requests in sequence: put appends to the journal, get reads it, and hang
// never answers.
func journalMain() {
	path := os.Getenv(journalVariable)
	if path == "" {
		return
	}
	if err := serveJournal(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
	os.Exit(0)
}

func serveJournal(path string) error {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	j := &journal{name: filepath.Base(path), in: in, out: out, last: make(map[string]string), watched: make(map[string]bool)}
	if err := os.WriteFile(journalProcess(path, os.Getpid()), nil, 0o600); err != nil {
		return err
	}
	defer os.Remove(journalProcess(path, os.Getpid()))
	for lines := jsonrpc.NewReader(os.Stdin, 0); ; {
		line, err := lines.Next()
		if err != nil {
			return nil // the client has disconnected
		}
		m, err := jsonrpc.Parse(line)
		if err != nil {
			return err
		}
		if out := j.answer(&m); out != nil {
			if _, err := os.Stdout.Write(append(out, '\n')); err != nil {
				return nil
			}
		}
	}
}

func (j *journal) answer(m *jsonrpc.Message) []byte {
	if !m.IsRequest() {
		return nil
	}
	switch m.Method {
	case "initialize":
		return jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{"subscribe":true}},"serverInfo":{"name":"journal","version":"1"}}`))
	case "tools/list":
		return jsonrpc.AppendResult(nil, m.ID, []byte(`{"tools":[{"name":"put","inputSchema":{"type":"object"}},{"name":"get","inputSchema":{"type":"object"}},{"name":"hang","inputSchema":{"type":"object"}}]}`))
	case "resources/list":
		return jsonrpc.AppendResult(nil, m.ID, []byte(`{"resources":[]}`))
	case "resources/templates/list":
		return jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil, `{"resourceTemplates":[{"uriTemplate":"%s:///{key}","name":"last"}]}`, j.name))
	case "resources/subscribe":
		uri, _ := jsonrpc.String(jsonrpc.Get(m.Params, "uri"))
		if !strings.HasPrefix(uri, j.name+":") {
			return jsonrpc.AppendError(nil, m.ID, []byte(`{"code":-32002,"message":"Resource not found"}`))
		}
		j.watched[uri] = true
		return jsonrpc.AppendResult(nil, m.ID, []byte("{}"))
	case "ping":
		return jsonrpc.AppendResult(nil, m.ID, []byte("{}"))
	case "tools/call":
		name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name"))
		args := jsonrpc.Get(m.Params, "arguments")
		key, _ := jsonrpc.String(jsonrpc.Get(args, "key"))
		return j.call(m.ID, name, key, string(jsonrpc.Get(args, "n")))
	}
	return jsonrpc.AppendError(nil, m.ID, []byte(`{"code":-32601,"message":"Method not found"}`))
}

// call returns the response to a call, after notifications about it.
func (j *journal) call(id []byte, tool, key, n string) (out []byte) {
	switch tool {
	case "put":
		if _, err := io.WriteString(j.out, key+" "+n+"\n"); err != nil {
			return jsonrpc.AppendError(nil, id, []byte(`{"code":-32603,"message":"not written"}`))
		}
		if uri := j.name + ":///" + key; j.watched[uri] {
			out = append(jsonrpc.AppendNotification(nil, "notifications/resources/updated", fmt.Appendf(nil, `{"uri":%q}`, uri)), '\n')
		}
	case "get":
		if err := j.catchUp(); err != nil {
			return jsonrpc.AppendError(nil, id, []byte(`{"code":-32603,"message":"not read"}`))
		}
		n = j.last[key]
	default:
		return nil
	}
	return jsonrpc.AppendResult(out, id, fmt.Appendf(nil, `{"content":[{"type":"text","text":"%s %s"}]}`, key, n))
}

// catchUp reads what any server has written since the last time.
func (j *journal) catchUp() error {
	for {
		n, err := j.in.Read(j.buf[:])
		j.half = append(j.half, j.buf[:n]...)
		for {
			line, rest, whole := bytes.Cut(j.half, []byte("\n"))
			if !whole {
				break
			}
			key, value, _ := strings.Cut(string(line), " ")
			j.last[key], j.half = value, rest
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// puts returns the puts in a journal, in order.
func puts(t *testing.T, path string) (all []put) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, n, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		number, err := strconv.Atoi(n)
		if err != nil {
			t.Fatalf("%s: got %q: %v", path, line, err)
		}
		all = append(all, put{key, number})
	}
	return all
}

// put is a write: key is the session's, and n counts its writes.
type put struct {
	key string
	n   int
}

// journalProcess returns the name of the file which shows that a process serves a journal.
func journalProcess(path string, id int) string { return fmt.Sprintf("%s.%d.pid", path, id) }

// journalServers returns the processes that serve a journal, and some that have ended.
func journalServers(path string) (ids []int) {
	files, _ := filepath.Glob(path + ".*.pid")
	for _, file := range files {
		parts := strings.Split(file, ".")
		if id, err := strconv.Atoi(parts[len(parts)-2]); err == nil {
			ids = append(ids, id)
		}
	}
	return ids
}
