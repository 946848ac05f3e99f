package proxy_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/age"
	"mcpschedd/internal/bubble"
	"mcpschedd/internal/front"
	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// laptop is a machine that has slept for a time that the test sets. The monotonic clock does not include it.
type laptop struct{ slept atomic.Int64 }

func (l *laptop) sleep(d time.Duration) { l.slept.Add(int64(d)) }

func (l *laptop) clock() age.Moment {
	now := time.Now().UnixNano()
	return age.At(time.Duration(now), time.Duration(now+l.slept.Load()))
}

// After a night, neither answers nor prefetches from the evening are served.
func TestStoredAnswersAgeInSleep(t *testing.T) {
	var l laptop
	o := prefetching(t, mcptest.Options{Name: "one"}, valuemodel.Rule{
		Pattern: "one/start", Source: "test", Layer: valuemodel.Layer{Class: valuemodel.ReadOnly, Cost: valuemodel.Cost{Freshness: time.Hour}},
	})
	o.Dedup.Clock = l.clock
	s := start(t, o)
	c := connect(t, s, handshake)
	c.call("start", `{}`)
	c.call("list", `{}`)
	until(t, s, "two prefetches", settled(2))
	for _, step := range []struct {
		asleep                time.Duration
		tool, arguments, want string
	}{
		{0, "start", `{}`, "hit"}, {0, "echo", `{"n":11}`, "hit"},
		{8 * time.Hour, "echo", `{"n":12}`, "fetched"}, {0, "start", `{}`, "fetched"}, // its answer may cause a new prefetch of echo
		{0, "start", `{}`, "hit"},
	} {
		l.sleep(step.asleep)
		if how := disposition(t, c.call(step.tool, step.arguments)); how != step.want {
			t.Errorf("%s %s, %v later: got %s, want %s", step.tool, step.arguments, step.asleep, how, step.want)
		}
	}
}

// A session over HTTP that was idle before the night has ended in the morning.
func TestIdleSessionEndsInSleep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l laptop
		o := proxy.Options{HTTP: front.HTTPOptions{SessionIdle: time.Hour}}
		o.Dedup.Clock = l.clock
		f, s, stop := servePipes(t, o)
		defer stop()
		id := f.open("/mcp", handshake)
		status := func() int {
			s, _ := f.post("/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id", id)
			return s
		}
		l.sleep(59 * time.Minute)
		if got := status(); got != 200 {
			t.Errorf("after 59 minutes: got %d, want 200", got)
		}
		l.sleep(-8 * time.Hour) // the wall clock is set back
		if got := status(); got != 200 {
			t.Errorf("after the clock was set back: got %d, want 200", got)
		}
		l.sleep(8 * time.Hour)
		if got := status(); got != 404 {
			t.Errorf("after a night: got %d, want 404", got)
		}
		synctest.Wait()
		if n := s.Stats().Sessions; n != 0 {
			t.Errorf("%d sessions are left, want none", n)
		}
	})
}

// servePipes serves o on pipes, for use in a bubble. stop ends the server like a signal, and returns
// when it has ended.
func servePipes(t *testing.T, o proxy.Options) (f *httpClient, s *proxy.Server, stop func()) {
	t.Helper()
	s = proxy.New(o, nil)
	ln := newPipes()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.ServeListener(ctx, ln) }()
	transport := &http.Transport{DialContext: ln.dial}
	f = &httpClient{t: t, url: "http://localhost", client: &http.Client{Transport: transport}}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		s.Close()
		transport.CloseIdleConnections()
	})
	return f, s, stop
}
