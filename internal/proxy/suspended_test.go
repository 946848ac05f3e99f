package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// interviewer asks the questions in a call's arguments, in rounds and several at a time. Each has
// a tag of the call.
func interviewer(v *visit) reply {
	tag, _ := jsonrpc.String(jsonrpc.Get([]byte(v.arguments), "tag"))
	var asks, rounds int
	if _, err := fmt.Sscanf(tag[strings.LastIndexByte(tag, ' ')+1:], "%dx%d", &asks, &rounds); err != nil {
		return reply{fault: `{"code":-32602,"message":"no tag"}`}
	}
	v.sleeps(time.Duration(len(v.arguments)*37%900) * time.Millisecond)
	var all []string
	for i := range asks {
		all = append(all, fmt.Sprintf(`{"method":"elicitation/create","params":{"message":"?","tag":"%s.%d"}}`, tag, i))
	}
	return reply{asks: strings.Join(all, ",") + fmt.Sprintf(`],"rounds":%d,"names":[`, rounds)}
}

// talker is a stateless client that answers some questions and leaves others open.
type talker struct {
	t     *testing.T
	name  string
	r     *rand.Rand
	seen  *tally
	alone bool    // its session has no other client
	other *talker // a talker with another session, or nil
	nth   int     // number of replies so far
	left  []*talk // abandoned talks; their calls may ask once more

	// post makes a request and returns its response; false if it was cancelled after the given
	// time (0 means never).
	post func(params string, after time.Duration) (jsonrpc.Message, bool)
}

// talk is a call or a plan with questions.
type talk struct {
	params string
	calls  map[string]string   // step ("" for a call) → tag of its questions
	given  map[string][]string // tag of a question → replies to it, in order
}

// begins draws a talk.
func (c *talker) begins(n int, plan bool) *talk {
	k := &talk{calls: make(map[string]string), given: make(map[string][]string)}
	tag := func(step string) string {
		k.calls[step] = fmt.Sprintf("%s-%d%s %dx%d", c.name, n, step, 1+c.r.IntN(3), 1+c.r.IntN(3))
		return fmt.Sprintf(`{"tag":%q}`, k.calls[step])
	}
	if !plan {
		k.params = toolCall("get", tag(""))
		return k
	}
	var steps []string
	for i := range 1 + c.r.IntN(3) {
		id := fmt.Sprintf("s%d", i)
		steps = append(steps, fmt.Sprintf(`{"id":%q,"tool":"get","arguments":%s}`, id, tag(id)))
	}
	k.params = toolCall("execute_tool_plan", `{"steps":[`+strings.Join(steps, ",")+`]}`)
	return k
}

// owns reports whether a question belongs to the talk.
func (k *talk) owns(question string) bool {
	i := strings.LastIndexByte(question, '.')
	for _, tag := range k.calls {
		if i >= 0 && question[:i] == tag {
			return true
		}
	}
	return false
}

// wants returns the expected result of a call, with each reply once and at the place of its
// question.
func (k *talk) wants(tag string) string {
	var asks, rounds int
	fmt.Sscanf(tag[strings.LastIndexByte(tag, ' ')+1:], "%dx%d", &asks, &rounds)
	var all []string
	for round := range rounds {
		for i := range asks {
			given := k.given[fmt.Sprintf("%s.%d", tag, i)]
			if len(given) != rounds {
				return fmt.Sprintf("%d replies to question %d of %q", rounds, i, tag)
			}
			all = append(all, given[round])
		}
	}
	return "[" + strings.Join(all, ",") + "]"
}

// replies returns replies to some of the questions in a result.
func (c *talker) replies(k *talk, result []byte) []byte {
	out := []byte("{}")
	for m := range jsonrpc.Members(jsonrpc.Get(result, "inputRequests")) {
		tag, _ := jsonrpc.String(jsonrpc.At(m.Value, "/params/tag"))
		if !k.owns(tag) {
			if !c.alone || !slices.ContainsFunc(c.left, func(k *talk) bool { return k.owns(tag) }) {
				c.t.Errorf("%s got the question %q in the talk with %v", c.name, tag, k.calls)
			}
			c.seen.count("after its call")
		}
		if c.r.IntN(5) == 0 {
			c.seen.count("left out")
			continue
		}
		c.nth++
		said := fmt.Sprintf(`{"to":%q,"nth":%d}`, tag, c.nth)
		k.given[tag] = append(k.given[tag], said)
		out = jsonrpc.Set(out, string(m.Name), []byte(said))
	}
	return out
}

// refused makes a request with a handle that must be refused.
func (c *talker) refused(what string, params []byte) {
	m, _ := c.post(string(params), 0)
	if code, message := errorOf(c.t, m); code != jsonrpc.CodeInvalidParams || !strings.Contains(message, "requestState") {
		c.t.Errorf("%s: got %s", what, m.Raw)
	}
	c.seen.count(what)
}

// converse runs a talk to its end, or abandons it at a random point.
func (c *talker) converse(k *talk) {
	c.left = append(c.left, k)
	for params := k.params; ; {
		after := time.Duration(0)
		if c.r.IntN(20) == 0 {
			after = time.Duration(1+c.r.IntN(1500)) * time.Millisecond
		}
		m, there := c.post(params, after)
		if !there {
			c.seen.count("withdrawn")
			return
		}
		if params != k.params && c.r.IntN(10) == 0 {
			c.refused("used twice", []byte(params))
		}
		if jsonrpc.Get(m.Result, "inputRequests") == nil {
			c.ended(k, m)
			c.left = c.left[:len(c.left)-1]
			return
		}
		again := jsonrpc.Set([]byte(k.params), "requestState", jsonrpc.Get(m.Result, "requestState"))
		again = jsonrpc.Set(again, "inputResponses", c.replies(k, m.Result))
		time.Sleep(time.Duration(c.r.IntN(100)) * time.Second)
		switch c.r.IntN(30) {
		case 0:
			c.seen.count("left alone")
			return
		case 1:
			time.Sleep(10*time.Minute + time.Second)
			c.refused("too late", again)
			return
		case 2:
			other := jsonrpc.Set(again, "name", []byte(`"list"`))
			if k.calls[""] == "" && c.r.IntN(2) == 0 { // a plan is also identified by its arguments
				other = jsonrpc.Set(again, "arguments", []byte(`{"steps":[]}`))
			}
			c.refused("of another request", other)
			c.refused("after it was of another", again)
			return
		case 3:
			if c.other != nil {
				c.other.refused("another session's", again)
			}
		}
		params = string(again)
	}
}

// ended checks what the servers received.
func (c *talker) ended(k *talk, m jsonrpc.Message) {
	c.seen.count("answered")
	for step, tag := range k.calls {
		at := "/structuredContent"
		if step != "" {
			at += "/outputs/" + step
		}
		if got, want := string(jsonrpc.At(m.Result, at)), k.wants(tag); got != want {
			c.t.Errorf("%s: got %s, want %s", tag, m.Raw, want)
		}
	}
}

// wired makes requests on stdio.
func (p *planner) wired(params string, after time.Duration) (jsonrpc.Message, bool) {
	s := p.start("tools/call", p.said(params))
	if after > 0 {
		defer time.AfterFunc(after, s.cancel).Stop()
	}
	a := s.wait()
	return a.Message, !a.none
}

// webbed makes requests over HTTP, in the session shared by all clients with equal
// capabilities.
func (d *ordeal) webbed(params string, after time.Duration) (jsonrpc.Message, bool) {
	ctx, cancel := context.WithCancel(d.t.Context())
	defer cancel()
	if after > 0 {
		defer time.AfterFunc(after, cancel).Stop()
	}
	d.account.note("tools/call", params)
	body := d.ask(ctx, params)
	for line := range strings.Lines(body) { // the last message of a stream
		body = strings.TrimPrefix(strings.TrimSpace(line), "data: ")
	}
	m, err := jsonrpc.Parse([]byte(body))
	return m, err == nil
}

// counted makes the audit of the record expect no new call for a request that resumes one.
func (d *ordeal) counted(post func(string, time.Duration) (jsonrpc.Message, bool)) func(string, time.Duration) (jsonrpc.Message, bool) {
	return func(params string, after time.Duration) (jsonrpc.Message, bool) {
		m, there := post(params, after)
		switch resumes := jsonrpc.Get([]byte(params), "requestState") != nil; {
		case strings.Contains(params, "execute_tool_plan"):
			if resumes && m.Error != nil {
				d.account.asked.Add(1) // a refused request is recorded, whatever it calls
			}
		case !there:
			d.account.lost.Add(1)
		case resumes && m.Error == nil:
			d.account.asked.Add(-1)
		}
		return m, there
	}
}

// Stateless clients make concurrent calls and plans that ask questions, at servers that ask with
// requests and at servers that ask with results. They omit replies, cancel, do not resume, resume
// too late, or use a handle with another request or session. Every question reaches its own
// client, every reply reaches its call once and at its place, and nothing is left.
func TestEveryReplyReachesItsQuestionOnce(t *testing.T) {
	t.Parallel()
	var seen tally
	for seed := range uint64(slice(2, 300)) {
		bubble.Test(t, func(t *testing.T) {
			o := planned(t)
			o.Plans.Parallel = 2
			server := []string{"handshake", "stateless"}[seed%2]
			d := beset(t, newFoe(interviewer).of(server), o)
			var talkers []*talker
			for i := range 5 {
				c := &talker{t: t, name: fmt.Sprintf("c%d", i), r: rand.New(rand.NewPCG(seed, uint64(i))), seen: &seen}
				if c.post = d.webbed; i < 3 {
					c.post = d.plans(stateless).wired
					if c.alone = true; i > 0 {
						c.other = talkers[i-1]
					}
				}
				c.post = d.counted(c.post)
				talkers = append(talkers, c)
			}
			var all sync.WaitGroup
			for _, c := range talkers {
				all.Go(func() {
					for n := range 8 {
						c.converse(c.begins(n, n%2 == 0 || server == "stateless"))
					}
				})
			}
			all.Wait()
			time.Sleep(11 * time.Minute)
			n, st, kept := d.foe.there(), d.proxy.Stats(), proxy.Kept(d.proxy)["calls"]
			if n != 0 || st.Store.Flights != 0 || kept != 0 {
				t.Errorf("seed %d: %d calls are open at the server, %d flights and %d calls are left", seed, n, st.Store.Flights, kept)
			}
			d.leave()
			d.guests = nil
			time.Sleep(time.Hour) // the shared session of stateless clients has been idle
			made := make(map[string]bool)
			for _, v := range d.foe.ledger() {
				if made[v.arguments] && server == "handshake" {
					t.Errorf("seed %d: %s was called twice", seed, v.arguments)
				}
				made[v.arguments] = true
			}
		})
	}
	t.Logf("what happened:\n%s", &seen)
	for _, what := range []string{"answered", "left out", "withdrawn", "used twice", "left alone", "too late", "of another request", "after it was of another", "another session's"} {
		if seen.of(what) == 0 {
			t.Errorf("there was no %q", what)
		}
	}
}

// A server asks questions that belong to no call. A stateless client gets them with its next
// result. Each is repeated until it has a reply, but is never open twice at the same time, however
// the requests end.
func TestQuestionsOfNoCallAreAskedOnce(t *testing.T) {
	t.Parallel()
	var seen tally
	for seed := range uint64(slice(2, 300)) {
		bubble.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			server := mcptest.NewPuppet()
			f := newFoe(after(func(v *visit) time.Duration { return time.Duration(len(v.arguments)*53%3000) * time.Millisecond }))
			f.rest = server.Handler()
			o := planned(t)
			o.Plans.Enabled = false // otherwise there are tools besides the puppet's
			d := beset(t, f, o)
			p := d.plans(stateless)
			s := &strays{t: t, seen: &seen, post: d.counted(p.wired), outstanding: make(map[string]bool), given: make(map[string]string)}
			var all sync.WaitGroup
			for i := range 3 {
				own := rand.New(rand.NewPCG(seed, uint64(10+i)))
				all.Go(func() {
					for n := range 12 {
						s.calls(own, fmt.Sprintf(`{"name":"work","arguments":{"by":%d,"n":"%s"}}`, i, strings.Repeat("x", n*7+own.IntN(20))))
						time.Sleep(time.Duration(own.IntN(8)) * time.Second)
					}
				})
			}
			const questions = 25
			for n := range questions {
				time.Sleep(time.Duration(r.IntN(6000)) * time.Millisecond)
				server.Say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"roots/list","params":{"tag":"%d"}}`, n, n))
			}
			all.Wait()
			time.Sleep(11 * time.Minute)
			for range questions { // each result has the questions that are still open
				s.patient = true
				s.calls(r, `{"name":"work","arguments":{"by":"the last"}}`)
			}
			synctest.Wait()
			replied := make(map[string]bool)
			for len(server.Replies) > 0 {
				m := <-server.Replies
				tag, _ := jsonrpc.String(m.ID)
				want := s.given[tag]
				if replied[tag] || string(m.Result) != want || m.Error == nil && want == "" {
					t.Errorf("seed %d: question %s has the reply %s, want %s, once", seed, tag, m.Raw, want)
				}
				replied[tag] = true
			}
			if len(replied) != questions {
				t.Errorf("seed %d: %d of %d questions have replies", seed, len(replied), questions)
			}
		})
	}
	t.Logf("what happened:\n%s", &seen)
	for _, what := range []string{"answered", "left out", "withdrawn", "left alone"} {
		if seen.of(what) == 0 {
			t.Errorf("there was no %q", what)
		}
	}
}

// A question that belongs to no call stays open when its client omits the reply. The client gets the results of
// its calls all the same, as soon as they are there. When the call that asked has ended, another asks at once.
func TestOpenQuestionHoldsNoResultBack(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		server := mcptest.NewPuppet()
		f := newFoe(slowly)
		f.rest = server.Handler()
		o := planned(t)
		o.Plans.Enabled = false // otherwise there are tools besides the puppet's
		d := beset(t, f, o)
		p := d.plans(stateless)
		post := d.counted(p.wired)
		post(`{"name":"work","arguments":{}}`, 0)
		server.Say(`{"jsonrpc":"2.0","id":"q","method":"roots/list"}`)
		synctest.Wait()
		var other sent
		for n := range 20 {
			params := fmt.Appendf(nil, `{"name":"work","arguments":{"n":%d}}`, n)
			m, _ := post(string(params), 0)
			if jsonrpc.Get(m.Result, "inputRequests") == nil {
				t.Fatalf("got %s, want the question", m.Raw)
			}
			if n == 19 {
				other = p.begin("work", `{"hang":true}`)
			}
			time.Sleep(time.Minute) // the server answers
			m, _ = post(string(jsonrpc.Set(params, "requestState", jsonrpc.Get(m.Result, "requestState"))), 0)
			if jsonrpc.Get(m.Result, "content") == nil {
				t.Fatalf("got %s, want the result", m.Raw)
			}
		}
		if m := other.wait(); jsonrpc.Get(m.Result, "inputRequests") == nil {
			t.Errorf("got %s, want the question that the call before did not answer", m.Raw)
		}
	})
}

// A session has at most 1024 suspended calls. Once its client has ended its input it gets no more of them, as it
// cannot reply.
func TestSuspendedCallsAreLimited(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		calls, suspended int
		ends             bool // the client ends its input before the server asks
		why              string
	}{
		{1025, 1024, false, "1024 calls and plans already wait"},
		{1, 0, true, "session ended"},
	} {
		bubble.Test(t, func(t *testing.T) {
			d := beset(t, newFoe(interviewer), planned(t))
			p := d.plans(stateless)
			var all []sent
			for range test.calls {
				all = append(all, p.begin("get", `{"tag":"1x1"}`))
			}
			synctest.Wait()
			if test.ends {
				d.leave()
				d.guests = nil
			}
			suspended, refused := 0, 0
			for _, call := range all {
				if m := call.wait(); jsonrpc.Get(m.Result, "inputRequests") != nil {
					suspended++
				} else if strings.Contains(string(m.Raw), test.why) {
					refused++
				} else {
					t.Errorf("got %s", m.Raw)
				}
			}
			if suspended != test.suspended || refused != 1 {
				t.Errorf("%d calls were suspended and %d refused, want %d and 1", suspended, refused, test.suspended)
			}
		})
	}
}

// strays is a client that gets the questions that belong to no call.
type strays struct {
	t       *testing.T
	seen    *tally
	post    func(string, time.Duration) (jsonrpc.Message, bool)
	patient bool // it answers all questions

	mu          sync.Mutex
	outstanding map[string]bool   // tags of questions that the client has and not yet answered
	given       map[string]string // tag → reply; "" if the client will not reply
}

// calls makes a call, and answers or abandons the questions in its result.
func (s *strays) calls(r *rand.Rand, first string) {
	for params := first; ; {
		after := time.Duration(0)
		if r.IntN(6) == 0 && !s.patient && params == first {
			after = time.Duration(1+r.IntN(1500)) * time.Millisecond
		}
		m, there := s.post(params, after)
		if !there {
			s.seen.count("withdrawn")
			return
		}
		if jsonrpc.Get(m.Result, "inputRequests") == nil {
			s.seen.count("answered")
			return
		}
		alone := r.IntN(5) == 0 && !s.patient
		replies, tags := []byte("{}"), []string(nil)
		s.mu.Lock()
		for q := range jsonrpc.Members(jsonrpc.Get(m.Result, "inputRequests")) {
			tag, _ := jsonrpc.String(jsonrpc.At(q.Value, "/params/tag"))
			if _, done := s.given[tag]; done || s.outstanding[tag] {
				s.t.Errorf("question %s is open twice", tag)
			}
			s.outstanding[tag] = true
			tags = append(tags, tag)
			switch {
			case alone:
				s.given[tag] = ""
			case r.IntN(4) == 0 && !s.patient:
				s.seen.count("left out")
			default:
				s.given[tag] = fmt.Sprintf(`{"to":%q}`, tag)
				replies = jsonrpc.Set(replies, string(q.Name), []byte(s.given[tag]))
			}
		}
		s.mu.Unlock()
		if alone {
			s.seen.count("left alone")
			return
		}
		time.Sleep(time.Duration(r.IntN(20)) * time.Second)
		s.mu.Lock()
		for _, tag := range tags {
			delete(s.outstanding, tag)
		}
		s.mu.Unlock()
		params = string(jsonrpc.Set(jsonrpc.Set([]byte(first), "requestState", jsonrpc.Get(m.Result, "requestState")), "inputResponses", replies))
	}
}
