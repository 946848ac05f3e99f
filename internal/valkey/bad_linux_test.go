package valkey_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

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
		"valkey://a:s3cret%zz@host":    "not a URL",
		"valkey://a:12/s3cret@host":    "write / as %2F",
		"valkey://a:12?s3cret@host":    "write / as %2F",
		"valkey://a:12?s3cret=&b@host": "write / as %2F",
		"valkey://a:12#s3cret@host":    "write / as %2F",
		"valkey://host?server=3":       `unknown parameter "server"; did you mean "servers"?`,
		"valkey://host?master-set=one": `did you mean "master_set"?`,
		"valkey://host?foo=1":          `unknown parameter "foo"`,
		"valkey://host?servers=3%":     "not a URL",
	} {
		_, err := valkey.New(valkey.Options{URL: url})
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want an error with %q", url, err, says)
		}
	}
}

// buffer is a log that can be read while it is written.
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

// TestBadServer: a server that does not meet the requirements is refused with the reason.
func TestBadServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, tt := range map[string]struct{ url, says string }{
		"a cluster":                 {startServer(t, "--cluster-enabled", "yes").addr, "Cluster"},
		"one that evicts":           {startServer(t, "--maxmemory-policy", "allkeys-lru").addr, "allkeys-lru"},
		"a wrong password":          {"user:wrong@" + startServer(t, "--requirepass", "right").addr, "WRONGPASS"},
		"an old one":                {startOldServer(t), "version 5.0.7"},
		"one that lacks commands":   {startServer(t, "--rename-command", "HSETNX", "").addr, "HSETNX"},
		"one that runs no scripts":  {startServer(t, "--rename-command", "EVAL", "").addr, "EVAL"},
		"a user that may do little": {"user:right@" + startServer(t, "--user", "user", "on", ">right", "~*", "&*", "+@read", "+info", "+time", "+set").addr, "NOPERM"},
		"one that hangs":            {silent.Addr().String(), "deadline"},
		"nothing":                   {"127.0.0.1:1", "refused"},
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
			defer func() {
				if t.Failed() {
					t.Logf("the log: %s", log)
				}
			}()
			waitUntil(t, "the log says "+tt.says, func() bool { return strings.Contains(log.String(), tt.says) })
			if _, err := s.Lookup(t.Context(), []call.Place{{Domain: "host"}}); err == nil {
				t.Error("a lookup on it succeeded")
			}
			if _, err := s.Announce(t.Context(), []call.Place{{Domain: "host"}}, func(error) {}); err == nil {
				t.Error("a write was announced on it")
			}
			if reply, _ := (&store{addr: tt.url}).try("DBSIZE"); strings.HasPrefix(reply, ":") && reply != ":0\r\n" {
				t.Errorf("its keys: got %q, want none", reply)
			}
			if strings.Contains(log.String(), "wrong@") {
				t.Errorf("the log has the password: %s", log)
			}
		})
	}
}

// TestConfirmedAgain: the log says that a majority of the servers is missing, and when it is there again.
func TestConfirmedAgain(t *testing.T) {
	t.Parallel()
	at, log := startServer(t), new(buffer)
	s, err := valkey.New(valkey.Options{
		URL: "valkey://" + at.addr + "?servers=2", Lease: shortLease, WriteSettle: shortSettle,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	waitUntil(t, "the log says that a standby is missing", func() bool {
		return strings.Contains(log.String(), "0 standbys have the last write: expected 1") && s.Problem() != ""
	})
	startServer(t).follow(at)
	waitUntil(t, "the log says that it is there", func() bool {
		return strings.Contains(log.String(), `level=INFO msg="the primary of the replicas' store is confirmed"`) && s.Problem() == ""
	})
}

// TestServerTurnsBad: a server that was good and still replies is not used any more, and the log says
// why, once.
func TestServerTurnsBad(t *testing.T) {
	t.Parallel()
	for says, commands := range map[string][][]string{
		"not a primary":                        {{"REPLICAOF", "127.0.0.1", "1"}},
		"command not allowed when used memory": {{"CONFIG", "SET", "maxmemory", "1"}, {"FLUSHALL"}},
		"open: ":                               {{"EVAL", "return redis.call('SET', redis.call('KEYS', '*:open')[1], 'x')", "0"}},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			at, log := startServer(t), new(buffer)
			s, err := valkey.New(valkey.Options{
				URL: "valkey://" + at.addr, Lease: shortLease, WriteSettle: shortSettle,
				Log: slog.New(slog.NewTextHandler(log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			relied(t, s)
			for _, words := range commands {
				at.command(t, words...)
			}
			if _, err := s.Announce(t.Context(), []call.Place{{Domain: "host"}}, func(error) {}); err == nil {
				t.Error("a write was announced on it")
			}
			waitUntil(t, "the log says it", func() bool { return strings.Contains(log.String(), says) && s.Problem() != "" })
			if _, err := s.Lookup(t.Context(), []call.Place{{Domain: "host"}}); err == nil {
				t.Error("a lookup on it succeeded")
			}
			time.Sleep(3 * shortLease)
			// Under load a timeout is another reason, after which the log says it again.
			timeouts := strings.Count(log.String(), context.DeadlineExceeded.Error())
			if n := strings.Count(log.String(), says); n > 1+timeouts {
				t.Errorf("the log says it %d times, and %d timeouts: %s", n, timeouts, log)
			}
		})
	}
}

// startOldServer starts a server that replies like an old version.
func startOldServer(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	info := "# Server\r\nredis_version:5.0.7\r\nrole:master\r\nmaster_replid:0123\r\ncluster_enabled:0\r\n"
	answers := map[string]string{
		"GET": "$-1\r\n", "CLIENT": "+OK\r\n", "PING": "+PONG\r\n", "TIME": "*2\r\n$1\r\n1\r\n$1\r\n0\r\n", "INFO": fmt.Sprintf("$%d\r\n%s\r\n", len(info), info),
	}
	serve := func(c net.Conn) {
		defer c.Close()
		for in := bufio.NewReader(c); ; {
			var parts, length int
			if _, err := fmt.Fscanf(in, "*%d\r\n", &parts); err != nil {
				return
			}
			var words []string
			for range parts {
				if _, err := fmt.Fscanf(in, "$%d\r\n", &length); err != nil {
					return
				}
				word := make([]byte, length+2)
				if _, err := io.ReadFull(in, word); err != nil {
					return
				}
				words = append(words, string(word[:length]))
			}
			if _, err := io.WriteString(c, cmp.Or(answers[words[0]], "-ERR unknown command '"+words[0]+"'\r\n")); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String()
}

// TestBadValues: values of other programs and truncated values are misses.
func TestBadValues(t *testing.T) {
	t.Parallel()
	at := startServer(t)
	s, err := valkey.New(valkey.Options{URL: "valkey://" + at.addr, Lease: longLease, WriteSettle: shortSettle})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	places := []call.Place{{Domain: "host"}}
	var tokens []string
	waitUntil(t, "a token", func() bool {
		tokens, err = s.Lookup(t.Context(), places)
		return err == nil && tokens[0] != ""
	})
	body := []byte(strings.Repeat("body ", 100))
	_, keep := s.Lead(t.Context(), "key", tokens, func() {})
	keep(&dedup.SharedAnswer{Body: body, MaxAge: dayLong})
	kept := func() *dedup.SharedAnswer {
		found, keep := s.Lead(t.Context(), "key", tokens, func() {})
		if keep != nil {
			keep(nil)
		}
		return found
	}
	waitUntil(t, "the answer", func() bool { k := kept(); return k != nil && bytes.Equal(k.Body, body) })
	if found, keep := s.Lead(t.Context(), "key", []string{"another"}, func() {}); found != nil {
		t.Error("an answer was found with other tokens")
	} else {
		keep(nil)
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:a:*')) do redis.call('SETRANGE', k, 100, 'xxxx') end return 1", "0")
	if kept() != nil {
		t.Error("an overwritten answer was found")
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:a:*')) do redis.call('SET', k, string.sub(redis.call('GET', k), 1, 60)) end return 1", "0")
	if kept() != nil {
		t.Error("a truncated answer was found")
	}
	at.command(t, "EVAL", "for _, k in ipairs(redis.call('KEYS', '*:p:*')) do redis.call('DEL', k) redis.call('SET', k, 'other') end return 1", "0")
	if tokens, err := s.Lookup(t.Context(), places); err == nil {
		t.Errorf("a place overwritten by another program: got tokens %q", tokens)
	}
	at.command(t, "FLUSHALL")
	if tokens, err := s.Lookup(context.Background(), places); err == nil {
		t.Errorf("after the server was emptied: got tokens %q", tokens)
	}
}
