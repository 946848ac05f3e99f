//go:build browser

package dashboard_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/record"
)

const isRecorded = `document.getElementById("status")?.dataset.state === "recorded"`

// A page of recorded events shows their time, and does not request updates.
func TestRecorded(t *testing.T) {
	t.Parallel()
	to := time.Date(2026, 1, 2, 9, 0, 0, 0, time.Local)
	v := busy(to).View(to)
	v.Recorded, v.Period = true, "from 2026-01-02 08:26:00 to 2026-01-02 09:00:00"
	inner := dashboard.Handler(func() record.View { return v }, "")
	var asked atomic.Int64
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".json") {
			asked.Add(1)
		}
		inner.ServeHTTP(w, r)
	}))
	p := look(t, browser(t), srv, "/dashboard", 1280, 900, "light")
	p.until(isRecorded)
	if got, want := ask[string](p, `document.getElementById("saved").textContent`), v.Period+"."; !strings.Contains(got, want) {
		t.Errorf("got %q, want %q in it", got, want)
	}
	if ask[bool](p, `document.getElementById("pause").checkVisibility()`) {
		t.Error("a recorded page can be paused")
	}
	if got := ask[string](p, `document.getElementById("line").textContent`); strings.HasSuffix(got, "now") || strings.Contains(got, "nowTime") {
		t.Errorf("its last call is shown as now: %s", got)
	}
	ask[bool](p, `document.dispatchEvent(new Event("visibilitychange")), dispatchEvent(new Event("resize")), true`)
	time.Sleep(2500 * time.Millisecond)
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
	p.sound()
}

// If there were reads but no prefetches, the page shows why, and which setting to change.
func TestWhyNothingIsFetchedAhead(t *testing.T) {
	t.Parallel()
	tally := record.NewTally()
	var open atomic.Bool
	view := func() record.View {
		v := tally.View(time.Now())
		if open.Load() {
			v.Stats.AddOpen(record.Event{Upstream: "files", Tool: "read", Sent: 1})
		}
		return v
	}
	tell := func(e record.Event) { e.At, e.Session = time.Now(), "a"; tally.Add(&e) }
	for i := range 21 {
		tell(record.Event{Kind: record.Call, Seq: int64(i + 1), Upstream: "files", Tool: "read", Class: "read_only", Disposition: record.Fetched, LatencyMS: 5, Sent: 1})
	}
	srv := serve(t, dashboard.Handler(view, ""))
	p := look(t, browser(t), srv, "/dashboard", 1280, 900, "light")
	p.until(isLive)
	p.until(`document.getElementById("wrong").innerText.includes("no call was predicted")`)
	tell(record.Event{Kind: record.Decision, After: 1, Candidates: 5, Declined: map[string]int{"unsteady": 3, "gate": 2}})
	p.until(`document.getElementById("wrong").innerText.includes("most of those were left out because")`)
	p.sound()
	open.Store(true)
	p.until(`!document.getElementById("wrong").innerText.includes("Nothing was prefetched")`)
	if got := ask[string](p, `document.querySelector("#fact-used .note").textContent`); got != "0 of 0, 1 in flight" {
		t.Errorf("got a prefetch: %q", got)
	}
}

// The recorded demo of the program, as the command shows it.
func TestDemo(t *testing.T) {
	t.Parallel()
	keep := filepath.Join(t.TempDir(), "state")
	bin, err := mcptest.Program("mcpschedd")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(bin, "demo", "--speed", "8", "--keep", keep).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := exec.CommandContext(ctx, bin, "dashboard", "--addr", "127.0.0.1:0", filepath.Join(keep, "events"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := c.Wait(); err != nil && !strings.Contains(err.Error(), context.Canceled.Error()) {
			t.Errorf("dashboard: got %v, want exit 0", err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{URL: at.Scheme + "://" + at.Host}
	looks(func(name, scheme string, wide int64) {
		p := look(t, browser(t), srv, at.RequestURI(), wide, 900, scheme)
		p.until(isRecorded)
		p.shoot("demo-" + name)
		p.sound()
		if got := ask[string](p, `document.querySelector("#fact-calls .figure").textContent`); got != "20" {
			t.Errorf("%s: got %q, want the 20 calls of the demo", name, got)
		}
		if n := ask[int](p, `document.querySelectorAll("#line .m-ahead").length`); n == 0 {
			t.Errorf("%s: no call of the demo was answered by a prefetch", name)
		}
	})
}
