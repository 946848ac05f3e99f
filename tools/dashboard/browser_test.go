//go:build browser

package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser returns the context of the browser that all tests share. Tabs are created from it.
func browser(t *testing.T) context.Context {
	t.Helper()
	ctx, err := started()
	if err != nil {
		t.Fatal(err)
	}
	return ctx
}

// stops are functions that end what was started, in reverse order.
var stops []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	os.Exit(code)
}

// started starts the browser at its first use.
var started = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, errors.New("no chromium, chromium-browser or google-chrome in PATH")
	}
	data, err := os.MkdirTemp("", "dashboard-")
	if err != nil {
		return nil, err
	}
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(data), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("lang", "en-US"))
	ctx, end := chromedp.NewExecAllocator(context.Background(), o...)
	ctx, leave := chromedp.NewContext(ctx)
	stops = append(stops, func() { os.RemoveAll(data) }, end, leave)
	return ctx, chromedp.Do(ctx)
})

// tab is an open page.
type tab struct {
	t      *testing.T
	ctx    context.Context
	origin string

	mu       sync.Mutex
	wrong    []string // errors in its console, and requests to other origins
	tolerant bool     // failed requests are not errors
}

// look opens an address of a handler, in a window of the given size and colour scheme.
func look(t *testing.T, browser context.Context, srv *httptest.Server, path string, wide, high int64, scheme string) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	ctx, stop := context.WithTimeout(ctx, 90*time.Second)
	p := &tab{t: t, ctx: ctx, origin: srv.URL}
	t.Cleanup(func() { stop(); cancel() })
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, network.Enable, network.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(wide, high), chromedp.Navigate(srv.URL+path)); err != nil {
		t.Fatal(err)
	}
	return p
}

// hear records errors.
func (p *tab) hear(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		p.wrong = append(p.wrong, fmt.Sprintf("exception: %+v %+v", ev.ExceptionDetails, ev.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		p.wrong = append(p.wrong, fmt.Sprintf("console.%s", ev.Type))
	case *log.EventEntryAdded:
		if !p.tolerant {
			p.wrong = append(p.wrong, fmt.Sprintf("%s: %s", ev.Entry.Level, ev.Entry.Text))
		}
	case *network.EventRequestWillBeSent:
		if u, err := url.Parse(ev.Request.URL); err != nil || u.Scheme != "data" && u.Scheme+"://"+u.Host != p.origin {
			p.wrong = append(p.wrong, "request to "+ev.Request.URL)
		}
	}
}

// quiet fails the test if there were errors.
func (p *tab) quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.wrong {
		p.t.Error(w)
	}
}

// ask evaluates an expression in the page.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	out, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%s: %v", strings.SplitN(expression, "\n", 2)[0], err)
	}
	return out
}

// until waits until an expression is true, in this page or in the next one.
func (p *tab) until(expression string) {
	p.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](expression))
		if err == nil && is {
			return
		}
		if p.ctx.Err() != nil || time.Now().After(end) {
			p.t.Fatalf("%s: %v; complaints %q", expression, err, p.wrong)
		}
	}
}

const isLive = `document.getElementById("status")?.dataset.state === "live"`

// found returns the faults that a script finds in the page, a text for each.
func (p *tab) found(script string) []string {
	p.t.Helper()
	var out []string
	if err := json.Unmarshal([]byte(ask[string](p, "JSON.stringify((() => {"+script+"})())")), &out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

// serve serves a handler for a test.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}
