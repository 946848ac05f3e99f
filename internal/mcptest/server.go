// Package mcptest holds a real, small MCP server for tests, with every fault
// a server was ever seen to have. It is not imported outside tests.
//
// The idea: what the server does is chosen by the tool that is called and by
// its options, so that one server serves every test, in process over HTTP or
// as a child process on stdio, and speaks raw bytes, so that it can say what
// no library would.
//
//	func TestMain(m *testing.M) { mcptest.Main(); os.Exit(m.Run()) }
//
//	env := mcptest.Options{Start: "die"}.Env()           // of a child: the test binary itself
//	web := httptest.NewServer(mcptest.New(mcptest.Options{Era: "stateless"}).Handler())
//
// The tools stand in tools.go. It checks what a proxy could get wrong (keys of
// another hop, a second initialize) and leaves out what only a client cares
// for.
package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"mcpschedd/internal/jsonrpc"
)

// Options is what a server is, and as wide as that: each field is one way to be. It travels
// to a child as JSON.
type Options struct {
	Name         string            // default "fake"
	Era          string            // "handshake" (the default), "stateless" or "both"
	Capabilities string            // raw; default: all there are
	Instructions string            // default: none
	Tools        []string          // raw tools; default: one for each behaviour
	Resources    []string          // raw resources; default: two of its own
	Templates    []string          // raw templates; default: one of its own
	Prompts      []string          // raw prompts; default: one of its own
	Results      map[string]string // tool → the raw result it answers with, or "error " and the raw error
	Page         int               // items of a list on one page; 0: all
	Start        string            // "die": at once | "mute": never answers | "shy": ends when asked for a revision before initialize | "rubbish": prints some first | "refuse": answers initialize with an error
	Gate         string            // address of a Gate: nothing is answered before it opens
	Beacon       string            // address of a Gate at which the process stands while it lives
	Stays        bool              // the process does not end with its input
	Stubborn     bool              // SIGTERM does not end the process
	Family       bool              // the process has a child of its own, at the same Beacon, which stays
	AskFirst     bool              // asks for the roots as soon as it is initialized
	Leaks        []string          // variables whose values the process prints to stderr before it dies, in all the ways that leak.go has
	Relay        string            // the process is only a pipe to this address, where a Server serves

	// Answer is asked before anything else is looked at, nil: it is not one for
	// it. What it answers goes out even after the request was cancelled, and what
	// came is not kept.
	Answer func(ctx context.Context, m jsonrpc.Message) (result []byte) `json:"-"`
}

// Server is one MCP server.
type Server struct {
	o Options

	mu       sync.Mutex
	tools    []string
	seen     []string            // every message, as it came
	once     map[string]bool     // what happens only the first time has happened
	sessions map[string]*session // id → session, over HTTP or a relay
	listens  map[*request]bool   // open subscriptions/listen
	early    []byte              // the answer to what was asked first
	tasks    []string            // ids
	ids      int                 // given to sessions
}

// New makes a server.
func New(o Options) *Server {
	if o.Name == "" {
		o.Name = "fake"
	}
	if o.Tools == nil {
		for _, name := range behaviours() {
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
		once: make(map[string]bool), sessions: make(map[string]*session), listens: make(map[*request]bool),
	}
}

// Seen returns every message that came, in order.
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// session is one connection of a client: the process's, or one over HTTP.
type session struct {
	srv *Server
	out func(line []byte) // what belongs to no request
	box *mailbox          // over HTTP: where out puts it

	mu    sync.Mutex
	asked map[string]chan jsonrpc.Message // raw id → where the client's answer goes
	open  map[string]context.CancelFunc   // raw id of a request → its cancel
	asks  int
}

func (s *Server) session(out func([]byte)) *session {
	return &session{srv: s, out: out, asked: make(map[string]chan jsonrpc.Message), open: make(map[string]context.CancelFunc)}
}

// request is one request while it is served. It has more than 15 fields and 25 methods with
// those of its session and its message.
type request struct {
	*session
	jsonrpc.Message
	ctx       context.Context
	stateless bool
	send      func(line []byte) // the stream on which the request is answered
}

// take records a message and returns what serves it, nil if nothing is to be
// done.
func (s *session) take(ctx context.Context, m jsonrpc.Message, send func(line []byte)) (serve func()) {
	srv := s.srv
	if srv.o.Answer == nil {
		srv.mu.Lock()
		srv.seen = append(srv.seen, string(m.Raw))
		srv.mu.Unlock()
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
		return s.noted(m)
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
			send(jsonrpc.AppendResult(nil, m.ID, r.dressed(result)))
		}
	}
}

func (s *session) noted(m jsonrpc.Message) func() {
	switch m.Method {
	case "notifications/cancelled":
		s.mu.Lock()
		cancel := s.open[string(jsonrpc.Get(m.Params, "requestId"))]
		s.mu.Unlock()
		if cancel != nil {
			cancel()
		}
	case "notifications/initialized":
		if s.srv.o.AskFirst {
			return func() {
				answer := s.ask(context.Background(), s.out, "roots/list", nil)
				s.srv.mu.Lock()
				s.srv.early = answer
				s.srv.mu.Unlock()
			}
		}
	}
	return nil
}

const hopPrefix = "io.modelcontextprotocol/"

// serve answers the request; a nil result without an error answers nothing.
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
		if result := o.Answer(r.ctx, r.Message); result != nil {
			return result, nil
		}
	}
	switch r.Method {
	case "initialize":
		return r.initialize(), nil
	case "server/discover":
		return []byte(`{"supportedVersions":["2026-07-28"],` + r.srv.self() + `}`), nil
	case "resources/subscribe":
		r.dieOnce()
		return []byte("{}"), nil
	case "ping", "logging/setLevel", "resources/unsubscribe":
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

// dieOnce ends the process when it is first asked for die://FOLDER, which it makes.
func (r *request) dieOnce() {
	uri, _ := jsonrpc.String(jsonrpc.Get(r.Params, "uri"))
	if folder, ok := strings.CutPrefix(uri, "die://"); ok && os.Mkdir(folder, 0o700) == nil {
		os.Exit(3)
	}
}

func (r *request) initialize() []byte {
	version, _ := jsonrpc.String(jsonrpc.Get(r.Params, "protocolVersion"))
	if version == "" || version > "2025-11-25" {
		version = "2025-11-25"
	}
	return fmt.Appendf(nil, `{"protocolVersion":%q,%s,"serverInfo":{"name":%q,"version":"1"}}`, version, r.srv.self(), r.srv.o.Name)
}

// self is what the server says of itself in either era.
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

// dressed adds what a stateless revision demands of results.
func (r *request) dressed(result []byte) []byte {
	if !r.stateless {
		return result
	}
	if jsonrpc.Get(result, "resultType") == nil {
		result = jsonrpc.Set(result, "resultType", []byte(`"complete"`))
	}
	info := fmt.Appendf(nil, `{"name":%q,"version":"1"}`, r.srv.o.Name)
	return jsonrpc.Set(result, "_meta", jsonrpc.Set(jsonrpc.Get(result, "_meta"), hopPrefix+"serverInfo", info))
}

// list answers the four list methods, a page at a time.
func (r *request) list() ([]byte, *jsonrpc.Error) {
	member, all := "tools", []string(nil)
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

// listen keeps a stream open until it is cancelled.
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

// announce sends a notification to every client, as each one's era has it.
func (s *Server) announce(from *session, method string, params []byte) {
	s.mu.Lock()
	var listens []*request
	for r := range s.listens {
		listens = append(listens, r)
	}
	sessions := []*session{}
	if from != nil {
		sessions = append(sessions, from)
	}
	for _, other := range s.sessions {
		if other != from {
			sessions = append(sessions, other)
		}
	}
	s.mu.Unlock()
	for _, r := range listens {
		r.notify(method, params)
	}
	if len(listens) > 0 {
		return
	}
	for _, session := range sessions {
		session.out(jsonrpc.AppendNotification(nil, method, params))
	}
}

// Announce sends a notification to every client.
func (s *Server) Announce(method, params string) {
	var raw []byte
	if params != "" {
		raw = []byte(params)
	}
	s.announce(nil, method, raw)
}

// SetTools replaces the tools without a word to anybody.
func (s *Server) SetTools(tools ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
}

// ask makes a request of the client and returns the result, or the error
// object.
func (s *session) ask(ctx context.Context, send func([]byte), method string, params []byte) []byte {
	s.mu.Lock()
	s.asks++
	// Like every server it counts from 1: as the proxy does on the same wire.
	id := strconv.Itoa(s.asks)
	answer := make(chan jsonrpc.Message, 1)
	s.asked[id] = answer
	s.mu.Unlock()
	send(jsonrpc.AppendRequest(nil, []byte(id), method, params))
	select {
	case m := <-answer:
		if m.Error != nil {
			return m.Error
		}
		return m.Result
	case <-ctx.Done():
		send(jsonrpc.AppendNotification(nil, "notifications/cancelled", []byte(`{"requestId":`+id+`}`)))
		return []byte(`"cancelled"`)
	}
}

// Env is the environment variable that makes a test binary this server.
func (o Options) Env() string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // strings always marshal
	}
	return variable + "=" + string(data)
}
