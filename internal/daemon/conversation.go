package daemon

import (
	"iter"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

// conversation is the state of a client's session that another daemon needs: initialization,
// subscriptions, and open requests.
type conversation struct {
	requests []request       // open requests of the client, in order
	replayed map[string]bool // raw ids of replayed setup requests, which the client needs no second response to
	setup    []setupMessage  // in the order of their first occurrence
}

// setupMessage is a message that must be replayed to another daemon first.
type setupMessage struct {
	key  string // a later message with the same key replaces this one
	line []byte
}

// request is an open request.
type request struct {
	jsonrpc.Message
	isSetup bool // it is also in conversation.setup
	tries   int  // daemons that have received it
}

// maxTries is how many daemons may receive a request, since the request may be what crashes them.
const maxTries = 2

// sent records a message of the client.
func (c *conversation) sent(m *jsonrpc.Message) {
	key := setupKey(m)
	at := slices.IndexFunc(c.setup, func(s setupMessage) bool { return s.key == key })
	switch {
	case key != "" && at >= 0:
		c.setup[at].line = m.Raw
	case key != "":
		c.setup = append(c.setup, setupMessage{key, m.Raw})
	case m.Method == "resources/unsubscribe":
		subscribed := "resources/subscribe " + uri(m)
		c.setup = slices.DeleteFunc(c.setup, func(s setupMessage) bool { return s.key == subscribed })
	case m.Method == "notifications/cancelled":
		c.answered(jsonrpc.Get(m.Params, "requestId"))
	}
	if m.IsRequest() {
		c.requests = append(c.requests, request{*m, key != "", 1})
	}
}

// setupKey returns the key of a message that sets up the session; "" if it does not.
func setupKey(m *jsonrpc.Message) string {
	switch m.Method {
	case "initialize", "notifications/initialized", "logging/setLevel":
		return m.Method
	case "resources/subscribe":
		return m.Method + " " + uri(m)
	}
	return ""
}

func uri(m *jsonrpc.Message) string { return string(jsonrpc.Get(m.Params, "uri")) }

// received records a message of the daemon. It reports whether the message is a second response
// to a setup request, which the client must not get.
func (c *conversation) received(m *jsonrpc.Message) (swallowed bool) {
	if !m.IsResponse() {
		return false
	}
	if c.replayed[string(m.ID)] {
		delete(c.replayed, string(m.ID))
		return true
	}
	c.answered(m.ID)
	return false
}

// open returns the index of an open request; -1 if it is not open.
func (c *conversation) open(id []byte) int {
	return slices.IndexFunc(c.requests, func(r request) bool { return string(r.ID) == string(id) })
}

// answered removes a request that was answered or cancelled.
func (c *conversation) answered(id []byte) {
	if i := c.open(id); i >= 0 {
		c.requests = slices.Delete(c.requests, i, i+1)
	}
}

// idle reports whether no request is open.
func (c *conversation) idle() bool { return len(c.requests) == 0 }

// ids returns the ids of the open requests that will be replayed.
func (c *conversation) ids() (ids []string) {
	for _, r := range c.requests {
		if !r.isSetup {
			ids = append(ids, string(r.ID))
		}
	}
	return ids
}

// replay returns the lines for another daemon: the setup messages, then the open requests. It
// marks the setup requests that the previous daemon has answered, so that received drops the
// second response.
func (c *conversation) replay() (lines [][]byte) {
	c.replayed = make(map[string]bool)
	for _, s := range c.setup {
		m, err := jsonrpc.Parse(s.line)
		if err == nil && m.IsRequest() && c.open(m.ID) < 0 {
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

// abandon removes and returns the requests that at least so many daemons have received.
func (c *conversation) abandon(tries int) (all []jsonrpc.Message) {
	c.requests = slices.DeleteFunc(c.requests, func(r request) bool {
		if r.tries >= tries {
			all = append(all, r.Message)
		}
		return r.tries >= tries
	})
	return all
}

// messages returns the messages of a line, which may be a batch. It skips invalid messages.
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
