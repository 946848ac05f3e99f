package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// gone is a plan that reads for an hour before it writes.
const gone = `{"steps":[{"id":"a","tool":"get","arguments":{"x":"hang"}},{"id":"b","tool":"get","arguments":{"y":"hang"}},
	{"id":"w","tool":"write","arguments":{"n":{"$ref":"a#"}}},{"id":"v","tool":"write","depends_on":["b"]}]}`

// A client on stdio that disconnects in the middle of its plan: nothing is leaked, and no more
// is written.
func TestPlanClientGone(t *testing.T) {
	besetEach(t, plain, slowly, func(t *testing.T, d *ordeal, p *planner) {
		p.begin("execute_tool_plan", gone)
		time.Sleep(3 * time.Second)
		p.leave()
		d.guests = nil
		time.Sleep(time.Hour)
		if got := calls(d.foe.ledger()); strings.Contains(got, "write") || strings.Count(got, "get") != 2 {
			t.Errorf("got calls %s", got)
		}
		d.look()
	})
}

// The same over HTTP. A client with a session ends it; a stateless client disconnects.
func TestPlanVisitorGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(slowly), planned(t))
		v := d.visit()
		ctx, hangUp := context.WithCancel(t.Context())
		go v.call(ctx, "tools/call", toolCall("execute_tool_plan", line(gone)))
		time.Sleep(3 * time.Second)
		hangUp() // cancels nothing in this era
		synctest.Wait()
		if n := d.proxy.Stats().Store.Flights; n != 2 {
			t.Errorf("%d flights after the client hung up, want both", n)
		}
		v.ends()
		d.over()
	})
	for _, server := range []string{"handshake", "stateless"} {
		bubble.Test(t, func(t *testing.T) {
			d := beset(t, newFoe(slowly).of(server), planned(t))
			ctx, hangUp := context.WithCancel(t.Context())
			go d.ask(ctx, toolCall("execute_tool_plan", line(gone)))
			time.Sleep(3 * time.Second)
			hangUp()
			d.over()
		})
	}
}

// A client with a session over HTTP whose connection breaks has not cancelled its plan. It can
// read the results of the writes when it reconnects.
func TestPlanAnswerLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(slowly), planned(t))
		v := d.visit()
		ctx, breaks := context.WithCancel(t.Context())
		go v.call(ctx, "tools/call", toolCall("execute_tool_plan", `{"steps":[{"id":"w","tool":"write","arguments":{"n":1}}]}`))
		time.Sleep(500 * time.Millisecond)
		breaks()
		time.Sleep(time.Minute)
		read := func(arguments string) string {
			m, err := jsonrpc.Parse([]byte(v.call(t.Context(), "tools/call", toolCall("mcpschedd_read_result", arguments))))
			if err != nil {
				t.Fatal(err)
			}
			return firstText(m)
		}
		list := read("{}")
		handle, of, _ := strings.Cut(list, "  ")
		if !strings.HasPrefix(of, "plan 1, result,") {
			t.Fatalf("got %q", list)
		}
		if got := read(fmt.Sprintf(`{"handle":%q}`, handle)); !strings.Contains(got, `"id":"w","status":"ok"`) {
			t.Errorf("got %s", got)
		}
		v.ends()
		if n := proxy.Results(d.proxy); n != 0 {
			t.Errorf("%d results are kept for nobody", n)
		}
	})
}

// over checks that a plan has ended and does not continue.
func (d *ordeal) over() {
	d.t.Helper()
	synctest.Wait()
	for what, n := range map[string]int{"flights": d.proxy.Stats().Store.Flights, "calls with the server": d.foe.there()} {
		if n != 0 {
			d.t.Errorf("%d %s are left", n, what)
		}
	}
	time.Sleep(time.Minute)
	if got := calls(d.foe.ledger()); strings.Contains(got, "write") || strings.Count(got, "get") != 2 {
		d.t.Errorf("got calls %s", got)
	}
	time.Sleep(time.Hour) // the shared session of stateless clients has been idle
}

// there returns the number of open calls at the server.
func (f *foe) there() (n int) {
	for _, v := range f.ledger() {
		if v.went.IsZero() && v.ctx.Err() == nil {
			n++
		}
	}
	return n
}

// ask makes a stateless call over HTTP, and returns "" if the client did not wait.
func (d *ordeal) ask(ctx context.Context, params string) string {
	name, _ := jsonrpc.String(jsonrpc.Get([]byte(params), "name"))
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + withMeta(params, able, "") + `}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
	if err != nil {
		d.t.Error(err)
		return ""
	}
	for key, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": stateless, "Mcp-Method": "tools/call", "Mcp-Name": name,
	} {
		r.Header.Set(key, value)
	}
	answer, err := d.web.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			d.t.Errorf("post: %v", err)
		}
		return ""
	}
	defer answer.Body.Close()
	m, err := readBody(answer)
	if err != nil && ctx.Err() == nil {
		d.t.Errorf("post: %v", err)
	}
	return m
}

// A server process that exits in the middle of a plan fails its open calls; later calls are
// served by the next process.
func TestPlanProcessDies(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		gate := mcptest.NewGate(t)
		o := stored(t, []valuemodel.Rule{reading("frail/*", 0)}, child(t, mcptest.Options{Name: "frail", Era: server}))
		o.Plans.Enabled = true
		c := connect(t, start(t, o), client)
		p := c.begin("execute_tool_plan", line(`{"steps":[{"id":"first","tool":"pid"},
			{"id":"hold","tool":"hold","arguments":{"gate":"`+gate.Addr()+`"},"depends_on":["first"],"on_error":"continue"},
			{"id":"second","tool":"pid","arguments":{"n":2},"depends_on":["hold"]},
			{"id":"lost","tool":"echo","arguments":{"x":{"$ref":"hold#"}}}]}`))
		gate.Next()
		c.broken("die", `{"stderr":["out of luck"]}`)
		got := readPlan(t, p.wait())
		if want := "first ok, hold failed, second ok, lost ok"; got.states() != want {
			t.Errorf("got %s, want %s", got.states(), want)
		}
		if first, second := string(got.Outputs["first"]), string(got.Outputs["second"]); first == second || second == "" {
			t.Errorf("got processes %s and %s, want two", first, second)
		}
		if !strings.Contains(got.why("hold"), "exited with status 3") {
			t.Errorf("got %q, want how it ended", got.why("hold"))
		}
	})
}

// A write that was open when its server process exited is in doubt: no later write is made.
func TestPlanProcessDiesWriting(t *testing.T) {
	eachEra(t, func(t *testing.T, client, server string) {
		rules := []valuemodel.Rule{reading("frail/die", 0), reading("frail/seen", 0)}
		gate := mcptest.NewGate(t)
		o := stored(t, rules, child(t, mcptest.Options{Name: "frail", Era: server, Tools: append(tools("hold", "die", "seen"), tools("put")...)}))
		o.Plans.Enabled, o.Plans.Mutations = true, "allow"
		c := connect(t, start(t, o), client)
		p := c.begin("execute_tool_plan", line(`{"steps":[{"id":"w","tool":"hold","arguments":{"gate":"`+gate.Addr()+`"}},
			{"id":"v","tool":"put","arguments":{"n":2}}]}`))
		gate.Next()
		c.begin("die", "{}")
		got := readPlan(t, p.wait())
		if want := "w failed, v skipped"; got.states() != want {
			t.Errorf("got %s, want %s", got.states(), want)
		}
		if got, want := got.why("v"), "Skipped because 'w' may have changed something"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if seen := c.said("seen", ""); strings.Contains(seen, `"put"`) {
			t.Errorf("the later write was made: %s", seen)
		}
	})
}

func tools(names ...string) (all []string) {
	for _, name := range names {
		all = append(all, fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}}`, name))
	}
	return all
}

func readBody(answer *http.Response) (string, error) {
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}
