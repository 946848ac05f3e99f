//go:build browser

package dashboard_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/record"
)

// of serves the view of events.
func of(t *testing.T, all ...record.Event) *tab {
	t.Helper()
	tally := record.NewTally()
	for i := range all {
		tally.Add(&all[i])
	}
	p := look(t, browser(t), serve(t, dashboard.Handler(func() record.View { return tally.View(time.Now()) }, "")), "/dashboard", 1280, 900, "light")
	p.until(isLive)
	return p
}

// The graph has the strongest pairs, whichever came first.
func TestStrongestPairs(t *testing.T) {
	t.Parallel()
	var all []record.Event
	for i, tool := range strings.Fields("a b a b c d c d e f e f e f e f") {
		all = append(all, record.Event{Kind: record.Call, At: time.Now(), Session: "s", Seq: int64(i + 1), Turn: i + 1, Upstream: "u", Tool: tool, Disposition: record.Fetched})
	}
	p := of(t, all...)
	p.until(`document.querySelector("#graph svg") !== null`)
	if got := ask[string](p, `document.querySelector("#graph svg").getAttribute("aria-label")`); !strings.Contains(got, "after u/e comes u/f") {
		t.Errorf("got %q, want the pair that occurred four times first", got)
	}
	p.quiet()
}

// Events of another program may have no time.
func TestEventsWithoutTime(t *testing.T) {
	t.Parallel()
	all := []record.Event{
		{Kind: record.Decision, Session: "s", Upstream: "u", Candidates: 1, Declined: map[string]int{"gate": 1}},
		{Kind: record.Level, Session: "s", To: 1},
	}
	for i := range int64(40) {
		all = append(all, record.Event{Kind: record.Call, Session: "s", Seq: i + 1, Upstream: "u", Tool: "get", Disposition: record.Fetched, LatencyMS: 5})
	}
	p := of(t, all...)
	p.until(`document.querySelectorAll("#line svg .m-fetched").length >= 40`)
	p.quiet()
}

// A call that used a prefetch of another session is linked to that one.
func TestLinkToAnotherSession(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := of(t,
		record.Event{Kind: record.Call, At: now.Add(-3 * time.Second), Session: "b", Seq: 2, Upstream: "u", Tool: "list", Disposition: record.Fetched, LatencyMS: 100},
		record.Event{Kind: record.Prefetch, At: now.Add(-2 * time.Second), Session: "a", Seq: 2, Upstream: "u", Tool: "get", Fate: record.Used, LatencyMS: 100},
		record.Event{Kind: record.Call, At: now.Add(-time.Second), Session: "b", Seq: 3, Upstream: "u", Tool: "get", Disposition: record.Hit, Prefetched: true, UseOf: 2, UseOfSession: "a", LatencyMS: 1})
	p.until(`document.querySelector("#line svg .thread") !== null`)
	from := ask[float64](p, `document.querySelector("#line svg .thread").getPointAtLength(0).y`)
	if want := ask[float64](p, `(() => { const b = document.querySelector("#line svg .m-used").getBBox(); return b.y + b.height / 2; })()`); from != want {
		t.Errorf("the line begins at a height of %v, want that of the prefetch, %v", from, want)
	}
	p.quiet()
}

// A section can be opened before the first figures are there.
func TestOpenedBeforeTheFirstFigures(t *testing.T) {
	t.Parallel()
	inner := dashboard.Handler(func() record.View { return record.View{} }, "")
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".json") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	p := look(t, browser(t), srv, "/dashboard", 1280, 900, "light")
	p.tolerant = true
	p.until(`document.getElementById("status").dataset.state === "gone"`)
	p.mu.Lock()
	p.wrong = nil // the status in its console
	p.mu.Unlock()
	ask[bool](p, `new Promise((done) => { const f = document.querySelector("details.fold"); f.addEventListener("toggle", () => done(true)); f.open = true; })`)
	p.quiet()
}

// A long name pushes no other column out of sight, and rows are not drawn again for what they do not show.
func TestLongNames(t *testing.T) {
	t.Parallel()
	long, now := strings.Repeat("name", 60), time.Now()
	var views atomic.Int64
	p := look(t, browser(t), serve(t, dashboard.Handler(func() record.View {
		v := record.NewTally().View(now)
		v.Stats.SetRunning([]record.Status{{
			PID: 1, Since: now, Dir: "/home/" + long, Clients: []record.ClientStatus{{Client: "c", Sessions: 1}},
			Upstreams: []record.UpstreamStatus{{Name: "u", State: "down", Error: long}},
			Hosts:     map[string]record.Host{"h": {InFlight: int(views.Add(1))}},
		}})
		return v
	}, "")), "/dashboard", 1280, 900, "light")
	p.until(`document.querySelector("#clients td") !== null`)
	for _, box := range []string{"servers", "clients"} {
		if wide := ask[float64](p, `document.querySelector("#`+box+` .scroll").scrollWidth - document.querySelector("#`+box+` .scroll").clientWidth`); wide > 0 {
			t.Errorf("the table of %s is %v pixels too wide", box, wide)
		}
	}
	ask[bool](p, `Boolean(window.row = document.querySelector("#clients td"))`)
	for seen := views.Load(); views.Load() < seen+2; time.Sleep(100 * time.Millisecond) {
	}
	if !ask[bool](p, `window.row.isConnected`) {
		t.Error("the clients were drawn again")
	}
	p.quiet()
}
