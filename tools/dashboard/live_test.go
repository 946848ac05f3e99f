//go:build browser

package dashboard_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/record"
)

func containsAny(text string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

// The page shows the figures of the view.
func TestFigures(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tally := busy(now)
	v := tally.View(now)
	v.Period = "today"
	processes := running(now)
	processes[0].ConfigError = "c.toml:3: no such key"
	v.Stats.SetRunning(processes)
	srv := serve(t, dashboard.Handler(func() record.View { return v }, ""))
	p := look(t, browser(t), srv, "/dashboard", 1280, 900, "light")
	p.until(isLive)
	if got, want := ask[string](p, `document.getElementById("saved").textContent`), v.Stats.Saved("today"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := ask[string](p, `document.getElementById("about").textContent`), ", figures of 34 min · "; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	for fact, want := range map[string]string{
		"calls": "840", "reads": "30 %", "used": "56 %", "requests": "1.12", "harm": "184 ms", "turns": "42", "tokens": "182,000",
	} {
		if got := ask[string](p, `document.querySelector("#fact-`+fact+` .figure").textContent`); got != want {
			t.Errorf("%s: got %q, want %q", fact, got, want)
		}
	}
	wrong := ask[[][]string](p, `Array.from(document.querySelectorAll("#wrong li"), (li) => Array.from(li.children, (c) => c.textContent))`)
	var want [][]string // with and without a fix
	for _, w := range v.Stats.Warnings() {
		want = append(want, slices.DeleteFunc([]string{w.Message, w.Fix}, func(text string) bool { return text == "" }))
	}
	if len(want) != 2 || !slices.EqualFunc(wrong, want, slices.Equal[[]string]) {
		t.Errorf("got %q, want two warnings, one with its fix: %q", wrong, want)
	}
	servers := ask[[]string](p, `Array.from(document.querySelectorAll("#servers tbody tr"), (tr) => tr.textContent)`)
	if len(servers) != 4 || !strings.HasPrefix(servers[1], "filesready since ") || !strings.Contains(servers[1], ", 1 restart14") || !strings.Contains(servers[1], "exclusive = true in [upstreams.files]") {
		t.Errorf("got servers %q", servers)
	}
	if lane := ask[string](p, `document.querySelector("#line text.name").lastChild.textContent`); !strings.HasPrefix(lane, "claude-code 2.1 in work/api, ") {
		t.Errorf("got a lane of %q, want the client and its folder", lane)
	}
	cells := ask[map[string][]string](p, `Object.fromEntries(Array.from(document.querySelectorAll("#tools tbody tr"), (tr) => [tr.children[0].textContent, Array.from(tr.children, (c) => c.textContent)]))`)
	if len(cells) != len(v.Stats.Tools) || len(cells) == 0 {
		t.Errorf("got %d tools, want %d", len(cells), len(v.Stats.Tools))
	}
	for name, want := range map[string]string{
		"github/list_comments": "10.7 s, 12.1 s, 47 %, 84, 42, 42",
		"db/query":             "1.14 s, 9.42 s, 11 %, 70, 56, 14",
		"files/edit_file":      "0 ms, 801 ms, 0 %, 70, 0, 0",
	} {
		if got := cells[name]; len(got) < 8 || strings.Join(got[2:8], ", ") != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	p.quiet()
}

// Sequences of calls are counted by turns. A pair that occurred once is in the table, but not in
// the graph.
func TestSequences(t *testing.T) {
	t.Parallel()
	tally, seq := record.NewTally(), int64(0)
	turn := func(n int, tools ...string) {
		for _, tool := range tools {
			seq++
			tally.Add(&record.Event{Kind: record.Call, At: time.Now(), Session: "s", Seq: seq, Turn: n, Upstream: "a", Tool: tool, Disposition: record.Fetched})
		}
	}
	for i := range 4 {
		turn(2*i+1, "list")
		turn(2*i+2, "get")
	}
	tally.Add(&record.Event{Kind: record.Prefetch, At: time.Now(), Session: "s", Seq: 100, After: 7, Upstream: "a", Tool: "get", Fate: record.Used, UsedBy: 8})
	p := look(t, browser(t), serve(t, dashboard.Handler(func() record.View { return tally.View(time.Now()) }, "")), "/dashboard", 1280, 900, "light")
	p.until(isLive)
	p.until(`document.querySelectorAll("#graph > #graph-table tbody tr").length === 2`) // two pairs are not enough for a graph
	rows := ask[[][]string](p, `Array.from(document.querySelectorAll("#graph-table tbody tr"), (tr) => Array.from(tr.children, (c) => c.textContent))`)
	if got := fmt.Sprint(rows); got != "[[a/list a/get 100 % 4 1 1 100 %] [a/get a/list 100 % 3 0 0 –]]" {
		t.Errorf("got %s", got)
	}
	turn(9, "put", "get")
	turn(10, "list")
	turn(11, "put")
	turn(12, "list")
	p.until(`document.querySelectorAll("#graph path.edge-line").length === 3`)
	if got := ask[string](p, `Array.from(document.querySelectorAll("#graph text"), (e) => e.textContent).sort().join()`); got != "100 %,80 %,80 %,a/get,a/get,a/list,a/list,a/put" {
		t.Errorf("got %q, want the three pairs that occurred twice", got)
	}
	if wide := ask[float64](p, `Math.max(...Array.from(document.querySelectorAll("#graph rect.node"), (r) => r.getBoundingClientRect().width))`); wide > 200 {
		t.Errorf("got a node of %v pixels", wide)
	}
	p.sound()
}

// hostile are malicious names.
var hostile = []string{
	`<img src=x onerror="window.pwned=1">`, `</script><script>window.pwned=1</script>`, `"><svg onload=window.pwned=1>`, `javascript:window.pwned=1`,
	"\u202egnp.exe\u202d\u2066\u2067", "a\u200fb\u061c", strings.Repeat("long-", 2000), strings.Repeat("W", 10_000), "\x00\x07\x1b[31m\r\n\t\x7f", "z" + strings.Repeat("\u0335\u0353\u0338", 300),
	"__proto__", "constructor", "toString", "hasOwnProperty", "\ufdfd\ufdfd\ufdfd\ufdfd", strings.Repeat("שלום", 40), "{{title}}", "", " ", "\xff\xfe", "&lt;b&gt;", "\u2028\u2029",
}

// enemies returns a view in which every name is hostile.
func enemies(now time.Time) record.View {
	t := record.NewTally()
	made(now.Add(-10*time.Minute), now, 5, t.Add)
	v := t.View(now)
	name := func(i int) string { return hostile[i%len(hostile)] }
	tools, hosts := map[string]record.Figures{}, map[string]record.Host{}
	part := v.Stats.Tools["github/get_issue"]
	for i, h := range hostile {
		tools[h+"/"+name(i+5)] = part
		hosts[h] = record.Host{Level: i % 7}
	}
	v.Stats.Tools = tools
	v.Stats.Config.Path, v.Stats.Config.Error = name(0), name(7)
	for i := range v.Timeline {
		e := &v.Timeline[i]
		e.Session, e.Tool, e.Upstream = name(i/60), name(i), name(i)
		if i%4 == 0 {
			e.Disposition, e.Fate, e.Cause = record.Disposition(name(i+10)), record.Fate(name(i+10)), name(i+11)
			e.Kind = []record.Kind{e.Kind, record.Kind(name(i))}[i%8/4]
		}
	}
	for i := range v.Decisions {
		d := &v.Decisions[i]
		d.Session, d.Tool, d.Declined = name(i), name(i+1), map[string]int{name(i + 10): 1, name(i + 2): 3}
		for j := range d.Top {
			d.Top[j].Tool, d.Top[j].Reason, d.Top[j].Differs = name(i+j), name(i+j+9), name(i+j+6)
		}
	}
	for i := range v.Sessions {
		v.Sessions[i].Client, v.Sessions[i].Dir = name(i), name(i+4)
	}
	processes := running(now)
	processes[0].Hosts = hosts
	v.Stats.SetRunning(processes)
	for i := range hostile {
		v.Stats.Running[0].Upstreams = append(v.Stats.Running[0].Upstreams, record.UpstreamStatus{Name: name(i), State: "down", Error: name(i + 1)}, record.UpstreamStatus{Name: name(i), State: name(i), Why: name(i + 3), Change: name(i + 4), Tools: 1})
		v.Stats.Running[0].Clients = append(v.Stats.Running[0].Clients, record.ClientStatus{Client: name(i), Dir: name(i + 7), Sessions: i})
	}
	for i := range v.Levels {
		v.Levels[i].Host, v.Levels[i].Why, v.Levels[i].To = name(i), name(i+6), 9
	}
	v.Problems = hostile
	return v
}

// Names are shown as text, whatever they contain, and do not affect the layout around them.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	v := enemies(time.Now())
	srv := serve(t, dashboard.Handler(func() record.View { return v }, ""))
	b := browser(t)
	looks(func(name, scheme string, wide int64) {
		t.Run(name, func(t *testing.T) {
			p := look(t, b, srv, "/dashboard", wide, 900, scheme)
			p.until(isLive)
			ask[bool](p, `document.querySelectorAll("button").forEach((b) => { if (b.textContent.startsWith("Show all")) b.click(); }), true`)
			p.sound()
			for _, fault := range p.found(`
				const out = [];
				if (window.pwned) out.push("something was executed");
				for (const e of document.body.querySelectorAll("img, iframe, object, embed, video, b b, [onerror], [onload]")) out.push("an element of theirs: " + e.outerHTML.slice(0, 80));
				if (document.querySelectorAll("script").length !== 1) out.push("another script");
				const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
				for (let n = walk.nextNode(); n; n = walk.nextNode()) {
					if (n.parentElement.closest("script")) continue;
					if (/[\u0000-\u0008\u000b-\u001f\u007f\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\u2028\u2029]/.test(n.data)) out.push("a sign that is not to be shown, in " + n.parentElement.tagName);
					if (n.data.length > 800) out.push("a text of " + n.data.length + " letters");
				}
				// Fonts decide how many lines cut names take; an uncut one would take thousands of pixels.
				const high = Math.max(...Array.from(document.querySelectorAll("tbody tr"), (r) => r.getBoundingClientRect().height));
				if (high > 400) out.push("a row of " + high + " pixels");
				return out;`) {
				t.Error(fault)
			}
			if name == "light-1280" || name == "dark-400" { // it is long, and takes a browser seconds
				p.shoot("hostile-" + name)
			}
		})
	})
}

// When the proxy ends, the page says so and keeps the last figures. When it is back, the page
// continues.
func TestGone(t *testing.T) {
	t.Parallel()
	tally := busy(time.Now())
	inner := dashboard.Handler(func() record.View { return tally.View(time.Now()) }, "")
	var gone atomic.Bool
	var asked atomic.Int64
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		inner.ServeHTTP(w, r)
	}))
	p := look(t, browser(t), srv, "/dashboard", 1280, 900, "light")
	p.tolerant = true // the browser reports every failed request in its console
	p.until(isLive)
	before := ask[string](p, `document.getElementById("tools").innerText`)
	gone.Store(true)
	p.until(`document.getElementById("status").dataset.state === "gone"`)
	if got := ask[string](p, `document.getElementById("status-text").textContent`); !strings.HasPrefix(got, "No response from the proxy since ") {
		t.Errorf("got status %q", got)
	}
	if got := ask[string](p, `document.getElementById("tools").innerText`); got != before || got == "" {
		t.Errorf("the last figures are gone: got %q, want %q", got, before)
	}
	p.until(`document.getElementById("retry").textContent.includes("in 4 s")`)
	gone.Store(false)
	p.until(isLive)
	if n := asked.Load(); n > 20 {
		t.Errorf("asked %d times", n)
	}
	p.quiet()
}

// A pause stops the updates and the requests. Open details stay open when it ends.
func TestPause(t *testing.T) {
	t.Parallel()
	tally := busy(time.Now())
	var asked atomic.Int64
	inner := dashboard.Handler(func() record.View { asked.Add(1); return tally.View(time.Now()) }, "")
	p := look(t, browser(t), serve(t, inner), "/dashboard", 1280, 900, "light")
	p.until(isLive)
	ask[bool](p, `document.querySelector("details").open = true, window.kept = document.querySelector("#why article"), true`)
	ask[bool](p, `document.getElementById("pause").focus(), true`)
	if err := chromedp.Do(p.ctx, chromedp.KeyEvent(" ")); err != nil {
		t.Fatal(err)
	}
	p.until(`document.getElementById("status").dataset.state === "paused" && document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	calls := ask[string](p, `document.querySelector("#fact-requests .note").textContent`)
	time.Sleep(100 * time.Millisecond) // an earlier request may still be in flight
	n := asked.Load()
	made(time.Now().Add(-time.Minute), time.Now(), 1, tally.Add)
	time.Sleep(1500 * time.Millisecond)
	if m := asked.Load(); m != n {
		t.Errorf("%d requests in a pause", m-n)
	}
	if got := ask[string](p, `document.querySelector("#fact-requests .note").textContent`); got != calls {
		t.Errorf("the figures changed in a pause: got %q, want %q", got, calls)
	}
	if err := chromedp.Do(p.ctx, chromedp.KeyEvent(" ")); err != nil {
		t.Fatal(err)
	}
	p.until(isLive + ` && document.querySelector("#fact-requests .note").textContent !== ` + strconv.Quote(calls))
	if !ask[bool](p, `document.querySelector("details").open && document.activeElement.id === "pause"`) {
		t.Error("open details or the focus were lost")
	}
	p.quiet()
}

// An address with a code lets a browser in, once, and the code is removed from the address.
func TestNoticeInBrowser(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-26-letters-or-so"
	v := busy(time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)).View(time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC))
	h := dashboard.Handler(func() record.View { return v }, token)
	srv := serve(t, h)
	b := browser(t)
	looks(func(name, scheme string, wide int64) {
		ctx, cancel := chromedp.NewContext(b, chromedp.WithNewBrowserContext())
		defer cancel()
		if err := chromedp.Do(ctx); err != nil {
			t.Fatal(err)
		}
		p := look(t, ctx, srv, "/dashboard", wide, 900, scheme)
		p.mu.Lock()
		p.wrong = nil // the browser reports the status 401 in its console
		p.mu.Unlock()
		p.until(`document.querySelector(".notice h1") !== null`)
		p.shoot("notice-" + name)
		for _, script := range []string{overflow, structure} {
			for _, fault := range p.found(script) {
				t.Error(fault)
			}
		}
		address := srv.URL + h.Address()
		for range 2 { // the second time the cookie lets the browser in
			if err := chromedp.Do(p.ctx, chromedp.Navigate(address)); err != nil {
				t.Fatal(err)
			}
			p.until(isLive)
			if got := ask[string](p, `location.href`); got != srv.URL+"/dashboard" {
				t.Errorf("got address %s, want it without the code", got)
			}
		}
		if got := ask[string](p, `document.cookie`); got != "" {
			t.Errorf("a script can read the cookie: %s", got)
		}
		p.quiet()
	})
}
