package proxy_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"mcpschedd/internal/mcptest"
	"mcpschedd/internal/proxy"
)

// reported returns options of a server that reads this machine, for a client that reports its edits.
func reported(t *testing.T, exclusive *atomic.Bool) proxy.Options {
	t.Helper()
	o := prefetching(t, mcptest.Options{Name: "one"})
	o.Upstreams[0].Exclusive = false
	o.Dedup.Settle = time.Hour
	o.LocalExclusive, o.Common = exclusive.Load, proxy.NewCommon(o)
	return o
}

// Files of this machine are prefetched only while they are exclusive. After an edit by the client,
// no earlier answer is served.
func TestReportedChanges(t *testing.T) {
	var exclusive atomic.Bool
	o := reported(t, &exclusive)
	s := start(t, o)
	c := connect(t, s, handshake)
	served := func(n, want, when string) {
		t.Helper()
		if how := disposition(t, c.call("echo", `{"n":`+n+`}`)); how != want {
			t.Errorf("%s: got %s, want %s", when, how, want)
		}
	}
	c.call("list", `{}`)
	until(t, s, "two candidates declined", func(st proxy.Stats) bool { return st.Prefetch.Declined["unsteady"] == 2 })
	exclusive.Store(true)
	c.call("list", `{}`)
	until(t, s, "two prefetches", settled(2))
	served("11", "hit", "an exclusive folder")
	edit := o.Common.BeginLocalWrite()
	served("12", "fetched", "during an edit")
	edit.End()
	served("12", "fetched", "after an edit")
	c.call("list", `{}`)
	until(t, s, "two candidates declined just after an edit", func(st proxy.Stats) bool {
		return st.Prefetch.Issued == 2 && st.Prefetch.Declined["settling"] > 0
	})
}

// A prompt discards the prefetches for its client, and for no other.
func TestReportedPrompt(t *testing.T) {
	o := prefetching(t, mcptest.Options{Name: "one"})
	s := start(t, o)
	var clients []*caller
	var prompts []func(string)
	for range 2 {
		begun := make(chan func(string), 1)
		c := attachBy(t, handshake, func(in io.Reader, out io.Writer) error {
			return s.ServeConnected(context.Background(), in, out, proxy.Connected{Begun: func(prompted func(string)) { begun <- prompted }})
		})
		c.introduce()
		c.call("list", `{}`)
		clients, prompts = append(clients, c), append(prompts, <-begun)
	}
	until(t, s, "two prefetches of each", settled(4))
	prompts[0]("something else")
	for i, want := range []string{"fetched", "hit"} {
		if how := disposition(t, clients[i].call("echo", `{"n":11}`)); how != want {
			t.Errorf("client %d: got %s, want %s", i, how, want)
		}
	}
}
