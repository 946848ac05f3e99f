package daemon

import (
	"encoding/json"
	"iter"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

// conversation is what another daemon has to know of a client: what it has said of itself,
// what it watches, and its requests that have no answer yet.
type conversation struct {
	requests  []request       // without an answer, in the order in which they came
	questions map[string]bool // raw ids of the daemon's requests without an answer
	replayed  map[string]bool // raw ids whose answers the client has had already
	setup     []setupMessage  // in the order in which each was said first
}

// setUp is a message that another daemon has to hear first.
type setupMessage struct {
	key  string // of two that are about the same the later one holds
	line []byte
}

// request is one without an answer.
type request struct {
	jsonrpc.Message
	isSetup bool // it is one of setUp, too
	tries   int  // daemons that have had it
}

// maxTries is how many daemons may have a request: it may be what ends them.
const maxTries = 2

func newConversation() *conversation {
	return &conversation{questions: make(map[string]bool), replayed: make(map[string]bool)}
}

// said takes note of a message of the client.
func (c *conversation) sent(m *jsonrpc.Message) {
	key, isSetup := setupKey(m)
	switch {
	case isSetup:
		c.set(key, m.Raw)
	case m.Method == "resources/unsubscribe":
		c.unset("resources/subscribe " + uri(m))
	}
	switch {
	case m.IsResponse():
		delete(c.questions, string(m.ID))
	case m.IsRequest():
		c.requests = append(c.requests, request{*m, isSetup, 1})
	case m.Method == "notifications/cancelled":
		c.answered(jsonrpc.Get(m.Params, "requestId"))
	}
}

// setting says what a message is about that another daemon has to hear first.
func setupKey(m *jsonrpc.Message) (key string, is bool) {
	switch m.Method {
	case "initialize", "notifications/initialized", "logging/setLevel":
		return m.Method, true
	case "resources/subscribe":
		return m.Method + " " + uri(m), true
	}
	return "", false
}

func uri(m *jsonrpc.Message) string { return string(jsonrpc.Get(m.Params, "uri")) }

func (c *conversation) set(key string, line []byte) {
	if i := slices.IndexFunc(c.setup, func(s setupMessage) bool { return s.key == key }); i >= 0 {
		c.setup[i].line = line
		return
	}
	c.setup = append(c.setup, setupMessage{key, line})
}

func (c *conversation) unset(key string) {
	c.setup = slices.DeleteFunc(c.setup, func(s setupMessage) bool { return s.key == key })
}

// heard takes note of a message of the daemon. It is true for an answer that the client has
// had already.
func (c *conversation) received(m *jsonrpc.Message) (swallowed bool) {
	switch {
	case m.IsResponse():
		id := string(m.ID)
		if c.replayed[id] {
			delete(c.replayed, id)
			return true
		}
		c.answered(m.ID)
	case m.IsRequest():
		c.questions[string(m.ID)] = true
	case m.Method == "notifications/cancelled":
		delete(c.questions, string(jsonrpc.Get(m.Params, "requestId")))
	}
	return false
}

// answered drops a request that has its answer, or wants none.
func (c *conversation) answered(id []byte) {
	if i := slices.IndexFunc(c.requests, func(r request) bool { return string(r.ID) == string(id) }); i >= 0 {
		c.requests = slices.Delete(c.requests, i, i+1)
	}
}

// idle reports whether every request has its answer.
func (c *conversation) idle() bool { return len(c.requests) == 0 }

// ids are those of the requests that another daemon may have had.
func (c *conversation) ids() (ids []json.RawMessage) {
	for _, r := range c.requests {
		if !r.isSetup {
			ids = append(ids, json.RawMessage(r.ID))
		}
	}
	return ids
}

// questions are the raw ids of what a daemon that has ended has asked; they are asked no more.
func (c *conversation) takeQuestions() (ids []string) {
	for id := range c.questions {
		ids = append(ids, id)
	}
	clear(c.questions)
	return ids
}

// replay are the lines for another daemon: first what sets up the session, whose answers the
// client has had, but for those that it still waits for.
func (c *conversation) replay() (lines [][]byte) {
	clear(c.replayed)
	for _, s := range c.setup {
		m, err := jsonrpc.Parse(s.line)
		if err == nil && m.IsRequest() && !slices.ContainsFunc(c.requests, func(r request) bool { return string(r.ID) == string(m.ID) }) {
			c.replayed[string(m.ID)] = true
		}
		lines = append(lines, s.line)
	}
	for i := range c.requests {
		if r := &c.requests[i]; !r.isSetup {
			r.tries++
			lines = append(lines, r.Raw)
		}
	}
	return lines
}

// abandon drops the requests of which at least so many daemons have had each, and returns
// them.
func (c *conversation) abandon(tries int) (all []jsonrpc.Message) {
	c.requests = slices.DeleteFunc(c.requests, func(r request) bool {
		if r.tries >= tries {
			all = append(all, r.Message)
		}
		return r.tries >= tries
	})
	return all
}

// messages are those of a line: one, or those of a batch. What is no message is left out.
func messages(line []byte) iter.Seq[*jsonrpc.Message] {
	return func(yield func(*jsonrpc.Message) bool) {
		m, err := jsonrpc.Parse(line)
		if err == nil {
			yield(&m)
			return
		}
		if line[0] != '[' || !jsonrpc.Valid(line) {
			return
		}
		for raw := range jsonrpc.Elements(line) {
			if m, err := jsonrpc.Parse(raw); err == nil && !yield(&m) {
				return
			}
		}
	}
}
