package valkey_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/valkey"
)

// shared starts the shared state of one more replica, and returns when the server is reachable.
func shared(t *testing.T, url string) *valkey.Store {
	t.Helper()
	s, err := valkey.New(valkey.Options{URL: url, Lease: longLease, WriteSettle: shortSettle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	relied(t, s)
	return s
}

// relied returns when the store trusts its history.
func relied(t *testing.T, s *valkey.Store) {
	t.Helper()
	var last error
	defer func() {
		if t.Failed() {
			t.Log("the last lookup:", last)
		}
	}()
	waitUntil(t, "a token", func() bool {
		tokens, err := s.Lookup(t.Context(), []call.Place{{Domain: "host"}})
		last = err
		return err == nil && tokens[0] != ""
	})
}

// TestUpdate: no concurrent update is lost.
func TestUpdate(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	cable := newCable(t, at.addr)
	a, b := shared(t, "valkey://"+at.addr), shared(t, "valkey://"+cable.addr())
	add := func(old []byte) ([]byte, error) {
		n, _ := strconv.Atoi(string(old))
		return strconv.AppendInt(nil, int64(n+1), 10), nil
	}
	const each = 30
	var wait sync.WaitGroup
	for _, s := range []*valkey.Store{a, b} {
		wait.Go(func() {
			for done := 0; done < each; { // an update fails if another replica was faster each time; then it is repeated
				if s.Update(t.Context(), "n", add) == nil {
					done++
				}
			}
		})
	}
	wait.Wait()
	refuse := errors.New("left as it is")
	got := ""
	err := a.Update(t.Context(), "n", func(old []byte) ([]byte, error) { got = string(old); return []byte("lost"), refuse })
	if !errors.Is(err, refuse) || got != strconv.Itoa(2*each) {
		t.Errorf("got %q (%v), want %d", got, err, 2*each)
	}
	if err := a.Update(t.Context(), "n", func(old []byte) ([]byte, error) { got = string(old); return make([]byte, 20<<20), nil }); err == nil || got == "lost" {
		t.Errorf("a text that is too long: got %v, after %q", err, got)
	}
	cable.setCut(true)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Update(ctx, "n", add); err == nil {
		t.Error("a partitioned replica: got no error")
	}
}

// TestRefusedAtOne: after a 429 at one replica, no replica prefetches from the host.
func TestRefusedAtOne(t *testing.T) {
	t.Parallel()
	store, v := startServer(t), newService(t)
	a, b := newGateway(t, v, store.addr), newGateway(t, v, store.addr)
	a.sharing(v)
	b.sharing(v)
	cools := func(g *gateway) bool {
		for _, h := range g.s.Report().Hosts {
			if h.CoolingMS > 0 {
				return true
			}
		}
		return false
	}
	if cools(a) || cools(b) {
		t.Fatal("prefetches are declined before a 429")
	}
	if _, err := a.call("busy", 0); err == nil {
		t.Fatal("got no 429")
	}
	waitUntil(t, "both leave the host alone", func() bool { return cools(a) && cools(b) })
	var times int64
	for _, g := range []*gateway{a, b} {
		for _, h := range g.s.Report().Hosts {
			times += h.Limited
		}
	}
	if times != 1 {
		t.Errorf("the 429 is counted %d times, want once", times)
	}
}

// TestOldHistories: the keys of earlier histories are deleted, and no others.
func TestOldHistories(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func() (at *store, url string){
		"one server": func() (*store, string) { at := startServer(t); return at, "valkey://" + at.addr },
		"three":      func() (*store, string) { g := startGroup(t); return g[0], "valkey://" + g[0].addr + "?servers=3" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, url := start()
			deletesOldHistories(t, at, url)
		})
	}
}

// TestAwaited: a replica that got another one's answer waits for nothing more.
func TestAwaited(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	a, b := shared(t, "valkey://"+at.addr), shared(t, "valkey://"+at.addr)
	tokens := []string{"token"}
	_, keep := a.Lead(t.Context(), "key", tokens, func() {})
	if keep == nil {
		t.Fatal("it does not fetch")
	}
	waits := 0
	found, _ := b.Lead(t.Context(), "key", tokens, func() {
		waits++
		keep(&dedup.SharedAnswer{Body: []byte("body"), MaxAge: dayLong})
	})
	waitUntil(t, "its wait ends", func() bool { return valkey.Awaited(b) == 0 })
	if found == nil || waits != 1 {
		t.Errorf("got %v after %d waits, want the answer after one", found, waits)
	}
}

// TestLeadGivenUp: a client that gives its call up leaves no fetch for which the other replicas would wait.
func TestLeadGivenUp(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	s := shared(t, "valkey://"+at.addr)
	at.signal(syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	time.AfterFunc(100*time.Millisecond, func() { at.signal(syscall.SIGCONT) })
	if _, keep := s.Lead(ctx, "key", []string{"token"}, func() {}); keep != nil {
		keep(nil)
	}
	relied(t, s)
	waitUntil(t, "nothing is fetched", func() bool { // what is left lasts for ever
		reply, err := at.try("EVAL", "local all = redis.call('KEYS', '*:f:*') for _, key in ipairs(all) do redis.call('PERSIST', key) end return #all", "0")
		return err == nil && strings.TrimSpace(reply) == ":0"
	})
}

// deletesOldHistories checks that a new replica deletes the keys of earlier histories.
func deletesOldHistories(t *testing.T, at *store, url string) {
	t.Helper()
	gone := []string{"mcpschedd:0123:p:host", "mcpschedd:0123:l:host", "mcpschedd:0123:h:host", "mcpschedd:0123-1-1:p:/1f", "mcpschedd:0123:open"}
	stay := []string{"mcpschedd:0123:a:key", "mcpschedd:kept:p:host:x", "other:0123:p:host", "other:0123:open"}
	for _, key := range append(gone, stay...) {
		at.command(t, "SET", key, "x")
	}
	shared(t, url)
	exists := func(pattern string) bool {
		reply, err := at.try("EVAL", "return #redis.call('KEYS', ARGV[1])", "0", pattern)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(reply) != ":0"
	}
	for _, key := range gone {
		waitUntil(t, key+" is gone", func() bool { return !exists(key) })
	}
	for _, key := range append(stay, "mcpschedd:*:open", "mcpschedd:*:p:host") {
		if !exists(key) {
			t.Errorf("%s is gone", key)
		}
	}
	time.Sleep(longLease)
	if !exists("mcpschedd:*:p:host") {
		t.Error("a key of the current history was deleted")
	}
}

// TestPrefetchOfNewPlaces: a prefetch is made of what no replica has looked up yet, and again after a write of
// another replica has ended, and serves the next call.
func TestPrefetchOfNewPlaces(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	peers := shared(t, "valkey://"+at.addr)
	s := dedup.New(dedup.Options{MaxBytes: 1 << 20, Peers: peers})
	t.Cleanup(s.Close)
	q := dedup.Query{Places: []call.Place{{Domain: "new"}, {Slot: 7}}, Reuse: dedup.Reuse{MaxAge: time.Hour}}
	fetch := func(_ context.Context, f *dedup.Flight) { f.Finish([]byte("answer"), false, true) }
	begins := func() bool { _, why := s.Prefetch(t.Context(), q, fetch); return why == "" }
	if !begins() {
		t.Error("a prefetch of new places is refused")
	}
	write, err := peers.Announce(t.Context(), q.Places[:1], func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	if begins() {
		t.Error("a prefetch is made during a write")
	}
	write.End()
	waitUntil(t, "the write has ended", begins)
	var got dedup.Outcome
	s.Do(t.Context(), q, &dedup.Waiter{Done: func(o dedup.Outcome) { got = o }}, fetch)
	if got.How != dedup.Hit {
		t.Errorf("the call is %s, want a hit", got.How)
	}
}
