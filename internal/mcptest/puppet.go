package mcptest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// Puppet is a server of the handshake era, for one client over any transport, that a test
// controls. It answers initialize and all other requests, except calls of its tool "work",
// which the test answers, cancelled or not.
type Puppet struct {
	Calls   chan jsonrpc.Message // calls of "work", in order of arrival
	Ended   chan jsonrpc.Message // notifications/cancelled
	Replies chan jsonrpc.Message // the client's responses, and its progress with them

	box mailbox // messages that belong to no request's stream

	mu   sync.Mutex
	open map[string]chan []byte // raw id of a call → the response to its POST
	held chan struct{}          // closed when POSTs of replies may be answered; nil if they are not held
}

// NewPuppet returns a puppet.
func NewPuppet() *Puppet {
	return &Puppet{
		Calls: make(chan jsonrpc.Message, 4096), Ended: make(chan jsonrpc.Message, 4096), Replies: make(chan jsonrpc.Message, 16384),
		box: newMailbox(), open: make(map[string]chan []byte),
	}
}

// Say sends a message outside any request's stream.
func (p *Puppet) Say(line string) { p.box.send([]byte(line)) }

// Log sends a log message.
func (p *Puppet) Log(level, data string) {
	p.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":%q}}`, level, data))
}

// Answer sends the result of a call.
func (p *Puppet) Answer(id, result []byte) {
	line := jsonrpc.AppendResult(nil, id, result)
	p.mu.Lock()
	post := p.open[string(id)]
	p.mu.Unlock()
	if post != nil {
		post <- line
		return
	}
	p.box.send(line)
}

// Hold delays the HTTP responses to POSTs of replies until release is called.
func (p *Puppet) Hold() (release func()) {
	held := make(chan struct{})
	p.mu.Lock()
	p.held = held
	p.mu.Unlock()
	return sync.OnceFunc(func() {
		p.mu.Lock()
		p.held = nil
		p.mu.Unlock()
		close(held)
	})
}

// take handles a message. It returns the result of a request that the puppet answers by
// itself, and nil for anything else.
func (p *Puppet) take(m jsonrpc.Message) []byte {
	switch m.Method {
	case "initialize":
		return []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"puppet","version":"1"}}`)
	case "tools/list":
		return []byte(`{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"rest","inputSchema":{"type":"object"}}]}`)
	case "tools/call":
		if name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name")); name == "work" {
			p.Calls <- m
			return nil
		}
		return []byte(`{"content":[]}`)
	case "notifications/cancelled":
		p.Ended <- m
	case "", "notifications/progress":
		p.Replies <- m
		return nil
	}
	if !m.IsRequest() {
		return nil
	}
	return []byte("{}")
}

// Serve serves the client at the other end of a relay.
func (p *Puppet) Serve(conn net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	defer conn.Close()
	defer cancel()
	go p.box.each(ctx, lineWriter(conn))
	if err := readMessages(conn, p.loose); err != nil {
		panic(err) // a client under test must send valid messages
	}
}

// loose handles a message, and sends its result, if any, through the mailbox.
func (p *Puppet) loose(m jsonrpc.Message) {
	if result := p.take(m); result != nil {
		p.box.send(jsonrpc.AppendResult(nil, m.ID, result))
	}
}

// SSE returns a handler for the HTTP+SSE transport of revision 2024-11-05.
func (p *Puppet) SSE() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body) // the client may be gone
			m, _ := jsonrpc.Parse(body)
			p.loose(m)
			p.hold(r.Context(), m)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
		http.NewResponseController(w).Flush()
		p.box.stream(r.Context(), w)
	})
}

// Streamable returns a handler for streamable HTTP. Messages that belong to no request are
// sent on the stream of the client's GET.
func (p *Puppet) Streamable() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			http.NewResponseController(w).Flush()
			p.box.stream(r.Context(), w)
		case http.MethodPost:
			p.post(w, r)
		}
	})
}

func (p *Puppet) post(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the client may be gone
	m, err := jsonrpc.Parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	post := make(chan []byte, 1)
	p.mu.Lock()
	if m.IsRequest() {
		p.open[string(m.ID)] = post
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.open, string(m.ID))
		p.mu.Unlock()
	}()
	result := p.take(m)
	switch {
	case !m.IsRequest():
		p.hold(r.Context(), m)
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "puppet")
	}
	line := jsonrpc.AppendResult(nil, m.ID, result)
	if result == nil {
		select {
		case line = <-post:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(line)
}

// hold blocks until replies are released, if m is a reply and they are held.
func (p *Puppet) hold(ctx context.Context, m jsonrpc.Message) {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held == nil || !m.IsResponse() {
		return
	}
	select {
	case <-held:
	case <-ctx.Done():
	}
}
