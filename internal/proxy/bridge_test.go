package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
)

// soak returns the number of rounds of a randomised test.
func soak(times int) int { return slice(times, 50*times) }

// slice is the part of a long run that make test plays; make soak plays all of it.
func slice(few, all int) int {
	if os.Getenv("MCPSCHEDD_SOAK") == "1" {
		return all
	}
	return few
}

// sideBySide runs f on all values concurrently and returns when the last has ended.
func sideBySide[T any](of []T, f func(i int, one T)) {
	var all sync.WaitGroup
	for i, one := range of {
		all.Go(func() { f(i, one) })
	}
	all.Wait()
}

// retry returns the params of a repeated call with answers to the questions in its result, or
// nil if there are none.
func retry(params string, result []byte, answer func(method string, params []byte) []byte) []byte {
	if string(jsonrpc.Get(result, "resultType")) != `"input_required"` {
		return nil
	}
	responses := []byte("{}")
	for m := range jsonrpc.Members(jsonrpc.Get(result, "inputRequests")) {
		method, _ := jsonrpc.String(jsonrpc.Get(m.Value, "method"))
		responses = jsonrpc.Set(responses, string(m.Name), answer(method, jsonrpc.Get(m.Value, "params")))
	}
	again := jsonrpc.Set([]byte(params), "inputResponses", responses)
	return jsonrpc.Set(again, "requestState", jsonrpc.Get(result, "requestState"))
}

// converse makes a call. If its result asks questions, it repeats the call with answers, until the
// result asks none.
func (c *caller) converse(first string, answer func(method string, params []byte) []byte) jsonrpc.Message {
	c.t.Helper()
	for params := first; ; {
		m := c.startAs("tools/call", params).wait()
		again := retry(first, m.Result, answer)
		if again == nil {
			return m
		}
		params = string(again)
	}
}

// tagged answers a question with the question's tag and the client's name.
func tagged(who string) func(string, []byte) []byte {
	return func(method string, params []byte) []byte {
		tag := jsonrpc.Get(params, "tag")
		if tag == nil {
			tag = []byte("null")
		}
		return fmt.Appendf(nil, `{"who":%q,"method":%q,"tag":%s}`, who, method, tag)
	}
}

func TestQuestionsInEveryPairOfEras(t *testing.T) {
	const asks = `{"method":"elicitation/create","params":{"message":"?","tag":1}},` +
		`{"method":"sampling/createMessage","params":{"tag":2}},` +
		`{"method":"roots/list","params":{"tag":3}},` +
		`{"method":"elicitation/create","params":{"message":"?","tag":4}}`
	want := `{"who":"me","method":"elicitation/create","tag":1},{"who":"me","method":"sampling/createMessage","tag":2},` +
		`{"who":"me","method":"roots/list","tag":3},{"who":"me","method":"elicitation/create","tag":4}`
	for _, clientEra := range []string{handshake, stateless} {
		for _, era := range []string{"handshake", "stateless"} {
			for _, transport := range []string{"stdio", "http"} {
				t.Run(fmt.Sprintf("client %s server %s %s", clientEra, era, transport), func(t *testing.T) {
					o := mcptest.Options{Name: "asks", Era: era}
					up := child(t, o)
					if transport == "http" {
						_, up = remote(t, o)
					}
					c := connect(t, start(t, options(up)), clientEra)
					c.reply(tagged("me"))
					for rounds := 1; rounds <= 3; rounds++ {
						m := c.converse(c.complete(toolCall("ask", fmt.Sprintf(`{"asks":[%s],"rounds":%d}`, asks, rounds))), tagged("me"))
						got := structured(m.Result)
						if all := "[" + strings.Repeat(want+",", rounds-1) + want + "]"; got != all {
							t.Errorf("%d rounds: got %s\nwant %s", rounds, got, all)
						}
					}
				})
			}
		}
	}
}

// A question reaches the client of the call that it belongs to, and the answer reaches that call,
// also if there are many at once.
func TestQuestionsNeverCross(t *testing.T) {
	private := child(t, mcptest.Options{Name: "private"})
	_, web := remote(t, mcptest.Options{Name: "web"})
	web.Spec.Shared = true
	_, modern := remote(t, mcptest.Options{Name: "modern", Era: "stateless"})
	modern.Spec.Shared = true
	s := start(t, options(private, web, modern))
	var all sync.WaitGroup
	for i := range 6 {
		era := []string{handshake, stateless}[i%2]
		c := connect(t, s, era)
		who := fmt.Sprintf("client-%d", i)
		c.reply(tagged(who))
		for j := range 3 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
				for n := range soak(4) {
					if t.Failed() {
						return
					}
					up := []string{"private", "web", "modern"}[random.IntN(3)]
					tag := fmt.Sprintf("%d/%d/%d", i, j, n)
					c.ask(up, tag, who, 1+random.IntN(3))
				}
			})
		}
	}
	all.Wait()
}

// ask makes a call of a tool that asks a question, and checks that it returns this client's
// answer.
func (c *caller) ask(up, tag, who string, rounds int) {
	call := fmt.Sprintf(`{"name":"%s__ask","arguments":{"rounds":%d,"asks":[{"method":"elicitation/create","params":{"message":"?","tag":%q}}]}}`, up, rounds, tag)
	one := fmt.Sprintf(`{"who":%q,"method":"elicitation/create","tag":%q}`, who, tag)
	want := "[" + strings.Repeat(one+",", rounds-1) + one + "]"
	m := c.converse(c.complete(call), func(method string, params []byte) []byte {
		got, _ := jsonrpc.String(jsonrpc.Get(params, "tag"))
		// On stdio a question does not name its call, so it may be about another call of the same
		// client.
		if loose := up == "private" && got[:2] == tag[:2]; got != tag && !loose {
			c.t.Errorf("%s got the question %q while it called with %q", who, got, tag)
		}
		return tagged(who)(method, params)
	})
	if got := structured(m.Result); got != want {
		c.t.Errorf("%s %s at %s: got %.500s, want %s", c.era, who, up, m.Raw, want)
	}
}

// A question that belongs to no call is sent to the client once the client is ready.
func TestAskedBeforeAnyCall(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		t.Run(era, func(t *testing.T) {
			srv, up := remote(t, mcptest.Options{Name: "curious"})
			c := attach(t, start(t, options(up)), era)
			c.reply(tagged("me"))
			seen := func(what string) {
				mcptest.Eventually(t, "the server has got "+what, func() bool { return strings.Contains(strings.Join(srv.Seen(), "\n"), what) })
			}
			ask := func() {
				seen("notifications/initialized")
				srv.Say(`{"jsonrpc":"2.0","id":1,"method":"roots/list"}`)
			}
			if era == handshake {
				c.opens("tester", able)
				ask()
				seen(`"me"`)
				return
			}
			// The only way to ask a stateless client is with the result of one of its calls.
			first := toolCall("hang", "")
			call := c.start("tools/call", first)
			ask()
			result := call.wait().Result
			again := retry(first, result, tagged("me"))
			if again == nil {
				t.Fatalf("got %s, want the question", result)
			}
			hung := c.start("tools/call", string(again))
			seen(`"me"`)
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + hung.id + `}}`)
		})
	}
}

// A stateless client is asked only what its capabilities allow, and a stateless server may ask 32 times.
func TestQuestionsAreLimited(t *testing.T) {
	c := attach(t, start(t, options(child(t, mcptest.Options{Name: "one"}))), stateless)
	ask := toolCall("ask", `{"asks":[`+elicits+`]}`)
	if m := c.startAs("tools/call", withMeta(ask, "{}", "")).wait(); !strings.Contains(string(m.Result), "cannot be asked") {
		t.Errorf("a client that cannot be asked got %s", m.Raw)
	}
	c = connect(t, start(t, options(child(t, mcptest.Options{Name: "one", Era: "stateless"}))), handshake)
	c.reply(accepts)
	for rounds, want := range map[int]string{32: "accept", 33: "asked for input 32 times"} {
		m := c.begin("ask", fmt.Sprintf(`{"rounds":%d,"asks":[%s]}`, rounds, elicits)).wait()
		if !strings.Contains(string(m.Raw), want) {
			t.Errorf("%d rounds: got %.300s, want %s", rounds, m.Raw, want)
		}
	}
}

// A resources/read is tried at each of several servers, one of which asks more than one question.
// The server's own request stays open while the client is asked.
func TestQuestionsOfARequestThatIsTriedAtEach(t *testing.T) {
	var librarian *mcptest.Server
	replies := make(chan struct{}, 2)
	librarian = mcptest.New(mcptest.Options{
		Answer: func(_ context.Context, m jsonrpc.Message) []byte {
			if m.Method != "resources/read" {
				return nil
			}
			for n := range 2 {
				librarian.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"elicitation/create","params":{"message":"?"}}`, n))
				<-replies
			}
			return []byte(`{"contents":[{"uri":"x://unlisted","text":"lent"}]}`)
		},
		Heard: func(m jsonrpc.Message) {
			if m.IsResponse() {
				replies <- struct{}{}
			}
		},
	})
	asks := child(t, mcptest.Options{Name: "asks", Relay: relay(t, librarian)})
	_, other := remote(t, mcptest.Options{Name: "other"})
	s := start(t, options(asks, other))
	c := connect(t, s, stateless)
	c.request("resources/list", "")
	const first = `{"uri":"x://unlisted"}`
	params := first
	for range 3 {
		m := c.startAs("resources/read", c.complete(params)).wait()
		again := retry(first, m.Result, accepts)
		if again == nil {
			if !strings.Contains(string(m.Result), "lent") {
				t.Errorf("got %s", m.Raw)
			}
			return
		}
		params = string(again)
	}
	t.Error("more than two questions")
}

// A stateless server's question about a request reaches the client, although a server of the
// handshake era was tried first.
func TestQuestionOfTheServerThatIsTriedNext(t *testing.T) {
	_, first := remote(t, mcptest.Options{Name: "first"})
	_, next := remote(t, mcptest.Options{Name: "next", Era: "stateless", Answer: func(_ context.Context, m jsonrpc.Message) []byte {
		switch {
		case m.Method != "resources/read":
			return nil
		case jsonrpc.Get(m.Params, "inputResponses") == nil:
			return []byte(`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}}}}`)
		}
		return []byte(`{"resultType":"complete","contents":[{"uri":"x://unlisted","text":"lent"}]}`)
	}})
	c := connect(t, start(t, options(first, next)), stateless)
	c.request("resources/list", "")
	m := c.start("resources/read", `{"uri":"x://unlisted"}`).wait()
	if retry("{}", m.Result, accepts) == nil {
		t.Errorf("got %s, want a question", m.Raw)
	}
}
