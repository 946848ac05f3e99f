package valkey_test

import (
	"strings"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/valkey"
)

// TestRenewInAnotherHistory: when another history begins, the next renewal announces a pending write
// there, as lookups do not read the marks of the old one.
func TestRenewInAnotherHistory(t *testing.T) {
	t.Parallel()
	at := startServer(t, "--enable-debug-command", "yes")
	write := announced(t, slowStore(t, at), "host", func(error) {})
	defer write.End()
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:open')) do redis.call('DEL', k) end return 1", "0")
	at.command(t, "DEBUG", "CHANGE-REPL-ID")
	valkey.Renew(write)
	reply, err := at.try("EVAL", `
local open = redis.call('KEYS', '*:open')
return #open == 1 and redis.call('HLEN', string.sub(open[1], 1, -5) .. 'p:host')`, "0")
	if err != nil || strings.TrimSpace(reply) != ":2" {
		t.Errorf("got %q (%v), want the write's mark beside the token in the new history", reply, err)
	}
}

// slowStore returns a store that does not renew by itself during a test.
func slowStore(t *testing.T, at *store) *valkey.Store {
	t.Helper()
	s, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: time.Minute, WriteSettle: shortSettle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// announced announces a write to a place.
func announced(t *testing.T, s *valkey.Store, domain string, lost func(error)) (write dedup.Announcement) {
	t.Helper()
	waitUntil(t, "a write begins", func() (begun bool) {
		var err error
		write, err = s.Announce(t.Context(), []call.Place{{Domain: domain}}, lost)
		return err == nil
	})
	return write
}

// marks returns the number of fields of a place: its token and its marks.
func (s *store) marks(t *testing.T, domain string) string {
	t.Helper()
	reply, err := s.try("EVAL", "return redis.call('HLEN', redis.call('KEYS', ARGV[1])[1])", "0", "*:p:"+domain)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(reply)
}

// TestRenewOfAnEndedWrite: a renewal that began before its write ended does not announce it again.
func TestRenewOfAnEndedWrite(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	write := announced(t, slowStore(t, at), "host", func(error) {})
	write.End()
	waitUntil(t, "its mark is removed", func() bool { return at.marks(t, "host") == ":1" })
	valkey.Renew(write)
	if got := at.marks(t, "host"); got != ":1" {
		t.Errorf("got %s fields, want the token alone", got)
	}
}

// TestRenewTogether: a write counts as renewed when its own mark was, not when that of another one
// was set again later.
func TestRenewTogether(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	s := slowStore(t, at)
	lost, kept := announced(t, s, "lost", func(error) {}), announced(t, s, "kept", func(error) {})
	at.command(t, "EVAL", "return redis.call('DEL', redis.call('KEYS', '*:p:lost')[1])", "0")
	valkey.Renew(lost, kept)
	if at.marks(t, "lost") != ":2" || valkey.RenewedAt(lost).Since(valkey.RenewedAt(kept)) <= 0 {
		t.Errorf("got %v and %v, want that the lost mark was set again after the other was renewed", valkey.RenewedAt(lost), valkey.RenewedAt(kept))
	}
}

// TestRenewOfAGivenUpWrite: a renewal whose reply comes after the request was given up does not count,
// and the request is given up once. Its mark stays until the write has ended.
func TestRenewOfAGivenUpWrite(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	lost := 0
	write := announced(t, slowStore(t, at), "host", func(error) { lost++ })
	valkey.GiveUp(write)
	before := valkey.RenewedAt(write)
	valkey.Renew(write)
	if valkey.RenewedAt(write) != before || write.Fence() == nil {
		t.Error("the request was renewed after it had been given up")
	}
	valkey.GiveUp(write)
	if got := at.marks(t, "host"); got != ":2" || lost != 1 {
		t.Errorf("got %s fields and %d calls of lost, want the mark beside the token, and one", got, lost)
	}
	write.End()
	waitUntil(t, "its mark is removed", func() bool { return at.marks(t, "host") == ":1" })
}

// TestConfirmedBeforeSleep: a confirmation from before the machine slept is too old, although the monotonic
// clock stood still meanwhile.
func TestConfirmedBeforeSleep(t *testing.T) {
	for _, tt := range []struct {
		monotonic, wall time.Duration
		want            bool
	}{{time.Second, time.Second, true}, {2 * time.Second, time.Second, false}, {time.Second, 10 * time.Minute, false}} {
		if got := valkey.Confirmed(8*time.Second, tt.monotonic, tt.wall); got != tt.want {
			t.Errorf("%v later, %v by the wall clock: got %t, want %t", tt.monotonic, tt.wall, got, tt.want)
		}
	}
}

// TestFailedAnnounce: a write that could not be announced leaves no mark, which would cause misses.
func TestFailedAnnounce(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	s, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr + "?servers=2", Lease: longLease, WriteSettle: shortSettle}) // no majority confirms it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Announce(t.Context(), []call.Place{{Domain: "host"}}, func(error) {}); err == nil {
		t.Fatal("it was announced")
	}
	waitUntil(t, "its mark is removed", func() bool { return at.marks(t, "host") == ":1" })
}

// TestEndBeforeGivenUp: a request is not given up after its write has ended.
func TestEndBeforeGivenUp(t *testing.T) {
	t.Parallel()
	write := announced(t, slowStore(t, startServer(t)), "host", func(error) { t.Error("it was given up") })
	write.End()
	valkey.GiveUp(write)
}

// TestCloseAfterEnd: a replica that stops just after its writes have ended leaves no mark, which would
// cause misses at the others.
func TestCloseAfterEnd(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	s := slowStore(t, at)
	var all []dedup.Announcement
	for range 2000 {
		all = append(all, announced(t, s, "host", func(error) {}))
	}
	for _, write := range all {
		write.End()
	}
	s.Close()
	if got := at.marks(t, "host"); got != ":1" {
		t.Errorf("got %s fields, want the token alone", got)
	}
}
