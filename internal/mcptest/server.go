// Package mcptest contains a small MCP server for tests, with the faults that were seen in
// real servers. Only tests and tools import it.
//
// The called tool and the options select the server's behaviour, so that one server suits
// every test, in process over HTTP or as a child process on stdio. It writes raw bytes, so
// that it can send messages that no library would.
//
//	env := mcptest.Options{Start: "die"}.Env()           // for a child process, which runs mcptest.ServerProgram
//	web := httptest.NewServer(mcptest.New(mcptest.Options{Era: "stateless"}).Handler())
//
// tools.go defines the tools. The server checks for mistakes of a proxy (keys of another
// hop, a second initialize) and omits what matters only to a client.
package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"mcpschedd/internal/jsonrpc"
)

// Options select the behaviour of a server, one aspect per field. A child process receives
// them as JSON.
type Options struct {
	Name         string            // default "fake"
	Era          string            // "handshake" (the default), "stateless" or "both"
	Capabilities string            // raw; default: all
	Instructions string            // default: none
	Tools        []string          // raw tools; default: one for each behaviour
	Resources    []string          // raw resources; default: two of its own
	Templates    []string          // raw templates; default: one of its own
	Prompts      []string          // raw prompts; default: one of its own
	Results      map[string]string // tool → its raw result, or "error " and the raw error
	Page         int               // items on a page of a list; 0 means all
	Start        string            // "die": exits at once | "mute": never answers | "refuse": answers initialize with an error | "listless": exits at the first list
	Gate         string            // address of a Gate, at which the server waits before it answers its first message
	Beacon       string            // address of a Gate to which the process stays connected until it exits
	Stays        bool              // the process does not exit at the end of its input
	Stubborn     bool              // the process ignores SIGTERM
	Family       bool              // the process starts a child with the same Beacon, which has Stays
	Leaks        []string          // environment variables; the process prints their values to stderr before it crashes, in all encodings of Written
	Relay        string            // address of a Server to which the process only relays bytes

	// Answer, if it is set, is called first for each request of the right era; a nil result
	// means that the server handles the request itself. A result is sent even if the request
	// was cancelled. Messages are then not recorded for Seen.
	Answer func(ctx context.Context, m jsonrpc.Message) (result []byte) `json:"-"`

	// Heard, if it is set, is called with each notification and response, before the next
	// message is read; over HTTP before the response to its POST.
	Heard func(m jsonrpc.Message) `json:"-"`
}

// Server is an MCP server.
type Server struct {
	o    Options
	lost atomic.Bool // the tool "lose" was called

	mu       sync.Mutex
	tools    []string
	seen     []string            // every received message, raw
	sessions map[string]*session // id → session
	listens  map[*request]bool   // open subscriptions/listen requests
	tasks    []string            // ids
	ids      int                 // number of session ids assigned
}

// New returns a server.
func New(o Options) *Server {
	if o.Name == "" {
		o.Name = "fake"
	}
	if o.Tools == nil {
		for _, name := range behaviours {
			o.Tools = append(o.Tools, `{"name":"`+name+`","inputSchema":{"type":"object"}}`)
		}
	}
	if o.Resources == nil {
		o.Resources = []string{`{"uri":"` + o.Name + `://a","name":"a"}`, `{"uri":"` + o.Name + `://b","name":"b"}`}
	}
	if o.Templates == nil {
		o.Templates = []string{`{"uriTemplate":"` + o.Name + `://t/{id}","name":"t"}`}
	}
	if o.Prompts == nil {
		o.Prompts = []string{`{"name":"ask"}`}
	}
	return &Server{
		o: o, tools: o.Tools,
		sessions: make(map[string]*session), listens: make(map[*request]bool),
	}
}

// Seen returns every received message, in order.
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// session is a client's connection: the stdio of the process, or a session over HTTP or a relay.
type session struct {
	srv *Server
	out func(line []byte) // sends messages that belong to no request
	box chan []byte       // queue of out over HTTP; nil otherwise
	ctx context.Context   // over HTTP+SSE, done when the stream ends

	mu    sync.Mutex
	asked map[string]chan jsonrpc.Message // raw id → receives the client's response
	open  map[string]context.CancelFunc   // raw id of a request → its cancel
	asks  int
}

func (s *Server) session(out func([]byte)) *session {
	return &session{srv: s, out: out, asked: make(map[string]chan jsonrpc.Message), open: make(map[string]context.CancelFunc)}
}

// request is one request while it is served. It has more than 15 fields and 25 methods
// because it embeds its session and its message.
type request struct {
	*session
	jsonrpc.Message
	ctx       context.Context
	stateless bool
	send      func(line []byte) // the stream on which the request is answered
}

// take records a message and returns a function that serves it, or nil if it is not a request.
func (s *session) take(ctx context.Context, m jsonrpc.Message, send func(line []byte)) (serve func()) {
	srv := s.srv
	if srv.o.Answer == nil {
		srv.mu.Lock()
		srv.seen = append(srv.seen, string(m.Raw))
		srv.mu.Unlock()
	}
	if srv.o.Heard != nil && !m.IsRequest() {
		srv.o.Heard(m)
	}
	switch {
	case m.IsResponse():
		s.mu.Lock()
		answer := s.asked[string(m.ID)]
		delete(s.asked, string(m.ID))
		s.mu.Unlock()
		if answer != nil {
			answer <- m
		}
		return nil
	case m.IsNotification():
		if m.Method == "notifications/cancelled" {
			s.mu.Lock()
			cancel := s.open[string(jsonrpc.Get(m.Params, "requestId"))]
			s.mu.Unlock()
			if cancel != nil {
				cancel()
			}
		}
		return nil
	}
	r := &request{session: s, Message: m, send: send}
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithCancel(ctx)
	s.mu.Lock()
	s.open[string(m.ID)] = cancel
	s.mu.Unlock()
	return func() {
		result, err := r.serve()
		s.mu.Lock()
		delete(s.open, string(m.ID))
		s.mu.Unlock()
		gone := r.ctx.Err() != nil
		cancel()
		switch {
		case err != nil:
			send(jsonrpc.AppendError(nil, m.ID, err.Append(nil)))
		case result != nil && (!gone || srv.o.Answer != nil):
			send(jsonrpc.AppendResult(nil, m.ID, r.complete(result)))
		}
	}
}

const hopPrefix = "io.modelcontextprotocol/"

// serve handles the request. A nil result without an error means that no response is sent.
func (r *request) serve() ([]byte, *jsonrpc.Error) {
	version, _ := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(r.Params, "_meta"), hopPrefix+"protocolVersion"))
	r.stateless = version != ""
	o := r.srv.o
	switch {
	case r.Method == "server/discover" && o.Era != "stateless" && o.Era != "both":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}
	case r.Method == "initialize" && o.Start == "refuse":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: "no licence"}
	case r.Method == "initialize" && o.Era == "stateless":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no handshake here"}
	case r.stateless && o.Era != "stateless" && o.Era != "both":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "keys of another hop in _meta"}
	case !r.stateless && o.Era == "stateless":
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "_meta lacks the protocol version"}
	}
	if o.Answer != nil {
		if result := o.Answer(r.ctx, r.Message); result != nil || r.ctx.Err() != nil {
			return result, nil
		}
	}
	switch r.Method {
	case "initialize":
		return r.initialize(), nil
	case "server/discover":
		return []byte(`{"supportedVersions":["2026-07-28"],` + r.srv.self() + `}`), nil
	case "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
		return []byte("{}"), nil
	case "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		return r.list()
	case "tools/call":
		return r.call()
	case "subscriptions/listen":
		return r.listen(), nil
	case "resources/read":
		return r.read()
	case "prompts/get":
		return fmt.Appendf(nil, `{"messages":[{"role":"user","content":{"type":"text","text":%q}}],"got":%s}`, o.Name, r.Params), nil
	case "completion/complete":
		return fmt.Appendf(nil, `{"completion":{"values":[%q]},"got":%s}`, o.Name, r.Params), nil
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/list":
		return r.task()
	}
	return nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "Method not found"}
}

func (r *request) initialize() []byte {
	version, _ := jsonrpc.String(jsonrpc.Get(r.Params, "protocolVersion"))
	if version == "" || version > "2025-11-25" {
		version = "2025-11-25"
	}
	return fmt.Appendf(nil, `{"protocolVersion":%q,%s,"serverInfo":{"name":%q,"version":"1"}}`, version, r.srv.self(), r.srv.o.Name)
}

// self returns the members of initialize's and server/discover's results that do not depend
// on the era.
func (s *Server) self() string {
	capabilities := s.o.Capabilities
	if capabilities == "" {
		capabilities = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"logging":{},"completions":{},"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}}`
	}
	out := `"capabilities":` + capabilities
	if s.o.Instructions != "" {
		out += `,"instructions":` + string(jsonrpc.AppendString(nil, s.o.Instructions))
	}
	return out
}

// complete adds the members that a stateless revision requires in results.
func (r *request) complete(result []byte) []byte {
	if !r.stateless {
		return result
	}
	if jsonrpc.Get(result, "resultType") == nil {
		result = jsonrpc.Set(result, "resultType", []byte(`"complete"`))
	}
	info := fmt.Appendf(nil, `{"name":%q,"version":"1"}`, r.srv.o.Name)
	return jsonrpc.Set(result, "_meta", jsonrpc.Set(jsonrpc.Get(result, "_meta"), hopPrefix+"serverInfo", info))
}

// list returns a page of one of the four lists.
func (r *request) list() ([]byte, *jsonrpc.Error) {
	member, all := "tools", []string(nil)
	if r.srv.o.Start == "listless" {
		os.Exit(3)
	}
	r.srv.mu.Lock()
	switch o := r.srv.o; r.Method {
	case "tools/list":
		all = r.srv.tools
	case "prompts/list":
		member, all = "prompts", o.Prompts
	case "resources/list":
		member, all = "resources", o.Resources
	default:
		member, all = "resourceTemplates", o.Templates
	}
	r.srv.mu.Unlock()
	from := 0
	if cursor, ok := jsonrpc.String(jsonrpc.Get(r.Params, "cursor")); ok {
		var err error
		if from, err = strconv.Atoi(cursor); err != nil || from > len(all) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no such cursor"}
		}
	}
	to, next := len(all), ""
	if page := r.srv.o.Page; page > 0 && from+page < len(all) {
		to = from + page
		next = fmt.Sprintf(`,"nextCursor":"%d"`, to)
	}
	return []byte(`{"` + member + `":[` + strings.Join(all[from:to], ",") + `]` + next + `}`), nil
}

func (r *request) read() ([]byte, *jsonrpc.Error) {
	uri, _ := jsonrpc.String(jsonrpc.Get(r.Params, "uri"))
	if !strings.HasPrefix(uri, r.srv.o.Name+"://") {
		return nil, &jsonrpc.Error{Code: -32002, Message: "Resource not found", Data: fmt.Appendf(nil, `{"uri":%q}`, uri)}
	}
	return fmt.Appendf(nil, `{"contents":[{"uri":%q,"text":%q}]}`, uri, r.srv.o.Name), nil
}

// listen keeps a stream open until its request is cancelled.
func (r *request) listen() []byte {
	wanted := jsonrpc.Get(r.Params, "notifications")
	r.srv.mu.Lock()
	r.srv.listens[r] = true
	r.srv.mu.Unlock()
	r.notify("notifications/subscriptions/acknowledged", fmt.Appendf(nil, `{"notifications":%s}`, wanted))
	<-r.ctx.Done()
	r.srv.mu.Lock()
	delete(r.srv.listens, r)
	r.srv.mu.Unlock()
	return nil
}

// notify sends a notification on the listen request's stream.
func (r *request) notify(method string, params []byte) {
	meta := jsonrpc.Set(jsonrpc.Get(params, "_meta"), hopPrefix+"subscriptionId", r.ID)
	r.send(jsonrpc.AppendNotification(nil, method, jsonrpc.Set(params, "_meta", meta)))
}

// Announce sends a notification to every client: on the open subscriptions, if there are any,
// else to the sessions.
func (s *Server) Announce(method, params string) {
	s.mu.Lock()
	listens := slices.Collect(maps.Keys(s.listens))
	s.mu.Unlock()
	for _, r := range listens {
		r.notify(method, []byte(params))
	}
	if len(listens) == 0 {
		s.Say(string(jsonrpc.AppendNotification(nil, method, []byte(params))))
	}
}

// Say sends a message to every session, outside of the streams of requests.
func (s *Server) Say(line string) {
	s.mu.Lock()
	sessions := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	for _, session := range sessions {
		session.out([]byte(line))
	}
}

// SetTools replaces the tools without notifying the clients.
func (s *Server) SetTools(tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

// ask sends a request to the client and returns its result or error object.
func (r *request) ask(method string, params []byte) []byte {
	r.mu.Lock()
	r.asks++
	// Ids count from 1, as in most servers, and so collide with the proxy's ids.
	id := strconv.Itoa(r.asks)
	answer := make(chan jsonrpc.Message, 1)
	r.asked[id] = answer
	r.mu.Unlock()
	r.send(jsonrpc.AppendRequest(nil, []byte(id), method, params))
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		return m.Result
	case <-r.ctx.Done():
		r.send(jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(`{"requestId":`+id+`}`)))
		return []byte(`"cancelled"`)
	}
}

// Env returns the environment variable that makes a test binary run as this server.
func (o Options) Env() string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings always marshal
	}
	return variable + "=" + string(data)
}
