package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

func TestUpstreamClosesItsInput(t *testing.T) {
	t.Parallel()
	c := connect(t, start(t, options(child(t, mcptest.Options{Name: "frail"}))), handshake)
	pid := c.said("pid", "")
	c.begin("closein", "").wait()
	// The process can no longer receive messages, so it must be restarted.
	if got := c.said("pid", ""); got == pid || got == "" {
		t.Errorf("got process %q, want another than %s", got, pid)
	}
}

func TestHangingStartHoldsNobodyUp(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		t.Run(era, func(t *testing.T) {
			gate := mcptest.NewGate(t)
			_, well := remote(t, mcptest.Options{Name: "well"})
			slow := child(t, mcptest.Options{Name: "slow", Gate: gate.Addr()})
			o := options(slow, well)
			o.StartupWait = time.Millisecond
			c := connect(t, start(t, o), era)
			hung := c.begin("slow__echo", `{"x":2}`)
			if got := c.said("well__echo", `{"x":1}`); !strings.Contains(got, `"x":1`) {
				t.Errorf("the healthy one: got %q", got)
			}
			// The lists of the other server are read during its first calls.
			mcptest.Eventually(t, "the healthy one's tools are listed", func() bool { return strings.HasPrefix(c.tools(), "well__echo") })
			if !hung.open() {
				t.Errorf("a server that is held at its start answered: %s", hung.wait().Raw)
			}
			gate.Next().Open()
			if m := hung.wait(); !strings.Contains(string(m.Result), `"x":2`) {
				t.Errorf("the call that waited: got %s", m.Raw)
			}
		})
	}
}

func TestServerThatNeverGetsReady(t *testing.T) {
	mute := child(t, mcptest.Options{Name: "mute", Start: "mute"})
	mute.Spec.StartTimeout = 50 * time.Millisecond
	o := options(mute)
	o.StartupWait = time.Millisecond
	c := connect(t, start(t, o), handshake)
	const want = `server "mute" is not available: still starting after 50ms`
	if _, got := c.refused("tools/list", awaitTools); got != want {
		t.Errorf("got %q", got)
	}
	if got := c.broken("echo", ""); got != want {
		t.Errorf("got %q", got)
	}
}

const awaitTools = `{"_meta":{"mcpschedd/await_tools":true}}`

// A client that asks for it gets the tools of a server that starts after startup_wait.
func TestToolsAreAwaited(t *testing.T) {
	gate := mcptest.NewGate(t)
	o := options(child(t, mcptest.Options{Name: "slow", Gate: gate.Addr()}))
	o.StartupWait = time.Millisecond
	c := connect(t, start(t, o), handshake) // lists no tools
	listed := c.start("tools/list", awaitTools)
	gate.Next().Open()
	if m := listed.wait(); !strings.Contains(string(m.Result), `"name":"echo"`) {
		t.Errorf("got %s", m.Raw)
	}
}

func TestLastKnownListsAreOfferedAtOnce(t *testing.T) {
	store := keep()
	up := child(t, mcptest.Options{Name: "slow", Instructions: "be kind"})
	up.Store = store
	first := connect(t, start(t, options(up)), handshake)
	want := first.tools()
	if err := first.hangUp(); err != nil {
		t.Fatal(err)
	}
	gate := mcptest.NewGate(t)
	up = child(t, mcptest.Options{Name: "slow", Gate: gate.Addr(), Tools: []string{`{"name":"echo"}`}})
	up.Store = store
	c := connect(t, start(t, options(up)), handshake)
	if got := c.tools(); got != want {
		t.Errorf("got tools %q, want those last known %q", got, want)
	}
	call := c.begin("echo", "")
	c.request("ping", "")
	if !call.open() {
		t.Errorf("a server that is held at its start answered: %s", call.wait().Raw)
	}
	gate.Next().Open()
	if m := call.wait(); m.Error != nil {
		t.Errorf("got %s", m.Raw)
	}
	c.next("notifications/tools/list_changed")
	if got := c.tools(); got != "echo" {
		t.Errorf("got tools %q, want what it has now", got)
	}
}

func TestClientGoneMidCall(t *testing.T) {
	gate := mcptest.NewGate(t)
	beacon := mcptest.NewGate(t)
	for _, era := range []string{handshake, stateless} {
		o := options(child(t, mcptest.Options{Name: "busy", Beacon: beacon.Addr()}))
		o.DrainTimeout = time.Millisecond
		c := connect(t, start(t, o), era)
		c.begin("hold", `{"gate":"`+gate.Addr()+`"}`)
		process, call := beacon.Next(), gate.Next()
		if err := c.hangUp(); err != nil {
			t.Errorf("%s: %v", era, err)
		}
		call.Gone()
		process.Gone()
	}
}

// A call that its server does not answer in time fails, and is cancelled there. The client is told that one which may
// write may have run.
func TestTimeout(t *testing.T) {
	o := func(t testing.TB) proxy.Options {
		o := planned(t)
		o.Upstreams[0].Timeout = time.Minute
		return o
	}
	besetEach(t, o, slowly, func(t *testing.T, d *ordeal, p *planner) {
		d.foe.first = func(_ http.ResponseWriter, m jsonrpc.Message) bool {
			if m.Method == "resources/read" {
				time.Sleep(2 * time.Minute)
			}
			return false
		}
		const late, unknown = `server "foe": no answer within 1m`, "outcome unknown: the call may have run; "
		for tool, want := range map[string]string{"get": late, "write": unknown + late} {
			if got := brokenText(t, p.call(tool, `{"x":"hang"}`).Message); got != want {
				t.Errorf("%s: got %q, want %q", tool, got, want)
			}
		}
		if got := p.run(`{"id":"w","tool":"write","arguments":{"x":"hang"}}`).why("w"); got != unknown+late {
			t.Errorf("a step: got %q", got)
		}
		for tool, want := range map[string]string{"get": "no answer within 5s", "write": unknown + "no answer within 5s"} {
			if got := p.run(`{"id":"s","tool":"` + tool + `","arguments":{"x":"hang"},"timeout":5}`).why("s"); got != want {
				t.Errorf("a step with a timeout: got %q, want %q", got, want)
			}
		}
		if _, got := errorOf(t, p.request("resources/read", p.said(`{"uri":"foe://a"}`)).Message); got != late {
			t.Errorf("a resource: got %q", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := d.foe.there(); n != 0 {
			t.Errorf("%d calls are open at the server", n)
		}
	})
}

// A status says whether a call that may write may have run.
func TestStatusOfACall(t *testing.T) {
	_, up := remote(t, mcptest.Options{Name: "web"})
	c := connect(t, start(t, options(up)), handshake)
	for arguments, unknown := range map[string]bool{`{"status":400}`: false, `{"status":429}`: false, `{"status":502}`: true} {
		if got := c.broken("status", arguments); strings.HasPrefix(got, "outcome unknown: the call may have run; ") != unknown {
			t.Errorf("%s: got %q", arguments, got)
		}
	}
}

// After a crash, the proxy renews its subscriptions at the server, and clients are notified of their resources.
func TestSubscriptionsSurviveARestart(t *testing.T) {
	c := connect(t, start(t, options(child(t, mcptest.Options{Name: "frail"}))), handshake)
	c.request("resources/subscribe", `{"uri":"frail://a"}`)
	c.broken("die", "")
	if got := c.said("seen", ""); strings.Count(got, `"method":"resources/subscribe","params":{"uri":"frail://a"}`) != 1 {
		t.Errorf("the new process saw %s, want a subscription", got)
	}
	c.next("notifications/resources/updated") // as it may have changed meanwhile
	c.call("update", `{"uri":"frail://a"}`)
	c.next("notifications/resources/updated")
	c = connect(t, start(t, options(child(t, mcptest.Options{Name: "frail", Era: "stateless"}))), stateless)
	c.start("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["frail://a"]}}`)
	c.next("notifications/subscriptions/acknowledged")
	c.broken("die", "")
	c.next("notifications/resources/updated") // as it may have changed meanwhile
	for {                                     // the listen request is sent concurrently with the call
		c.call("update", `{"uri":"frail://a"}`)
		if got := c.said("seen", ""); strings.Contains(got, `"resourceSubscriptions":["frail://a"]`) {
			break
		}
	}
	c.call("update", `{"uri":"frail://a"}`)
	c.next("notifications/resources/updated")
}

// If a reload replaces a server, its subscriptions are renewed.
func TestSubscriptionSurvivesAReload(t *testing.T) {
	for _, era := range []string{handshake, stateless} {
		t.Run(era, func(t *testing.T) {
			srv, up := remote(t, mcptest.Options{Name: "n"})
			o := options(up, child(t, mcptest.Options{Name: "other"}))
			s := start(t, o)
			c := connect(t, s, era)
			c.tools()
			if era == handshake {
				c.request("resources/subscribe", `{"uri":"n://a"}`)
			} else {
				c.start("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["n://a"]}}`)
				c.next("notifications/subscriptions/acknowledged")
			}
			subscribed := func() int { return strings.Count(strings.Join(srv.Seen(), ""), `"resources/subscribe"`) }
			mcptest.Eventually(t, "subscribed", func() bool { return subscribed() == 1 })
			o.Upstreams[0].Fingerprint = "changed"
			s.Apply(o)
			mcptest.Eventually(t, "subscribed again", func() bool { return subscribed() == 2 })
			c.next("notifications/resources/updated") // as it may have changed meanwhile
			c.call("n__update", `{"uri":"n://a"}`)
			c.next("notifications/resources/updated")
		})
	}
}
