package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// Handler returns a handler for streamable HTTP, with sessions in the handshake era and
// without in the stateless era.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			s.post(w, r)
		case http.MethodGet:
			s.get(w, r)
		case http.MethodDelete:
			s.end(r.Header.Get("Mcp-Session-Id"))
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}

// end ends a session.
func (s *Server) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// Forget ends all sessions without notifying the clients, as a restart does.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	m, err := jsonrpc.Parse(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	session := s.find(w, r, m)
	if session == nil || s.fail(w, m) {
		return
	}
	a := &answer{w: w}
	serve := session.take(r.Context(), m, a.send)
	if !m.IsRequest() {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	serve()
	a.finish()
}

// find returns the session of a message. It creates one for initialize and for each
// stateless request. If there is none, it sends an HTTP error and returns nil.
func (s *Server) find(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) *session {
	version := r.Header.Get("Mcp-Protocol-Version")
	id := r.Header.Get("Mcp-Session-Id")
	switch {
	case m.Method == "initialize":
		if id != "" || version != "" {
			http.Error(w, "initialize with headers of a session", http.StatusBadRequest)
			return nil
		}
		n, id := s.open(context.Background())
		w.Header().Set("Mcp-Session-Id", id)
		return n
	case version >= "2026":
		if id != "" || r.Header.Get("Mcp-Method") != m.Method && m.IsRequest() {
			http.Error(w, "headers of another era", http.StatusBadRequest)
			return nil
		}
		return s.session(func([]byte) {})
	case id == "":
		http.Error(w, "no session", http.StatusBadRequest)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sessions[id]
	if n == nil {
		http.Error(w, "unknown session", http.StatusNotFound)
	}
	return n
}

// open creates a session over HTTP.
func (s *Server) open(ctx context.Context) (n *session, id string) {
	box := make(chan []byte, 1<<12)
	n = s.session(func(line []byte) { box <- line })
	n.box, n.ctx = box, ctx
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	id = fmt.Sprintf("session-%d", s.ids)
	s.sessions[id] = n
	return n, id
}

// SSE returns a handler for the HTTP+SSE transport of revision 2024-11-05.
func (s *Server) SSE() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.mu.Lock()
			n := s.sessions[r.URL.RawQuery]
			s.mu.Unlock()
			body, _ := io.ReadAll(r.Body) // the client may be gone
			m, err := jsonrpc.Parse(body)
			if n == nil || err != nil {
				http.Error(w, "no session, or no message", http.StatusBadRequest)
				return
			}
			serve := n.take(n.ctx, m, n.out)
			w.WriteHeader(http.StatusAccepted)
			if serve != nil {
				go serve()
			}
			return
		}
		n, id := s.open(r.Context())
		defer s.end(id)
		n.stream(w, r, "event: endpoint\ndata: /messages?"+id+"\n\n")
	})
}

// fail performs the tools "status", "lose" and "cut", which fail at the level of HTTP,
// and reports whether it has sent the response.
func (s *Server) fail(w http.ResponseWriter, m jsonrpc.Message) bool {
	var p struct {
		Name      string
		Arguments arguments
	}
	if m.Method != "tools/call" || json.Unmarshal(m.Params, &p) != nil {
		return false
	}
	switch p.Name {
	case "status":
		if p.Arguments.RetryAfter != "" {
			w.Header().Set("Retry-After", p.Arguments.RetryAfter)
		}
		http.Error(w, p.Arguments.Body, p.Arguments.Status)
		return true
	case "lose": // the server forgets its sessions, once
		if s.lost.Swap(true) {
			return false
		}
		s.Forget()
		w.WriteHeader(http.StatusNotFound)
		return true
	case "cut": // the body is truncated
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"jsonrpc":"2.0","id":`)
		return true
	}
	return false
}

// get serves the stream of a session.
func (s *Server) get(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	session := s.sessions[r.Header.Get("Mcp-Session-Id")]
	s.mu.Unlock()
	if session == nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	session.stream(w, r, "")
}

// stream sends the session's messages as events, after a first event, until the client is gone.
func (n *session) stream(w http.ResponseWriter, r *http.Request, first string) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, first)
	http.NewResponseController(w).Flush()
	for {
		select {
		case line := <-n.box:
			event(w, line)
		case <-r.Context().Done():
			return
		}
	}
}

func event(w http.ResponseWriter, line []byte) {
	fmt.Fprintf(w, "data: %s\n\n", strings.ReplaceAll(string(line), "\n", "\ndata: "))
	http.NewResponseController(w).Flush()
}

// answer is the response to a POST. It becomes a stream unless its only message is the
// response to the request.
type answer struct {
	w http.ResponseWriter

	mu     sync.Mutex
	first  []byte
	stream bool
}

func (a *answer) send(line []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first == nil && !a.stream && jsonrpc.Get(line, "method") == nil {
		a.first = line
		return
	}
	if !a.stream {
		a.stream = true
		a.w.Header().Set("Content-Type", "text/event-stream")
		if a.first != nil {
			event(a.w, a.first)
		}
	}
	event(a.w, line)
}

func (a *answer) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first != nil && !a.stream {
		a.w.Header().Set("Content-Type", "application/json")
		a.w.Write(a.first)
	}
}
