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
	"mcpschedd/internal/dashboard/dashtest"
	"mcpschedd/internal/record"
)

// shoot keeps a picture of the whole page where $MCPSCHEDD_SHOTS says, if it does.
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

// looks are the windows in which the page must be fine.
func looks(f func(name, scheme string, wide int64)) {
	for _, scheme := range []string{"light", "dark"} {
		for _, wide := range []int64{1280, 400} {
			f(fmt.Sprintf("%s-%d", scheme, wide), scheme, wide)
		}
	}
}

func TestLook(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tally := dashtest.Busy(now)
	srv := serve(t, dashboard.Handler(dashboard.Options{View: func() record.View { return tally.View(now) }}))
	b := browser(t)
	looks(func(name, scheme string, wide int64) {
		t.Run(name, func(t *testing.T) {
			p := look(t, b, srv, "/dashboard", wide, 900, scheme)
			p.until(isLive)
			p.shoot(name)
			p.sound()
		})
	})
}

func TestKeyboard(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tally := dashtest.Busy(now)
	srv := serve(t, dashboard.Handler(dashboard.Options{View: func() record.View { return tally.View(now) }}))
	b := browser(t)
	for _, wide := range []int64{1280, 400} {
		p := look(t, b, srv, "/dashboard", wide, 900, "light")
		p.until(isLive)
		p.tabbed()
		p.quiet()
	}
}

// Nothing has happened yet: the page says so, and why that may be.
func TestNothingYet(t *testing.T) {
	t.Parallel()
	tally := record.New(0, nil)
	srv := serve(t, dashboard.Handler(dashboard.Options{View: func() record.View { return tally.View(time.Now()) }}))
	b := browser(t)
	looks(func(name, scheme string, wide int64) {
		t.Run(name, func(t *testing.T) {
			p := look(t, b, srv, "/dashboard", wide, 900, scheme)
			p.until(isLive)
			p.shoot("empty-" + name)
			p.sound()
			if n := ask[int](p, `document.querySelectorAll(".empty").length`); n < 5 {
				t.Errorf("got %d places that say that there is nothing, want at least 5", n)
			}
			if text := ask[string](p, `document.body.innerText`); containsAny(text, "NaN", "undefined", "null", "Infinity", "[object") {
				t.Errorf("got %s", text)
			}
		})
	})
}
