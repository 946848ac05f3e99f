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
	const slow = 8 * time.Second // so that the next renewal is two seconds away
	s, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: slow, WriteSettle: shortSettle})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	var write dedup.Announcement
	waitUntil(t, "a write begins", func() bool {
		write, err = s.Announce(t.Context(), []call.Place{{Domain: "host"}}, func(error) {})
		return err == nil
	})
	defer write.End()
	count := func(pattern string) string {
		reply, err := at.try("EVAL", "return #redis.call('KEYS', ARGV[1])", "0", pattern)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(reply)
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:open')) do redis.call('DEL', k) end return 1", "0")
	at.command(t, "DEBUG", "CHANGE-REPL-ID")
	waitUntil(t, "the new history is met", func() bool { return count("*:open") == ":1" })
	met := time.Now()
	waitUntil(t, "the write stands there", func() bool {
		reply, err := at.try("EVAL", `
local open = redis.call('KEYS', '*:open')[1]
return redis.call('HLEN', string.sub(open, 1, -5) .. 'p:host')`, "0")
		return err == nil && strings.TrimSpace(reply) == ":2"
	})
	if took := time.Since(met); took > slow/8 {
		t.Errorf("it took %v, want less than a renewal interval", took)
	}
}
