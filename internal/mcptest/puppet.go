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

// Puppet is a server of the handshake era that serves one client, over any
// transport, and for which the test speaks: it shakes hands and answers what it
// must, and leaves the calls of its tool "work" to the test, cancelled or not.
type Puppet struct {
	Calls   chan jsonrpc.Message // of "work", as they came
	Ended   chan jsonrpc.Message // cancellations of them
	Replies chan jsonrpc.Message // what the client answered

	box *mailbox // what goes out on no request's stream

	mu     sync.Mutex
	open   map[string]chan []byte // raw id of a call → the response to its POST
	levels []string
	held   chan struct{} // replies are not taken before it closes; nil: they are
	posts  int           // of replies that are held
}

// NewPuppet makes a puppet.
func NewPuppet() *Puppet {
	return &Puppet{
		Calls: make(chan jsonrpc.Message, 4096), Ended: make(chan jsonrpc.Message, 4096), Replies: make(chan jsonrpc.Message, 16384),
		box: newMailbox(), open: make(map[string]chan []byte),
	}
}

// Say sends a message on no request's stream.
func (p *Puppet) Say(line string) { p.box.send([]byte(line)) }

// Log sends a log message.
func (p *Puppet) Log(level, data string) {
	p.Say(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":%q,"data":%q}}`, level, data))
}

// Answer answers a call.
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

// Levels returns the log levels that were set, in order.
func (p *Puppet) Levels() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.levels...)
}

// Hold leaves POSTs of replies without a response until release is called.
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

// Held returns how many POSTs are held.
func (p *Puppet) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posts
}

// take returns the result of a request that the puppet answers by itself, nil for
// anything else.
func (p *Puppet) take(m jsonrpc.Message) []byte {
	switch m.Method {
	case "initialize":
		return []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"puppet","version":"1"}}`)
	case "tools/list":
		return []byte(`{"tools":[{"name":"work","inputSchema":{"type":"object"}},{"name":"rest","inputSchema":{"type":"object"}}]}`)
	case "logging/setLevel":
		level, _ := jsonrpc.String(jsonrpc.Get(m.Params, "level"))
		p.mu.Lock()
		p.levels = append(p.levels, level)
		p.mu.Unlock()
	case "tools/call":
		if name, _ := jsonrpc.String(jsonrpc.Get(m.Params, "name")); name == "work" {
			p.Calls <- m
			return nil
		}
		return []byte(`{"content":[]}`)
	case "notifications/cancelled":
		p.Ended <- m
	case "":
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
	go p.box.each(ctx, func(line []byte) { conn.Write(append(line, '\n')) })
	for lines := jsonrpc.NewReader(conn, 0); ; {
		line, err := lines.Next()
		if err != nil {
			return
		}
		p.loose(line)
	}
}

// loose takes a message whose answer, if it has one, goes where everything goes.
func (p *Puppet) loose(line []byte) jsonrpc.Message {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		panic(err) // no test wants that
	}
	if result := p.take(m); result != nil {
		p.box.send(jsonrpc.AppendResult(nil, m.ID, result))
	}
	return m
}

// SSE serves the transport of 2024-11-05.
func (p *Puppet) SSE() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body) // the client may be gone
			m := p.loose(body)
			p.hold(r.Context(), m)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
		http.NewResponseController(w).Flush()
		p.box.deliver(r.Context(), w)
	})
}

// Streamable serves streamable HTTP. What belongs to no request goes out on the
// stream of the server's own.
func (p *Puppet) Streamable() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			http.NewResponseController(w).Flush()
			p.box.deliver(r.Context(), w)
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

// hold waits until a reply is to be taken.
func (p *Puppet) hold(ctx context.Context, m jsonrpc.Message) {
	p.mu.Lock()
	held := p.held
	if held == nil || !m.IsResponse() {
		p.mu.Unlock()
		return
	}
	p.posts++
	p.mu.Unlock()
	select {
	case <-held:
	case <-ctx.Done():
	}
	p.mu.Lock()
	p.posts--
	p.mu.Unlock()
}
