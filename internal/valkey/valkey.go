// Package valkey lets several replicas of the proxy share what their stores know, through a
// Valkey or Redis server: which places have changed, which writes are pending, and answers.
//
// All of it is read from the primary, at every lookup, and each lookup reads which history the
// primary belongs to (its replication id, which changes with every failover and restart) and
// whether that history has lasted long enough. A place is a hash: t, a random token that each
// write replaces, and for each pending write a member with the time, on the server's clock,
// until which it is to be reckoned with. What is absent is not known, and means a miss.
//
//	mcpschedd:HISTORY:open       when the first replica saw this history, ms on the server's clock
//	mcpschedd:HISTORY:p:PLACE    a hash: t → token, WRITE → until, ms
//	mcpschedd:HISTORY:a:KEY      an answer; it expires by itself
//	mcpschedd:HISTORY:f:KEY      the replica that fetches it; likewise
//	mcpschedd:confirm:REPLICA    what this replica wrote last to have the primary confirmed
//	mcpschedd:HISTORY:l:HOST     the bucket of a host: when it was looked at, ms, and its tokens then
//	mcpschedd:HISTORY:h:HOST     the prefetches of a host: minute:number, those of the last hour
//	mcpschedd:replicas           those that were there of late, by when, ms
//	mcpschedd:back               when one of them came back that had been lost, ms
//	mcpschedd:figures:REPLICA    what it has published; likewise
//	mcpschedd:kept:NAME          what the replicas keep together
//
// What an earlier history has left is taken away when the next one begins.
package valkey

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// Options are how a server is used.
type Options struct {
	URL         string        // valkey://, valkeys://, redis:// or rediss://
	WriteSettle time.Duration // how long after the request was given up a write may still land; the same at all replicas
	Lease       time.Duration // how long a write stays announced by itself; the same at all replicas; 0: 10 s
	Log         *slog.Logger
}

// DefaultLease is that of Options.
const DefaultLease = 10 * time.Second

const (
	prefix      = "mcpschedd:"
	retryDelay  = 250 * time.Millisecond
	dialTimeout = time.Second // how long connecting may take
)

// Store is the server as one replica knows it. It implements dedup.Peers. It has more than 25
// methods because tokens, writes, answers and the confirmation stand and fall with one connection
// and one history.
type Store struct {
	options  Options
	client   rueidis.ClientOption
	id       string // of this replica: names its writes
	writes   atomic.Uint64
	inFlight atomic.Int32 // exchanges under way

	conn    atomic.Pointer[rueidis.Client] // nil: there is none yet
	history atomic.Pointer[string]         // what keys begin with; "": not known
	down    atomic.Bool                    // it did not answer, and is being tried again
	ctx     context.Context                // of what works in the background
	stop    context.CancelFunc
	running sync.WaitGroup

	onRefused atomic.Pointer[func(host string, retryAfter time.Duration)] // is told of hosts that refused another replica; nil: nothing is

	confirmation confirmation // where one server may take the place of another

	mu         sync.Mutex
	openWrites map[*announcement]struct{} // writes that have been announced and have not ended
	fetchEnded map[string]chan struct{}   // key → closed when its fetch by another replica has ended
}

// errDown says why nothing is asked of the server.
var errDown = errors.New("the store of the replicas cannot be reached")

// New returns the store, and connects to its server in the background: a replica that cannot
// reach it works without. An error is one of the URL.
func New(o Options) (*Store, error) {
	client, servers, err := clientOption(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{options: o, client: client, id: rand.Text(), openWrites: make(map[*announcement]struct{}), fetchEnded: make(map[string]chan struct{})}
	s.confirmation.servers = servers
	s.history.Store(new(string))
	s.down.Store(true)
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.running.Go(func() { s.stayConnected(s.ctx) })
	s.running.Go(func() { s.renewAll(s.ctx) })
	if servers > 0 {
		s.running.Go(func() { s.keepConfirming(s.ctx) })
	}
	return s, nil
}

// Close ends what works in the background, and the connections.
func (s *Store) Close() {
	s.stop()
	s.running.Wait()
	if !s.down.Load() {
		s.leave()
	}
	if conn := s.conn.Load(); conn != nil {
		(*conn).Close()
	}
}

// clientOption checks a URL. Where one server may take the place of another it also says how
// many there are, else 0.
func clientOption(text string) (o rueidis.ClientOption, servers int, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return o, 0, errors.New("no URL") // its text may hold a password
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
		return o, 0, errors.New("it names no host")
	}
	if n := u.Query().Get("servers"); n != "" || o.Sentinel.MasterSet != "" {
		if servers, err = strconv.Atoi(n); err != nil || servers < 2 {
			return o, 0, fmt.Errorf("servers=%s: expected how many servers there are, the primary and its standbys, such as 3", n)
		}
	}
	if o.Sentinel.MasterSet != "" {
		if o.TLSConfig != nil {
			o.TLSConfig.ServerName = "" // each server is to be the one that it is reached as, and not the first Sentinel
		}
		o.Sentinel.Username, o.Sentinel.Password = u.Query().Get("sentinel_username"), u.Query().Get("sentinel_password")
		o.Sentinel.Dialer.Timeout, o.Sentinel.TLSConfig = dialTimeout, o.TLSConfig
		o.Sentinel.TopologyRefreshInterval = time.Second // what Sentinel publishes may be missed
	}
	o.ForceSingleClient = o.Sentinel.MasterSet == "" // a Cluster is refused by what it says of itself
	o.DisableCache, o.DisableRetry = true, true      // nothing is read but from the primary, now
	o.PipelineMultiplex = -1                         // one connection for all that ask at once
	o.Dialer.Timeout, o.ConnWriteTimeout = dialTimeout, dialTimeout
	o.ReadBufferEachConn, o.WriteBufferEachConn = 64<<10, 64<<10
	o.ClientName = "mcpschedd"
	return o, servers, nil
}

// stayConnected connects, and while the server does not answer tries again.
func (s *Store) stayConnected(ctx context.Context) {
	tick := time.NewTicker(retryDelay)
	defer tick.Stop()
	for said := ""; ; { // what was wrong is said once
		if s.down.Load() {
			err := s.connect(ctx)
			switch {
			case err == nil:
				s.down.Store(false)
				said = ""
				s.options.Log.Info("the replicas share their store", "at", s.address())
			case ctx.Err() == nil && err.Error() != said:
				said = err.Error()
				s.options.Log.Warn("the store of the replicas cannot be used: nothing is stored, and no write is sent", "at", s.address(), "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// address is what messages name the server by.
func (s *Store) address() string { return strings.Join(s.client.InitAddress, ", ") }

// try connects, if there is no connection yet, and sees whether the server can be used.
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
	if errors.Is(err, errHistory) || errors.Is(err, errUnconfirmed) { // it answers
		return nil
	}
	return err
}

// suits checks that the server is one that what is said here holds for. Each primary is asked
// when its history is first met.
func (s *Store) checkServer(ctx context.Context, conn rueidis.Client) error {
	text, err := conn.Do(ctx, conn.B().Info().Build()).ToString()
	if err != nil {
		return err
	}
	version := infoField(text, "redis_version") // Valkey says which it is compatible with
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
		return fmt.Errorf("it does not run what replicas need: %w", err)
	}
	return nil
}

const minVersion = 6 // the first version with users, and with replies that tell a map from a list

// probeScript runs the commands of all other scripts, which a server may lack, or its user.
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

// infoField is the value of a field in what INFO says; "" if it is not there.
func infoField(text, name string) string {
	_, rest, ok := strings.Cut(text, "\n"+name+":")
	if !ok {
		return ""
	}
	value, _, _ := strings.Cut(rest, "\r")
	return value
}
