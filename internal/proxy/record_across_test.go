package proxy_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"mcpschedd/internal/events"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
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
// its client first. Then it is the request that brings the answers that uses the guess:
// its line and that of the guess name each other, and the one that only asked claims
// nothing. Once the first one said so too, or the two at the same moment.
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
	requests, asked := 0, 0
	call := func(tool, arguments string) (result string, asked int) {
		first := toolCall(tool, arguments)
		for params := []byte(first); params != nil; params = retry(first, []byte(result), tagged("me")) {
			result = c.request("tools/call", string(params))
			requests++
			asked++
		}
		return result, asked - 1
	}
	times := 0
	for ; times < 200 && (times < 8 || asked < 3); times++ {
		for n := 1; n > 0; { // after a call that brings a question nothing is guessed
			_, n = call("list", fmt.Sprintf(`{"n":%d}`, times))
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
	if err := book.tally.Audit(); err != nil {
		t.Error(err)
	}
	calls := book.of(events.Call)
	for _, guess := range book.of(events.Prefetch) {
		users := 0
		for _, e := range calls {
			if e.UseOf == guess.Seq {
				users++
				if e.Seq != guess.UsedBy || e.Disposition != events.Hit {
					t.Errorf("guess %d was used by call %d, call %d says that it did: %+v", guess.Seq, guess.UsedBy, e.Seq, e)
				}
			}
		}
		if users != 1 || guess.Fate != events.Used {
			t.Errorf("%d calls say that they used guess %d, which was %s", users, guess.Seq, guess.Fate)
		}
	}
	hits := 0
	for _, e := range calls {
		if e.Disposition == events.Hit {
			hits++
		} else if e.UseOf != 0 || e.HiddenMS != 0 || e.Prefetched {
			t.Errorf("%+v claims a guess, and is none that was answered from one", e)
		}
	}
	if hits != times || len(calls) != requests {
		t.Errorf("got %d calls, %d of them hits; want %d and %d", len(calls), hits, requests, times)
	}
}
