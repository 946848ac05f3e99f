package proxy_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
)

const updated = "notifications/resources/updated"

// updates counts the notifications of changed resources, by URI.
func (w *wire) updates() map[string]int {
	n := make(map[string]int)
	for _, notice := range w.notices(updated) {
		uri, _ := jsonrpc.String(jsonrpc.Get([]byte(notice.params), "uri"))
		n[uri]++
	}
	return n
}

// Reading the stats does not trigger an update: a client that reads after each update would never stop.
func TestReadingTheStatsIsNoNews(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := beset(t, newFoe(nil), defaults(t, listing(t)...))
		g := d.enter()
		g.request("resources/subscribe", `{"uri":"mcpschedd://stats"}`)
		g.call("list", page(1))
		time.Sleep(time.Minute)
		if g.updates()["mcpschedd://stats"] == 0 {
			t.Fatal("a call was no news")
		}
		d.account.mu.Lock()
		before := len(d.account.all)
		d.account.mu.Unlock()
		heard := len(g.notices(updated))
		for range 10 {
			for _, uri := range []string{"mcpschedd://stats", "mcpschedd://stats/summary"} {
				if a := g.request("resources/read", `{"uri":"`+uri+`"}`); a.Error != nil {
					t.Fatalf("%s: %s", uri, a.Raw)
				}
			}
			time.Sleep(11 * time.Second)
		}
		if n := len(g.notices(updated)) - heard; n > 0 {
			t.Errorf("told %d times that the stats have changed, after reading them", n)
		}
		d.account.mu.Lock()
		defer d.account.mu.Unlock()
		if all := d.account.all[before:]; len(all) > 0 {
			t.Errorf("reading the stats made %d events, the first %+v", len(all), all[0])
		}
	})
}

// A client is notified only of the resources it subscribed to, not of one whose URI has that URI as a prefix.
// A client that sees one upstream alone is notified of none.
func TestListenersOfTheStats(t *testing.T) {
	const stats, summary = "mcpschedd://stats", "mcpschedd://stats/summary"
	for _, test := range []struct {
		name, only string
		uris, want []string
	}{
		{"the stats", "", []string{stats}, []string{stats}},
		{"the summary", "", []string{summary}, []string{summary}},
		{"both", "", []string{stats, summary}, []string{stats, summary}},
		{"twice the same", "", []string{stats, stats}, []string{stats}},
		{"what is above them", "", []string{"mcpschedd://"}, nil},
		{"where one upstream is seen alone", "foe", []string{stats, summary}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				d := beset(t, newFoe(nil), defaults(t, listing(t)...))
				watcher := d.enter() // without it no client would be notified
				watcher.request("resources/subscribe", `{"uri":"`+stats+`"}`)
				g := d.stranger(test.only)
				uris := `["` + strings.Join(test.uris, `","`) + `"]`
				listen := g.start("subscriptions/listen", withMeta(`{"notifications":{"resourceSubscriptions":`+uris+`}}`, able, ""))
				time.Sleep(10 * time.Second)
				before := g.updates()
				watcher.call("list", page(1))
				time.Sleep(10 * time.Second)
				got := g.updates()
				maps.DeleteFunc(got, func(uri string, n int) bool { return n == before[uri] })
				for _, uri := range test.want {
					if n := got[uri] - before[uri]; n < 1 || n > 2 { // for a call and for its follow-ups
						t.Errorf("told %d times of %s, want once, and of the prefetches", n, uri)
					}
					delete(got, uri)
				}
				if len(got) > 0 {
					t.Errorf("told of %v, and listens to %s", got, uris)
				}
				if watcher.updates()[stats] == 0 {
					t.Error("nobody was told, which shows nothing")
				}
				g.note("notifications/cancelled", `{"requestId":`+listen.id+`}`)
			})
		})
	}
}
