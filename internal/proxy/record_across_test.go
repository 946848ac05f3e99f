package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
	"mcpschedd/internal/valuemodel"
)

// A call that joins a prefetch may carry a question of its server to its client first. It is one call in the
// record all the same: its event and the prefetch's name each other.
func TestPrefetchOfACallThatAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(func(v *visit) reply {
			v.sleeps(20 * time.Millisecond) // else a prefetch gains nothing
			n := jsonrpc.Get([]byte(v.arguments), "n")
			return reply{result: said(fmt.Sprintf(`{"things":[{"n":%s}]}`, n))}
		})
		server := mcptest.NewPuppet()
		rest := server.Streamable()
		f.rest = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if m, err := jsonrpc.Parse(body); err == nil && m.Method == "tools/list" {
				w.Header().Set("Content-Type", "application/json")
				w.Write(jsonrpc.AppendResult(nil, m.ID, []byte(`{"tools":[{"name":"list","inputSchema":{"type":"object"}},{"name":"get","inputSchema":{"type":"object"}}]}`)))
				return
			}
			rest.ServeHTTP(w, r)
		})
		o := defaults(t, listing(t)...)
		o.Enrichment.Waste, o.Enrichment.Learn = time.Millisecond, false
		d := beset(t, f, o)
		p := d.plans(stateless)
		call := func(tool, arguments string) (result string, asked int) {
			first := toolCall(tool, arguments)
			for params := []byte(first); params != nil; params = retry(first, []byte(result), tagged("me")) {
				if asked++; asked > 1 {
					d.account.asked.Add(-1) // it continues the same call
				}
				result = string(p.request("tools/call", p.said(string(params))).Result)
			}
			return result, asked - 1
		}
		times, questions := 0, 0
		for n := 0; n < 200 && (n < 8 || questions < 3); n++ {
			times++
			for asked := 1; asked > 0; { // after a call with a question nothing is prefetched
				_, asked = call("list", fmt.Sprintf(`{"n":%d}`, n))
			}
			time.Sleep(time.Second)
			server.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"roots/list"}`, n)) // may be about any call
			if n%2 == 0 {
				synctest.Wait() // else it arrives before or after the call
			}
			result, asked := call("get", fmt.Sprintf(`{"n":%d}`, n))
			if questions += asked; disposition(t, result) != "hit" {
				t.Errorf("got %s, want the prefetch", result)
			}
		}
		if questions == 0 {
			t.Error("no call brought a question, which shows nothing")
		}
		d.proxy.Report() // records everything known by now
		used := 0
		for _, e := range d.account.of(record.Prefetch) {
			if e.Fate == record.Used {
				used++
			}
		}
		if used != times {
			t.Errorf("%d prefetches were used, want %d", used, times)
		}
	})
}

// A call whose client is asked questions is one call with one upstream request, however often it asks, whether
// or not its client comes back, and also as a step of a plan.
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

// another sends the handle of a call with another method.
func another(c *caller, arguments string) {
	asked := []byte(c.call("ask", arguments))
	params := jsonrpc.Set([]byte(`{"uri":"file:///x"}`), "requestState", jsonrpc.Get(asked, "requestState"))
	c.refused("resources/read", string(params))
}
