package proxy_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/record"
	"mcpschedd/internal/valuemodel"
)

// prober is a server of the handshake era, behind a process, that asks its client for
// the roots whenever a test wants it to, whatever it is called for.
type prober struct {
	conn  net.Conn
	ready chan struct{} // closed when its client has connected

	sending sync.Mutex
	asked   int
}

// newProber makes one, and the upstream that leads to it.
func newProber(t *testing.T) (*prober, proxy.Upstream) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &prober{ready: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if p.conn, err = ln.Accept(); err == nil {
			close(p.ready)
			p.serve()
		}
	}()
	t.Cleanup(func() {
		ln.Close()
		<-ended
	})
	up := child(t, mcptest.Options{Name: "one", Relay: ln.Addr().String()})
	up.Exclusive = true
	return p, up
}

// serve answers every call with the thing that it names.
func (p *prober) serve() {
	defer p.conn.Close()
	for lines := jsonrpc.NewReader(p.conn, 0); ; {
		line, err := lines.Next()
		if err != nil {
			return
		}
		m, err := jsonrpc.Parse(line)
		if err != nil || !m.IsRequest() {
			continue
		}
		result := `{}`
		switch m.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"one","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"list","inputSchema":{"type":"object"}},{"name":"get","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			time.Sleep(20 * time.Millisecond) // else there is nothing to gain by a guess
			n := jsonrpc.Get(jsonrpc.Get(m.Params, "arguments"), "n")
			result = said(fmt.Sprintf(`{"things":[{"n":%s}]}`, n))
		}
		p.send(jsonrpc.AppendResult(nil, m.ID, []byte(result)))
	}
}

func (p *prober) send(line []byte) {
	p.sending.Lock()
	defer p.sending.Unlock()
	_, _ = p.conn.Write(append(line, '\n')) // its client may have gone
}

// ask asks for the roots: a question of which nobody can say what it is about.
func (p *prober) ask() {
	<-p.ready
	p.sending.Lock()
	p.asked++
	id := fmt.Sprintf(`"q%d"`, p.asked)
	p.sending.Unlock()
	p.send(jsonrpc.AppendRequest(nil, []byte(id), "roots/list", nil))
}

// A call that is there to be answered from a guess may take a question of its server to
// its client first. It is one call in the record all the same: its line and that of the
// guess name each other.
func TestGuessOfACallThatAsked(t *testing.T) {
	p, up := newProber(t)
	o := stored(t, []valuemodel.Rule{reading("one/get", 0), {
		Pattern: "one/list", Source: "test", Layer: valuemodel.Layer{
			Class: valuemodel.ReadOnly,
			FollowUps: []valuemodel.FollowUp{{
				Tool: "get", Probability: 0.95, Args: map[string]valuemodel.Binding{"n": bound(t, "$result.things[*].n")},
			}},
		},
	}}, up)
	o.Enrichment = defaults(t).Enrichment
	o.Enrichment.Waste, o.Enrichment.Learn = time.Millisecond, false
	var book account
	s := start(t, book.kept(o))
	c := connect(t, s, stateless)
	c.tools() // before that nothing is known of them
	asked := 0
	call := func(tool, arguments string) (result string, asked int) {
		first := toolCall(tool, arguments)
		for params := []byte(first); params != nil; params = retry(first, []byte(result), tagged("me")) {
			result = c.request("tools/call", string(params))
			asked++
		}
		return result, asked - 1
	}
	times, listed := 0, 0
	for ; times < 200 && (times < 8 || asked < 3); times++ {
		for n := 1; n > 0; { // after a call that brings a question nothing is guessed
			_, n = call("list", fmt.Sprintf(`{"n":%d}`, times))
			listed++
		}
		until(t, s, "guessed", settled(int64(times+1)))
		p.ask() // it comes before the next call, or after
		result, n := call("get", fmt.Sprintf(`{"n":%d}`, times))
		asked += n
		if disposition(t, result) != "hit" {
			t.Errorf("got %s, want the guess", result)
		}
	}
	c.hangUp()
	s.Close()
	t.Logf("%d of %d calls brought a question first", asked, times)
	if asked == 0 {
		t.Fatal("no call brought a question, which shows nothing")
	}
	if err := usesAgree(book.all); err != nil {
		t.Error(err)
	}
	calls := book.of(record.Call)
	for _, guess := range book.of(record.Prefetch) {
		users := 0
		for _, e := range calls {
			if e.UseOf == guess.Seq {
				users++
				if e.Seq != guess.UsedBy || e.Disposition != record.Hit {
					t.Errorf("guess %d was used by call %d, call %d says that it did: %+v", guess.Seq, guess.UsedBy, e.Seq, e)
				}
			}
		}
		if users != 1 || guess.Fate != record.Used {
			t.Errorf("%d calls say that they used guess %d, which was %s", users, guess.Seq, guess.Fate)
		}
	}
	hits, lists := 0, 0
	for _, e := range calls {
		if e.Disposition == record.Hit {
			hits++
		} else if lists++; e.UseOf != 0 || e.HiddenMS != 0 || e.Prefetched {
			t.Errorf("%+v claims a guess, and is none that was answered from one", e)
		}
	}
	if hits != times || lists != listed {
		t.Errorf("got %d calls of get from guesses and %d of list, want %d and %d", hits, lists, times, listed)
	}
}

// A call whose client is asked something on the way is one call, with one request
// upstream, however often it asks, whether its client comes back or not, and as a step
// of a plan, too.
func TestCallThatAskedCountsOnce(t *testing.T) {
	asks := func(rounds int) string {
		return fmt.Sprintf(`{"asks":[{"method":"roots/list","params":{}}],"rounds":%d}`, rounds)
	}
	for name, test := range map[string]struct {
		make func(c *caller)
		how  record.Disposition
	}{
		"once":    {func(c *caller) { c.converse(asks(1), tagged("me")) }, record.Fetched},
		"twice":   {func(c *caller) { c.converse(asks(2), tagged("me")) }, record.Fetched},
		"left":    {func(c *caller) { c.call("ask", asks(1)) }, record.Failed},
		"another": {func(c *caller) { another(c, asks(1)) }, record.Failed},
		"a step": {func(c *caller) {
			c.reply(tagged("me"))
			c.ableTo(able, "execute_tool_plan", `{"steps":[{"id":"a","tool":"ask","arguments":`+asks(2)+`}]}`)
		}, record.Fetched},
	} {
		t.Run(name, func(t *testing.T) {
			o := stored(t, []valuemodel.Rule{reading("asks/*", 0)}, child(t, mcptest.Options{Name: "asks"}))
			o.Plans.Enabled = true
			var book account
			s := start(t, book.kept(o))
			c := connect(t, s, stateless)
			test.make(c)
			c.hangUp()
			s.Close()
			calls, sent := book.of(record.Call), 0
			for _, e := range append(calls, book.of(record.Sent)...) {
				sent += e.Sent
			}
			if len(calls) != 1 || calls[0].Disposition != test.how || sent != 1 {
				t.Errorf("got %d requests upstream and the calls %+v, want one of each, which was %s", sent, calls, test.how)
			}
			if total := book.tally.Stats(time.Now()).Totals; total.Calls != 1 {
				t.Errorf("the stats count %d calls", total.Calls)
			}
		})
	}
}

// another comes back with the handle of a call, but with another method.
func another(c *caller, arguments string) {
	asked := []byte(c.call("ask", arguments))
	params := jsonrpc.Set([]byte(`{"uri":"file:///x"}`), "requestState", jsonrpc.Get(asked, "requestState"))
	c.refused("resources/read", string(params))
}
