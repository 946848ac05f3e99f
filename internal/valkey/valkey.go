// Package valkey lets replicas of the proxy share state through a Valkey or Redis server:
// which places have changed, which writes are pending, answers, and limits of hosts.
//
// Everything is read from the primary, at every lookup. Each round trip also checks the
// primary's history (its replication id, which changes with every failover and restart), and
// whether that history is old enough to be trusted. A place is a hash. Its field t is a random
// token that each write replaces. Each pending write has a field of its own, the write's mark,
// with the time on the server's clock at which it expires. A missing token means a miss.
//
//	mcpschedd:HISTORY:open       when the first replica saw this history, ms on the server's clock
//	mcpschedd:HISTORY:p:PLACE    a hash: t → token, WRITE → expiry, ms
//	mcpschedd:HISTORY:a:KEY      an answer, with a TTL
//	mcpschedd:HISTORY:f:KEY      the replica that fetches it, with a TTL
//	mcpschedd:confirm:REPLICA    the value this replica last wrote to confirm the primary
//	mcpschedd:HISTORY:l:HOST     the token bucket of a host: time of its last update, ms, and its tokens then
//	mcpschedd:HISTORY:h:HOST     the prefetches of a host in the last hour, as minute:number
//	mcpschedd:replicas           replicas by the time they were last counted, ms
//	mcpschedd:back               when a replica came back that had been absent, ms
//	mcpschedd:figures:REPLICA    what a replica has published, with a TTL
//	mcpschedd:kept:NAME          state that the replicas update together, with a TTL
//	mcpschedd:probe:REPLICA      nothing: commands are tried on it
//
// The keys of earlier histories that have no TTL are deleted when a new one begins. The channel
// mcpschedd:notices announces ends of fetches, and mcpschedd:refusals hosts that answered 429.
package valkey

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"mcpschedd/internal/nearest"
)

// Options configure a Store.
type Options struct {
	URL         string        // valkey://, valkeys://, redis:// or rediss://
	WriteSettle time.Duration // how long a request may still land after it was given up; the same at all replicas
	Lease       time.Duration // how long a write stays announced without renewal; the same at all replicas; 0 means 10 s
	Log         *slog.Logger
}

const (
	prefix      = "mcpschedd:"
	retryDelay  = 250 * time.Millisecond
	dialTimeout = time.Second // limit of connecting
)

// Store is one replica's connection to the server. It implements dedup.Peers. It has more
// than 25 methods because tokens, writes, answers and the confirmation depend on the same
// connection and history.
type Store struct {
	options  Options
	client   rueidis.ClientOption
	id       string // of this replica; prefix of its writes' names
	writes   atomic.Uint64
	inFlight atomic.Int32 // round trips in progress

	conn     atomic.Pointer[rueidis.Client] // nil before the first connection
	history  atomic.Pointer[string]         // key prefix; "" if not known
	down     atomic.Bool                    // the server did not reply or cannot be used, and stayConnected is retrying
	unusable atomic.Pointer[string]         // why stayConnected last failed, which is logged once; "" if it did not
	ctx      context.Context                // of background work
	stop     context.CancelFunc
	running  sync.WaitGroup

	onLimited atomic.Pointer[func(host string, retryAfter time.Duration)] // called with hosts that answered 429 to another replica; nil for none

	confirmation confirmation // used if a standby may be promoted

	mu         sync.Mutex
	openWrites map[*announcement]struct{} // announced and not ended
	fetchEnded map[string]chan struct{}   // key → closed when another replica's fetch of it has ended
}

// errDown means that the server is not reachable, so no request is sent to it.
var errDown = errors.New("the replicas' store is unreachable")

// New returns the store and connects in the background. While the server is not reachable
// the replica works without it. The error is one of the URL.
func New(o Options) (*Store, error) {
	client, servers, err := clientOption(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Lease == 0 {
		o.Lease = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{options: o, client: client, id: rand.Text(), openWrites: make(map[*announcement]struct{}), fetchEnded: make(map[string]chan struct{})}
	s.confirmation.servers = servers
	s.history.Store(new(string))
	s.unusable.Store(new(string))
	s.confirmation.failed.Store(new(string))
	s.down.Store(true)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.stayConnected()
	s.every(o.Lease/4, s.renewAll)
	if servers > 0 {
		s.keepConfirming()
	}
	return s, nil
}

// every calls do in the background, now and at each interval, until the store is closed.
func (s *Store) every(interval time.Duration, do func()) {
	s.running.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			do()
			select {
			case <-s.ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Close stops the background work and closes the connections. Ends of writes are still sent.
func (s *Store) Close() {
	s.mu.Lock()
	s.stop() // locked, so that End starts no goroutine once running is waited for
	s.mu.Unlock()
	s.running.Wait()
	if !s.down.Load() {
		s.leave()
	}
	if conn := s.conn.Load(); conn != nil {
		(*conn).Close()
	}
}

// CheckURL returns the error that [New] returns for a URL. It connects to nothing.
func CheckURL(url string) error {
	_, _, err := clientOption(url)
	return err
}

// errNoURL does not have the text, which may hold a password.
var errNoURL = errors.New("not a URL: in a password, write / as %2F, @ as %40, ? as %3F and # as %23")

// parameters are those of a URL that take effect. Of the others that [rueidis.ParseURL] reads, clientOption
// sets the values.
var parameters = []string{"addr", "db", "master_set", "protocol", "sentinel_password", "sentinel_username", "servers", "skip_verify"}

// clientOption parses a URL. servers is the number of servers if a standby may be promoted,
// else 0.
func clientOption(text string) (o rueidis.ClientOption, servers int, err error) {
	u, err := url.Parse(text)
	if err != nil || strings.Contains(u.Path+u.Fragment, "@") {
		return o, 0, errNoURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return o, 0, errNoURL
	}
	for _, key := range slices.Sorted(maps.Keys(query)) {
		switch {
		case slices.Contains(parameters, key):
		case strings.Contains(u.RawQuery, "@"): // the key may be the end of a password
			return o, 0, errNoURL
		default:
			return o, 0, fmt.Errorf("unknown parameter %q%s", key, nearest.Question(key, parameters))
		}
	}
	switch u.Scheme {
	case "valkey", "valkeys", "redis", "rediss":
	default:
		return o, 0, fmt.Errorf("scheme %q: expected valkey, valkeys, redis or rediss", u.Scheme)
	}
	if o, err = rueidis.ParseURL(text); err != nil {
		return o, 0, err
	}
	if u.Host == "" {
		return o, 0, errors.New("missing host")
	}
	if n := query.Get("servers"); n != "" || o.Sentinel.MasterSet != "" {
		if servers, err = strconv.Atoi(n); err != nil || servers < 2 {
			return o, 0, fmt.Errorf("servers=%s: expected how many servers there are, the primary and its standbys, such as 3", n)
		}
	}
	if o.Sentinel.MasterSet != "" {
		if o.TLSConfig != nil {
			o.TLSConfig.ServerName = "" // verify each server by the address dialed, not the first Sentinel's
		}
		o.Sentinel.Username, o.Sentinel.Password = query.Get("sentinel_username"), query.Get("sentinel_password")
		o.Sentinel.Dialer.Timeout, o.Sentinel.TLSConfig = dialTimeout, o.TLSConfig
		o.Sentinel.TopologyRefreshInterval = time.Second // Sentinel's notifications may be lost
	}
	o.ForceSingleClient = o.Sentinel.MasterSet == "" // checkServer refuses a Cluster
	o.DisableCache, o.DisableRetry = true, true      // read only from the primary, and only current values
	o.PipelineMultiplex = -1                         // one connection for concurrent requests
	o.Dialer.Timeout, o.ConnWriteTimeout = dialTimeout, dialTimeout
	o.ReadBufferEachConn, o.WriteBufferEachConn = 64<<10, 64<<10
	o.ClientName = "mcpschedd"
	return o, servers, nil
}

// stayConnected connects in the background, and retries while the server does not reply.
func (s *Store) stayConnected() {
	s.every(retryDelay, func() {
		if !s.down.Load() {
			return
		}
		err := s.connect(s.ctx)
		switch {
		case err == nil:
			s.down.Store(false)
			s.unusable.Store(new(string))
			s.options.Log.Info("the replicas share their store", "at", s.address())
		case s.ctx.Err() == nil && err.Error() != *s.unusable.Load():
			s.unusable.Store(new(err.Error()))
			s.options.Log.Warn("the replicas' store cannot be used: no answer is stored, and no write is sent", "at", s.address(), "err", err)
		}
	})
}

// Problem returns why the server cannot be used now, or "".
func (s *Store) Problem() string { return cmp.Or(*s.unusable.Load(), *s.confirmation.failed.Load()) }

// address is the server's address for log messages.
func (s *Store) address() string { return strings.Join(s.client.InitAddress, ", ") }

// connect connects if there is no connection yet, and checks that the server can be used.
func (s *Store) connect(ctx context.Context) error {
	if s.conn.Load() == nil {
		conn, err := rueidis.NewClient(s.client)
		if err != nil {
			return err
		}
		s.conn.Store(&conn)
		s.running.Go(func() { s.subscribe(ctx, conn) })
	}
	_, err := s.roundTrip(ctx)
	if errors.Is(err, errHistory) || errors.Is(err, errUnconfirmed) { // the server replies
		return nil
	}
	return err
}

// checkServer checks that the server meets the assumptions of this package. It runs when a
// history is first met, so for each new primary.
func (s *Store) checkServer(ctx context.Context, conn rueidis.Client) error {
	text, err := conn.Do(ctx, conn.B().Info().Build()).ToString()
	if err != nil {
		return err
	}
	version := infoField(text, "redis_version") // Valkey reports the Redis version it is compatible with
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	switch policy := infoField(text, "maxmemory_policy"); {
	case n < minVersion:
		return fmt.Errorf("it is version %s: expected Valkey, or Redis %d or later", cmp.Or(version, "unknown"), minVersion)
	case infoField(text, "cluster_enabled") == "1":
		return errors.New("it is a Cluster, whose slots move from server to server without notice: use a single primary")
	case strings.HasPrefix(policy, "allkeys-"):
		return fmt.Errorf("maxmemory-policy is %s, which may evict what says that an answer is out of date: set noeviction or volatile-lru", policy)
	}
	probe := conn.B().Eval().Script(probeScript).Numkeys(1).Key(prefix + "probe:" + s.id).Arg(fetchEndChannel).Build()
	if err := conn.Do(ctx, probe).Error(); err != nil {
		return fmt.Errorf("it rejects a command that replicas need: %w", err)
	}
	return nil
}

const minVersion = 6 // the first with ACL users, and with RESP3 replies that distinguish maps from lists

// probeScript runs each command of the other scripts, as the server or its user may lack one.
const probeScript = `
local k = KEYS[1]
for _, c in ipairs({
	{'TIME'}, {'HSETNX', k, 't', '1'}, {'HSET', k, 'w', '1'}, {'HEXISTS', k, 'w'}, {'HGETALL', k}, {'HDEL', k, 'w'}, {'DEL', k},
	{'SET', k, '1', 'NX', 'PX', '1'}, {'GET', k}, {'PTTL', k}, {'DEL', k}, {'PUBLISH', ARGV[1], ''},
	{'ZADD', k, 1, 'a'}, {'ZREMRANGEBYSCORE', k, '-inf', 0}, {'ZCARD', k}, {'ZRANGE', k, 0, -1}, {'DEL', k}
}) do
	local r = redis.pcall(unpack(c))
	if type(r) == 'table' and r.err then return redis.error_reply(c[1] .. ': ' .. r.err) end
end
return 1`

// infoField returns a field of INFO's reply; "" if it is missing.
func infoField(text, name string) string {
	_, rest, ok := strings.Cut(text, "\n"+name+":")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r")
	return value
}
