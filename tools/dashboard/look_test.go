//go:build browser

package dashboard_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"mcpschedd/internal/dashboard"
	"mcpschedd/internal/record"
)

// shoot saves a picture of the whole page in $MCPSCHEDD_SHOTS, if that is set.
func (p *tab) shoot(name string) {
	p.t.Helper()
	dir := os.Getenv("MCPSCHEDD_SHOTS")
	if dir == "" {
		return
	}
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// looks calls f for each window in which the page is tested.
func looks(f func(name, scheme string, wide int64)) {
	for _, scheme := range []string{"light", "dark"} {
		for _, wide := range []int64{1280, 400} {
			f(fmt.Sprintf("%s-%d", scheme, wide), scheme, wide)
		}
	}
}

// scenes returns the views with which the page is tested.
func scenes(now time.Time) map[string]func() record.View {
	view := func(tally *record.Tally, processes []record.Status) func() record.View {
		return func() record.View {
			v := tally.View(now)
			v.Stats.SetRunning(processes)
			return v
		}
	}
	down := running(now)
	down[0].Upstreams = append(down[0].Upstreams, record.UpstreamStatus{
		Name: "postgres", State: "down", Since: now.Add(-3 * time.Minute), Restarts: 4,
		Error: "exit status 1: connection to server at 10.0.0.7, port 5432 failed: Connection refused",
	})
	few := record.NewTally()
	made(now.Add(-4*time.Minute), now, 1, few.Add)
	one := running(now)
	one[0].Upstreams = []record.UpstreamStatus{{Name: "git", State: "ready", Since: now.Add(-9 * time.Minute), Tools: 1, Cacheable: 1, Prefetchable: 1, MemoryKB: 18 << 10}}
	one[0].Clients[0].Sessions = 1
	return map[string]func() record.View{
		"nothing": view(record.NewTally(), nil),
		"down":    view(few, down),
		"load":    view(busy(now), running(now)),
		"one":     view(oneTool(now), one),
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	b := browser(t)
	for scene, view := range scenes(time.Now()) {
		srv := serve(t, dashboard.Handler(view, ""))
		looks(func(name, scheme string, wide int64) {
			t.Run(scene+"-"+name, func(t *testing.T) {
				p := look(t, b, srv, "/dashboard", wide, 900, scheme)
				p.until(isLive)
				p.shoot(scene + "-" + name)
				p.sound()
				if text := ask[string](p, `document.body.innerText`); containsAny(text, "NaN", "undefined", "null", "Infinity", "[object", "1 rate limit responses") {
					t.Errorf("got %s", text)
				}
			})
		})
	}
}

// Durations in the headline, which the program formats, have the same form as those that the page
// formats.
func TestDurations(t *testing.T) {
	t.Parallel()
	words, err := os.ReadFile("../../internal/dashboard/page/words.js")
	if err != nil {
		t.Fatal(err)
	}
	srv := serve(t, dashboard.Handler(func() record.View { return record.NewTally().View(time.Now()) }, ""))
	p := look(t, browser(t), srv, "/dashboard", 1280, 900, "light")
	for _, ms := range []float64{0, .9, 1, 113, 999.4, 1_234, 9_949, 9_951, 59_949, 60_400, 176_000, 3_599_000, 3_600_000, 5_437_000, 172_799_000, 266_400_000} {
		s := record.Stats{Totals: record.Totals{Figures: record.Figures{Calls: 1, WaitedMS: ms}}}
		if got, want := ask[string](p, fmt.Sprintf("(() => { %s; return took(%v); })()", words, ms)), s.Saved(""); want != "Saved 0 ms of "+got+" waiting." {
			t.Errorf("%v ms: got %q, and %q", ms, got, want)
		}
	}
}

func TestKeyboard(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tally := busy(now)
	srv := serve(t, dashboard.Handler(func() record.View { return tally.View(now) }, ""))
	b := browser(t)
	for _, wide := range []int64{1280, 400} {
		p := look(t, b, srv, "/dashboard", wide, 900, "light")
		p.until(isLive)
		p.tabbed()
		p.quiet()
	}
}
