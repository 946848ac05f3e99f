package proxy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpschedd/internal/jsonrpc"
)

// seat is one client of the proxy under test.
type seat struct {
	a       *arena
	who     string // its principal: it may only get answers for this one; stateless clients of one front share one
	era     string
	ordered bool                            // its messages arrive in the order of sending
	post    func(line []byte, q *asked)     // sends requests, one per line; q is the request if there is only one
	pass    func(method string, params any) // sends a notification; nil if it cannot

	mu   sync.Mutex
	ids  int
	open map[string]*asked // raw id → unanswered request
	over map[string]bool   // raw ids of cancelled requests; they may still be answered
}

// asked is a request that was sent.
type asked struct {
	op
	id      string
	low     versions // versions of the world just before it was sent
	write   *write   // nil for a read
	earlier []*write // earlier writes of the session that had not landed when it was sent
	done    chan struct{}
}

// play plays a script and returns when all its requests have been answered.
func (s *seat) play(script [][]op) {
	var all []*asked
	var last op
	for _, burst := range script {
		var lines []byte
		sent := len(all)
		for _, o := range burst {
			if o.wait {
				s.send(lines, all[sent:])
				s.await(all)
				lines, sent = nil, len(all)
			}
			if o.again && o.reads() && last.tool != "" {
				o.tool, o.up, o.register, o.spelling = last.tool, last.up, last.register, last.spelling
			}
			if o.reads() {
				last = o
			}
			q := s.ask(o, all)
			all = append(all, q)
			lines = append(lines, s.line(q)...)
		}
		s.send(lines, all[sent:])
	}
	s.await(all)
}

// send sends requests in one write and schedules the cancellation of those with that fate.
func (s *seat) send(lines []byte, qs []*asked) {
	if len(qs) == 0 {
		return
	}
	s.post(lines, qs[0])
	for _, q := range qs {
		if q.fate == withdrawn {
			time.AfterFunc(q.cancel, func() { s.withdraw(q) })
		}
	}
}

// ask registers a request that is about to be sent.
func (s *seat) ask(o op, all []*asked) *asked {
	s.a.count("operations")
	q := &asked{op: o, done: make(chan struct{})}
	if s.era == stateless && o.tool == "write_task" {
		q.tool = "write" // "write_task" is for the other era's tasks
	}
	if s.pass == nil && q.fate == withdrawn {
		q.fate = lands
	}
	for _, b := range all {
		if b.write != nil && s.ordered && s.a.world.landedAt(b.write) == 0 {
			q.earlier = append(q.earlier, b.write)
		}
	}
	s.name(q)
	return q
}

// name gives a request an id under which its answer is expected.
func (s *seat) name(q *asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids++
	q.id = fmt.Sprint(s.ids)
	s.open[q.id] = q
}

// line returns the request as a line. It records the versions of the world: the answer need not
// have effects of later writes.
func (s *seat) line(q *asked) []byte {
	arguments := `{"register":` + q.argument() + `}`
	more := ""
	if !q.reads() {
		q.write = &write{register: q.register, before: q.before, after: q.after, fate: q.fate}
		arguments = fmt.Sprintf(`{"register":%s,"serial":%d}`, q.argument(), s.a.world.announce(q.write))
		if q.tool == "write_task" {
			more = `,"task":{}`
		}
	}
	params := fmt.Sprintf(`{"name":"%s__%s","arguments":%s%s,"_meta":{"claudecode/toolUseId":%q,"baggage":"before=%d,after=%d"}}`,
		q.up, q.tool, arguments, more, s.who, q.before/beat, q.after/beat)
	if s.era == stateless {
		params = withMeta(params, "{}", "")
	}
	q.low = s.a.world.look()
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":%s}`+"\n", q.id, params)
}

// await waits until each request has been answered or cancelled.
func (s *seat) await(all []*asked) {
	late := time.NewTimer(2 * patience) // the start of a server may take one patience
	defer late.Stop()
	for _, q := range all {
		select {
		case <-q.done:
		case <-late.C:
			s.a.world.blame("lost wake-up: %s has no answer to %#v", s.who, q.op)
			return
		}
	}
}

// catchUp waits until the proxy has read all messages, as those of cancelled requests may still be
// in the pipe.
func (s *seat) catchUp() {
	q := &asked{op: op{tool: "ping"}, done: make(chan struct{})}
	s.name(q)
	s.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"ping"}`+"\n", q.id), q)
	s.await([]*asked{q})
}

// withdraw cancels a request, which may still be answered.
func (s *seat) withdraw(q *asked) {
	s.mu.Lock()
	_, open := s.open[q.id]
	if open {
		delete(s.open, q.id)
		s.over[q.id] = true
	}
	s.mu.Unlock()
	if open {
		s.pass("notifications/cancelled", map[string]any{"requestId": json.RawMessage(q.id)})
		s.a.count("withdrawn")
		close(q.done)
	}
}

// hear handles a message from the proxy.
func (s *seat) hear(line []byte) {
	m, err := jsonrpc.Parse(line)
	if err != nil {
		s.a.world.blame("the proxy sent %q: %v", line, err)
		return
	}
	if !m.IsResponse() {
		return // list_changed
	}
	s.mu.Lock()
	q := s.open[string(m.ID)]
	late := s.over[string(m.ID)]
	delete(s.open, string(m.ID))
	delete(s.over, string(m.ID))
	s.mu.Unlock()
	switch {
	case q == nil && !late:
		s.a.world.blame("answered twice, or not asked: %s got %s", s.who, line)
	case q == nil:
	default:
		s.answered(q, m)
	}
}

// answered checks an answer, and polls the task that it starts, if any.
func (s *seat) answered(q *asked, m jsonrpc.Message) {
	task := jsonrpc.Get(m.Result, "task")
	switch {
	case q.tool == "write_task" && string(jsonrpc.Get(task, "status")) == `"working"`:
		s.inquire(q, jsonrpc.Get(task, "taskId"))
		return
	case q.tool == "write_task" && string(jsonrpc.Get(m.Result, "status")) == `"working"`:
		s.inquire(q, jsonrpc.Get(m.Result, "taskId"))
		return
	case q.reads():
		s.a.judge(s, q, m)
	}
	s.a.count(q.outcome(m))
	close(q.done)
}

// outcome returns the name under which a request is counted.
func (q *asked) outcome(m jsonrpc.Message) string {
	switch {
	case m.Error != nil || string(jsonrpc.Get(m.Result, "isError")) == "true":
		return q.tool + " refused"
	case q.reads():
		if how, ok := jsonrpc.String(jsonrpc.Get(jsonrpc.Get(m.Result, "_meta"), "mcpschedd/disposition")); ok {
			return how
		}
		return "fetched"
	}
	return q.tool + " " + string(q.fate)
}

// inquire polls a task.
func (s *seat) inquire(q *asked, id []byte) {
	s.name(q)
	s.a.count("tasks/get")
	s.a.count("operations")
	s.post(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":"tasks/get","params":{"taskId":%s}}`+"\n", q.id, id), q)
}

// newSeat returns a client without its way to send.
func (a *arena) newSeat(who, era string) *seat {
	s := &seat{a: a, who: who, era: era, open: make(map[string]*asked), over: make(map[string]bool)}
	a.seats = append(a.seats, s)
	return s
}

// pipes adds a client on stdio.
func (a *arena) pipes(who, era string) *seat {
	in, toProxy := io.Pipe()
	fromProxy, out := io.Pipe()
	s := a.newSeat(who, era)
	s.ordered = true
	var writing sync.Mutex
	send := func(lines []byte) {
		writing.Lock()
		defer writing.Unlock()
		if _, err := toProxy.Write(lines); err != nil {
			a.world.blame("%s cannot send: %v", who, err)
		}
	}
	s.post = func(lines []byte, _ *asked) { send(lines) }
	s.pass = func(method string, params any) {
		raw, err := json.Marshal(params)
		if err != nil {
			panic(err) // raw JSON can always be marshalled
		}
		send(append(jsonrpc.AppendNotification(nil, method, raw), '\n'))
	}
	var ends sync.WaitGroup
	ends.Go(func() {
		if err := a.proxy.ServeStdio(context.Background(), in, out, ""); err != nil {
			a.world.blame("%s: stdio ended: %v", who, err)
		}
		in.Close()
		out.Close()
	})
	ready := make(chan struct{})
	ends.Go(func() {
		for lines := jsonrpc.NewReader(fromProxy, 0); ; {
			line, err := lines.Next()
			if err != nil {
				return
			}
			if strings.Contains(string(line), `"protocolVersion"`) {
				close(ready)
				continue
			}
			s.hear(line)
		}
	})
	a.ending = append(a.ending, func() {
		toProxy.Close()
		ends.Wait()
		fromProxy.Close()
	})
	if era == handshake {
		send([]byte(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"` + who + `","version":"1"}}}` + "\n"))
		<-ready
		s.pass("notifications/initialized", struct{}{})
	}
	return s
}

// web adds a client over HTTP, in a session of its own or in the stateless era.
func (a *arena) web(who, era string) *seat {
	s := a.newSeat(who, era)
	headers := []string{"Authorization", "Bearer " + token}
	if era == handshake {
		opened := a.front.Do(a.front.Request(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`+who+`","version":"1"}}}`, headers...))
		opened.Body.Close()
		headers = append(headers, "Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"))
	}
	s.post = func(line []byte, q *asked) {
		all := slices.Clone(headers)
		if era == stateless {
			all = append(all, "Mcp-Protocol-Version", stateless, "Mcp-Method", "tools/call", "Mcp-Name", q.up+"__"+q.tool)
		}
		r := a.front.Request(http.MethodPost, "/mcp", string(line), all...)
		go func() {
			answer, err := a.front.Client.Do(r)
			if err != nil {
				a.world.blame("%s: %v", who, err)
				return
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				a.world.blame("%s: %v", who, err)
			}
			for part := range strings.Lines(string(body)) {
				if part = strings.TrimSpace(strings.TrimPrefix(part, "data:")); strings.HasPrefix(part, "{") {
					s.hear([]byte(part))
				}
			}
		}()
	}
	return s
}
