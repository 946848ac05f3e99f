package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"

	"mcpschedd/tools/launch"
)

// httpRelayMain serves the command in args[1:] on the address args[0] until its standard input
// ends, so that it does not outlive the run.
func httpRelayMain(args []string) error {
	if len(args) < 2 {
		return errors.New("want an address and a command")
	}
	in, _, err := launch.Stdio()
	if err != nil {
		return err
	}
	child, err := startChild(args[1:])
	if err != nil {
		return err
	}
	r := newHTTPRelay(child.stdin)
	failed := make(chan error, 3)
	go func() { failed <- r.read(child.stdout) }()
	go func() { failed <- http.ListenAndServe(args[0], r) }()
	go func() {
		_, err := io.Copy(io.Discard, in)
		failed <- err
	}()
	err = <-failed
	child.stdin.Close()
	return errors.Join(err, child.cmd.Wait())
}

// httpRelay is a minimal HTTP front of a stdio server: it passes on the body of a request and the
// answer as they are. It takes the id from the ends of a message, and assumes that no two clients
// use the same id, which holds for the clients of this program.
type httpRelay struct {
	bodies  sync.Pool // *bytes.Buffer, for requests and answers
	writing sync.Mutex
	to      io.Writer // the server's input, one message at a time

	mu      sync.Mutex
	waiting map[int64]chan *bytes.Buffer // id → receives the answer
}

func newHTTPRelay(to io.Writer) *httpRelay {
	return &httpRelay{
		bodies:  sync.Pool{New: func() any { return new(bytes.Buffer) }},
		to:      to,
		waiting: make(map[int64]chan *bytes.Buffer),
	}
}

func (h *httpRelay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := h.bodies.Get().(*bytes.Buffer)
	defer h.bodies.Put(body)
	body.Reset()
	if _, err := body.ReadFrom(r.Body); err != nil || r.Method != http.MethodPost {
		http.Error(w, "want a message by POST", http.StatusBadRequest)
		return
	}
	id, isRequest := idOf(body.Bytes())
	var answered chan *bytes.Buffer
	if isRequest {
		answered = make(chan *bytes.Buffer, 1)
		h.mu.Lock()
		h.waiting[id] = answered
		h.mu.Unlock()
	}
	h.writing.Lock()
	_, err := h.to.Write(body.Bytes())
	h.writing.Unlock()
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	case !isRequest:
		w.WriteHeader(http.StatusAccepted)
	default:
		answer := <-answered
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(answer.Len()))
		w.Write(answer.Bytes())
		h.bodies.Put(answer)
	}
}

// read passes the server's answers to the waiting requests, until from ends.
func (h *httpRelay) read(from io.Reader) error {
	lines := bufio.NewReaderSize(from, lineBuffer)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, ok := idOf(line)
		if !ok {
			continue
		}
		h.mu.Lock()
		answered := h.waiting[id]
		delete(h.waiting, id)
		h.mu.Unlock()
		if answered == nil {
			continue
		}
		answer := h.bodies.Get().(*bytes.Buffer)
		answer.Reset()
		answer.Write(line)
		answered <- answer
	}
}
