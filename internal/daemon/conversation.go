package daemon

import (
	"fmt"
	"iter"
	"slices"

	"mcpschedd/internal/jsonrpc"
)

// kept is a message of the client that another daemon needs after this one has ended: it sets up
// the session, or is a request without an answer.
type kept struct {
	jsonrpc.Message
	setup    string // a later message with the same value replaces this one; "" if it sets up nothing
	open     bool   // the client waits for an answer
	answered bool   // the client has an answer, but the present daemon will send another one
	tries    int    // daemons that have received it; of a subscription, since one has lasted
}

// maxTries is how many daemons may receive a request, since the request may be what crashes them. As a
// subscription stays open, only daemons that end soon count for it, in a row.
const maxTries = 2

// conversation holds the kept messages of a client in the order in which it sent them.
type conversation []*kept

// sent records a message of the client.
func (c *conversation) sent(m *jsonrpc.Message) {
	setup := ""
	switch m.Method {
	case "initialize", "notifications/initialized", "logging/setLevel":
		setup = m.Method
	case "resources/subscribe":
		setup = subscription(m)
	case "resources/unsubscribe":
		c.forgetSetup(subscription(m), nil)
	case "notifications/cancelled":
		if k := c.find(jsonrpc.Get(m.Params, "requestId")); k != nil {
			c.end(k)
		}
	}
	if setup != "" && !m.IsRequest() { // a request may be refused
		c.forgetSetup(setup, nil)
	}
	if setup != "" || m.IsRequest() {
		*c = append(*c, &kept{Message: *m, setup: setup, open: m.IsRequest(), tries: 1})
	}
}

// messages yields the messages of a line of the client. An array is a batch only in the revision that
// has batches: in others the daemon refuses it, and another one must not get its requests. The revision
// is written out here because package revision would add mcp-go to the small program.
func (c conversation) messages(line []byte) iter.Seq[[]byte] {
	for _, k := range c {
		if k.setup == "initialize" && string(jsonrpc.Get(k.Params, "protocolVersion")) == `"2025-03-26"` {
			return jsonrpc.Split(line)
		}
	}
	return func(yield func([]byte) bool) { yield(line) }
}

func subscription(m *jsonrpc.Message) string {
	return "resources/subscribe " + string(jsonrpc.Get(m.Params, "uri"))
}

// forgetSetup records that the messages before a later one, or all if it is nil, no longer set up something.
func (c *conversation) forgetSetup(setup string, later *kept) {
	for _, k := range *c {
		if k == later {
			break
		}
		if k.setup == setup {
			k.setup = ""
		}
	}
	c.prune()
}

// prune removes the messages that neither this daemon will answer nor another one needs.
func (c *conversation) prune() {
	*c = slices.DeleteFunc(*c, func(k *kept) bool { return k.setup == "" && !k.open && !k.answered })
}

// find returns the request with this id that the daemon will answer, or nil.
func (c *conversation) find(id []byte) *kept {
	for _, k := range *c {
		if (k.open || k.answered) && string(k.ID) == string(id) {
			return k
		}
	}
	return nil
}

// end records that a request was answered or cancelled.
func (c *conversation) end(k *kept) {
	k.open, k.answered = false, false
	c.prune()
}

// received records a message of the daemon. It reports whether the client has had an answer to
// that request, and must not get a second one.
func (c *conversation) received(m *jsonrpc.Message) (second bool) {
	if !m.IsResponse() {
		return false
	}
	k := c.find(m.ID)
	if k == nil {
		return false
	}
	second = k.answered
	switch {
	case m.Error == nil:
		c.forgetSetup(k.setup, k)
	case !second:
		k.setup = "" // the client knows that it has set up nothing
	}
	c.end(k)
	return second
}

// open returns the requests without an answer.
func (c conversation) open() (all []*kept) {
	for _, k := range c {
		if k.open {
			all = append(all, k)
		}
	}
	return all
}

// awaited returns the open requests that the client expects to be answered soon: not subscriptions, which
// stay open for the whole session.
func (c conversation) awaited() []*kept {
	return slices.DeleteFunc(c.open(), (*kept).subscribes)
}

func (k *kept) subscribes() bool { return k.Method == "subscriptions/listen" }

// lasted records that a daemon has not ended soon: the subscriptions that it had are not what crashes daemons.
func (c conversation) lasted() {
	for _, k := range c {
		if k.subscribes() {
			k.tries = 0
		}
	}
}

// replay returns the lines for another daemon.
func (c *conversation) replay() (lines [][]byte) {
	for _, k := range *c {
		k.answered = false
	}
	c.prune()
	for _, k := range *c {
		k.tries++
		k.answered = k.IsRequest() && !k.open
		lines = append(lines, k.Raw)
	}
	return lines
}

// The outcomes that errorResponse states.
const (
	notSent        = "not sent: the daemon cannot be reached"
	outcomeUnknown = "outcome unknown"
)

// errorResponse returns the response to a request that no daemon has answered. For a tools/call
// it is a result with isError, so that the model sees the reason.
func errorResponse(m *jsonrpc.Message, outcome string, why error) []byte {
	text := jsonrpc.AppendString(nil, "mcpschedd: "+outcome+": "+why.Error())
	if m.Method == "tools/call" {
		kind := ""
		if jsonrpc.Get(jsonrpc.Get(m.Params, "_meta"), "io.modelcontextprotocol/protocolVersion") != nil {
			kind = `"resultType":"complete",` // of the stateless era
		}
		return jsonrpc.AppendResult(nil, m.ID, fmt.Appendf(nil, `{%s"content":[{"type":"text","text":%s}],"isError":true}`, kind, text))
	}
	return jsonrpc.AppendError(nil, m.ID, fmt.Appendf(nil, `{"code":%d,"message":%s}`, jsonrpc.CodeInternal, text))
}
