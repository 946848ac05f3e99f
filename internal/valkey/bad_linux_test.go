package valkey_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/valkey"
)

func TestBadURL(t *testing.T) {
	for url, says := range map[string]string{
		"http://host":                  "scheme",
		"valkey://":                    "host",
		"host:6379":                    "scheme",
		"valkey://host/seven":          "database",
		"valkey://host?master_set=one": "servers=",
		"valkey://a:s3cret%zz@host":    "no URL",
	} {
		_, err := valkey.New(valkey.Options{URL: url})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want an error with %q", url, err, says)
		}
	}
}

// buffer is a log that is read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A server that cannot be what it has to be is named with the reason, and nothing is shared.
func TestBadServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, tt := range map[string]struct{ url, says string }{
		"a cluster":        {startServer(t, "--cluster-enabled", "yes").addr, "Cluster"},
		"one that evicts":  {startServer(t, "--maxmemory-policy", "allkeys-lru").addr, "allkeys-lru"},
		"a wrong password": {"user:wrong@" + startServer(t, "--requirepass", "right").addr, "WRONGPASS"},
		"one that hangs":   {silent.Addr().String(), "deadline"},
		"nothing":          {"127.0.0.1:1", "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := new(buffer)
			s, err := valkey.New(valkey.Options{
				URL: "valkey://" + tt.url, Lease: shortLease, WriteSettle: shortSettle,
				Log: slog.New(slog.NewTextHandler(log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			waitUntil(t, "the log says "+tt.says, func() bool { return strings.Contains(log.String(), tt.says) })
			if _, err := s.Look(t.Context(), []call.Place{{Domain: "host"}}); err == nil {
				t.Error("it is looked at")
			}
			if _, err := s.Announce(t.Context(), []call.Place{{Domain: "host"}}, func(error) {}); err == nil {
				t.Error("a write is announced there")
			}
			if strings.Contains(log.String(), "wrong@") {
				t.Errorf("the log has the password: %s", log)
			}
		})
	}
}

// What another program has put where ours stands, and values that were cut short, are misses.
func TestBadValues(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	s, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: shortLease, WriteSettle: shortSettle})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	places := []call.Place{{Domain: "host"}}
	var tokens []string
	waitUntil(t, "a token", func() bool {
		tokens, err = s.Look(t.Context(), places)
		return err == nil && tokens[0] != ""
	})
	body := []byte(strings.Repeat("body ", 100))
	_, keep := s.Lead(t.Context(), "key", tokens, func() {})
	keep(&dedup.Kept{Body: body, Lasts: dayLong})
	kept := func() *dedup.Kept {
		found, keep := s.Lead(t.Context(), "key", tokens, func() {})
		if keep != nil {
			keep(nil)
		}
		return found
	}
	waitUntil(t, "the answer", func() bool { k := kept(); return k != nil && bytes.Equal(k.Body, body) })
	if found, keep := s.Lead(t.Context(), "key", []string{"another"}, func() {}); found != nil {
		t.Error("an answer is found under other tokens")
	} else {
		keep(nil)
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:a:*')) do redis.call('SETRANGE', k, 100, 'xxxx') end return 1", "0")
	if kept() != nil {
		t.Error("an answer that was overwritten is found")
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:a:*')) do redis.call('SET', k, string.sub(redis.call('GET', k), 1, 60)) end return 1", "0")
	if kept() != nil {
		t.Error("an answer that was cut short is found")
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:p:*')) do redis.call('DEL', k) redis.call('SET', k, 'other') end return 1", "0")
	if tokens, err := s.Look(t.Context(), places); err == nil {
		t.Errorf("a place that another program has overwritten: got tokens %q", tokens)
	}
	at.command(t, "FLUSHALL")
	if tokens, err := s.Look(context.Background(), places); err == nil {
		t.Errorf("a server that was emptied: got tokens %q", tokens)
	}
}
