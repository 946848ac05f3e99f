package proxy_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/record"
)

// of returns the recorded events of a kind so far.
func (a *account) of(kind record.Kind) (all []record.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.all {
		if e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// told returns the events of a kind when all work is done.
func (d *ordeal) told(kind record.Kind) []record.Event {
	synctest.Wait()
	d.proxy.Report() // records everything outstanding
	return d.account.of(kind)
}

// Clients and servers choose names, so names are truncated in the record, and never within a
// character.
func TestNamesAreCutInTheRecord(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		long := "x" + strings.Repeat("é", 200) // byte 128 is within a character
		d := beset(t, newFoe(nil, `{"name":"`+long+`","inputSchema":{"type":"object"}}`), defaults(t))
		g := d.stranger("")
		made := "x" + strings.Repeat("é", 1<<19)
		g.request("initialize", `{"protocolVersion":"`+handshake+`","capabilities":{},"clientInfo":{"name":"`+made+`","version":"1"}}`)
		g.note("notifications/initialized", "{}")
		g.request("tools/list", "{}")
		if a := g.call(long, "{}"); a.how() != "fetched" {
			t.Errorf("got %s", a.Raw)
		}
		if a := g.request("tools/call", `{"name":"`+made+`","Name":""}`); a.how() != "failed" {
			t.Errorf("got %s", a.Raw)
		}
		cut := func(what, name string) {
			if len(name) > 128 || len(name) < 120 || !strings.HasPrefix(made, name) || !utf8.ValidString(name) {
				t.Errorf("%s: %d bytes are recorded: %.140q", what, len(name), name)
			}
		}
		calls := d.told(record.Call)
		if len(calls) != 2 {
			t.Fatalf("got %d calls, want 2", len(calls))
		}
		cut("a tool of the server's", calls[0].Tool)
		cut("a tool of nobody's", calls[1].Tool) // refused
		for _, e := range d.told(record.Session) {
			cut("the client", e.Client)
		}
	})
}

// A tools/call that is refused before an upstream is asked is recorded as one failed call.
func TestRefusedCallsAreRecorded(t *testing.T) {
	for _, test := range []struct{ name, line, tool string }{
		{"an id that is in use", `{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"get","arguments":{}}}`, "get"},
		{"no name", `{"jsonrpc":"2.0","id":901,"method":"tools/call","params":{"arguments":{"page":1}}}`, ""},
		{"a name that is no string", `{"jsonrpc":"2.0","id":902,"method":"tools/call","params":{"name":5}}`, ""},
		{"two names", `{"jsonrpc":"2.0","id":903,"method":"tools/call","params":{"name":"get","Name":"list"}}`, "get"},
		{"a tool that nobody may call", `{"jsonrpc":"2.0","id":904,"method":"tools/call","params":{"name":"write"}}`, "write"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := defaults(t, listing(t)...)
				o.Upstreams[0].Allows = func(tool string) bool { return tool != "write" }
				d := beset(t, newFoe(func(v *visit) reply {
					v.sleeps(time.Second)
					return reply{result: v.told()}
				}), o)
				g := d.enter()
				d.account.asked.Add(2)
				g.send(`{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"list","arguments":{"page":1}}}`)
				g.send(test.line)
				synctest.Wait()
				calls := d.told(record.Call)
				if len(calls) != 1 {
					t.Fatalf("got %d calls while the first is under way, want the other one: %+v", len(calls), calls)
				}
				if e := calls[0]; e.Disposition != record.Failed || e.Error != "refused" || e.Tool != test.tool || e.Sent != 0 {
					t.Errorf("got %+v, want %q failed, as it was refused", e, test.tool)
				}
				time.Sleep(2 * time.Second)
				calls = d.told(record.Call)
				if len(calls) != 2 || calls[1].Tool != "list" || calls[1].Disposition != record.Fetched {
					t.Errorf("got %+v, want that list was fetched after it", calls)
				}
				if calls[0].Seq == calls[1].Seq {
					t.Error("both have the same number")
				}
			})
		})
	}
}

// While calls come, the state of hosts is part of the process's status, whether or not there are
// prefetches.
func TestHostsAreToldWithoutEnrichment(t *testing.T) {
	for _, mode := range []string{"off", "on"} {
		t.Run(mode, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				o := defaults(t, listing(t)...)
				o.Enrichment.Mode, o.Record.Dir = mode, t.TempDir()
				d := beset(t, newFoe(nil), o)
				g := d.enter()
				for range 20 {
					g.call("list", page(1))
					time.Sleep(time.Second)
				}
				all := record.ReadStatuses(o.Record.Dir)
				if len(all) != 1 || !slices.ContainsFunc(all[0].Hosts, func(h record.Host) bool { return h.Host == host }) {
					t.Errorf("got %+v, want one with %s", all, host)
				}
			})
		})
	}
}
