package valkey_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/valkey"
)

const (
	lease  = time.Second
	settle = 300 * time.Millisecond
	young  = lease + settle + 1200*time.Millisecond // longer than a new history is not trusted
)

// register is one value that is read and written. Each write raises version when it lands.
type register struct {
	place   call.Place
	version atomic.Int64
}

// replica is a store and its connection to the server.
type replica struct {
	mu    sync.RWMutex // held for writing while the replica is replaced
	peers *valkey.Store
	store *dedup.Store
	url   string // of its server or Sentinel
	cable *cable // to the server; nil if it cannot be cut
}

func (r *replica) live(t *testing.T) {
	peers, err := valkey.New(valkey.Options{URL: r.url, Lease: lease, WriteSettle: settle, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.peers = peers
	r.store = dedup.New(dedup.Options{MaxBytes: 1 << 20, WriteSettle: settle, Peers: peers})
}

// die stops the replica as a crash does: its pending writes are not ended.
func (r *replica) die() {
	r.peers.Close()
	r.store.Close()
}

// arena is a server with replicas and registers.
type arena struct {
	t        *testing.T
	servers  group
	byHand   bool          // the test promotes standbys, without Sentinel
	rest     time.Duration // pause between two faults, in addition to young
	think    int           // longest pause of a worker after an operation, in milliseconds
	replicas []*replica
	world    []*register
	counts   [8]atomic.Int64
	stale    atomic.Int64
}

const (
	hits = iota
	joins
	fetches
	writes
	refused
	lost
	deaths
	cuts
)

var names = [...]string{"hits", "joined or borrowed", "fetched", "writes", "writes refused", "writes given up", "deaths", "cuts, stops and kills"}

// read reads a register at a replica, and checks that the answer is not from before the call.
func (a *arena) read(r *replica, reg *register, nth int) {
	r.mu.RLock()
	store := r.store
	r.mu.RUnlock()
	held := reg.version.Load()
	q := dedup.Query{
		Key:    call.Key{Upstream: 1, Scope: "*", Tool: "read", Arguments: fmt.Sprint(nth)},
		Places: []call.Place{reg.place}, Reuse: dedup.Reuse{Freshness: time.Minute},
	}
	if nth%2 == 0 {
		q.SharedKey = fmt.Sprint("read ", nth)
	}
	done := make(chan int64, 1)
	fetched := make(chan []byte, 1)
	w := &dedup.Waiter{Sent: func() {}, Done: func(o dedup.Outcome) {
		switch {
		case o.Err != nil || o.Refetch:
			done <- -1
		case o.How == dedup.Fetched:
			a.counts[fetches].Add(1)
			done <- int64(binary.BigEndian.Uint64(<-fetched))
		default:
			if o.How == dedup.Hit {
				a.counts[hits].Add(1)
			} else {
				a.counts[joins].Add(1)
			}
			done <- int64(binary.BigEndian.Uint64(o.Body))
		}
	}}
	store.Do(context.Background(), q, w, func(_ context.Context, f *dedup.Flight) {
		body := binary.BigEndian.AppendUint64(nil, uint64(reg.version.Load()))
		if rand.IntN(4) == 0 {
			pause(3)
		}
		fetched <- body
		f.Finish(body, false, true)
	})
	if got := <-done; got >= 0 && got < held {
		a.stale.Add(1)
		a.t.Errorf("stale answer: register %d: read version %d, and %d held before", nth, got, held)
	}
}

// write writes a register at a replica. The write lands while its request is in progress or, after
// that was given up, within settle. A slow one takes longer than lease, as does one in 50 others.
func (a *arena) write(r *replica, reg *register, slow bool) {
	r.mu.RLock()
	store := r.store
	r.mu.RUnlock()
	p := store.RegisterWrite(call.Effect{Places: []call.Place{reg.place}, Remote: true})
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var gaveUp time.Time
	if err := p.Announce(ctx, func(why error) { gaveUp = time.Now(); cancel(why) }); err != nil {
		a.counts[refused].Add(1)
		p.End()
		return
	}
	a.counts[writes].Add(1)
	takes := time.Duration(rand.IntN(5)) * time.Millisecond
	if slow || rand.IntN(50) == 0 {
		takes = 2 * lease
	}
	select {
	case <-ctx.Done():
		a.counts[lost].Add(1)
		p.Doubt()
		time.AfterFunc(rand.N(settle/2), func() {
			if time.Since(gaveUp) < settle { // no write lands later, also if this machine is busy
				reg.version.Add(1)
			}
		})
		return
	case <-time.After(takes):
	}
	reg.version.Add(1)
	switch { // the answer is still on its way
	case takes > lease:
		pause(50)
	case rand.IntN(4) == 0:
		pause(2)
	}
	p.End()
}

func pause(mostMS int) { time.Sleep(time.Duration(rand.IntN(mostMS*1000)) * time.Microsecond) }

// trouble causes one fault, and repairs it.
func (a *arena) trouble() {
	nth := rand.IntN(len(a.replicas))
	r, other := a.replicas[nth], a.replicas[(nth+1)%len(a.replicas)]
	server := a.servers[rand.IntN(len(a.servers))]
	seldom := len(a.world) - 1
	look := func(r *replica) {
		for range 5 {
			a.read(r, a.world[seldom], seldom)
		}
	}
	kinds := 7
	switch {
	case a.byHand:
		kinds = 18
	case r.cable == nil:
		kinds = 4
	}
	switch rand.IntN(kinds) {
	default:
		a.counts[cuts].Add(1)
		a.servers.promote(a.cables())
	case 0: // the server stops for a while
		a.counts[cuts].Add(1)
		server.signal(syscall.SIGSTOP)
		pause(1500)
		server.signal(syscall.SIGCONT)
	case 1: // the server is restarted
		a.counts[cuts].Add(1)
		a.restart(server)
	case 2, 3: // a replica is replaced
		a.counts[deaths].Add(1)
		r.mu.Lock()
		r.die()
		r.live(a.t)
		r.mu.Unlock()
	case 4: // one replica is cut off
		a.counts[cuts].Add(1)
		r.cable.setCut(true)
		pause(3000)
		r.cable.setCut(false)
	case 5: // one that has cached an answer from before a write, while the server is restarted
		a.counts[cuts].Add(2)
		look(r)
		r.cable.setCut(true)
		a.write(other, a.world[seldom], false)
		time.Sleep(settle) // the write has ended for this server; otherwise the writer would announce it to the next one
		a.restart(server)
		r.cable.setCut(false)
		time.Sleep(young)
		look(r)
	case 6: // the same for one that has a pending write, which it cannot announce to the next server
		a.counts[cuts].Add(2)
		var write sync.WaitGroup
		write.Go(func() { a.write(r, a.world[seldom], true) })
		time.Sleep(lease / 20) // it has been announced
		r.cable.setCut(true)
		a.restart(server)
		time.Sleep(lease / 4) // the others have connected again, and the write has not been given up
		look(other)
		write.Wait()
		time.Sleep(settle) // it has landed
		look(other)
		r.cable.setCut(false)
	case 7, 8, 9, 10: // one replica and a majority of the servers follow another primary for a while
		a.counts[cuts].Add(1)
		first, next, third := a.servers[0], a.servers[1], a.servers[2]
		a.servers.reunite(a.cables())
		time.Sleep(young + lease) // the other replicas trust the first primary
		look(other)
		third.follow(next)
		r.cable.lead(next.addr)
		pause(300)
		next.follow(nil)
		var writes sync.WaitGroup
		for range 40 { // one of which comes as early as it may begin there
			writes.Go(func() { a.write(r, a.world[rand.IntN(seldom)], false) })
			time.Sleep(lease / 200)
		}
		a.write(r, a.world[seldom], false)
		third.follow(first) // which has a majority again, and has none of these writes
		time.Sleep(lease)
		look(other)
		writes.Wait()
	}
}

// restart kills a server and starts another one in its place.
func (a *arena) restart(server *store) {
	server.kill()
	pause(300)
	server.start()
}

// TestInvariant checks that every answer was fetched after all writes that landed before the call,
// in spite of faults of replicas, connections and the server.
func TestInvariant(t *testing.T) {
	t.Parallel()
	for name, persistence := range map[string][]string{
		"emptied by a restart":  nil,
		"set back by a restart": {"--save", "1 1"}, // with the data of up to a second before
		"ten minutes ahead":     nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := startServer(t, persistence...)
			if name == "ten minutes ahead" {
				at.kill()
				at.ahead()
				at.start()
				if text, _ := at.try("EVAL", "return redis.call('TIME')[1] - ARGV[1]", "0", fmt.Sprint(time.Now().Unix())); text < ":590" || text > ":610" {
					t.Fatalf("the server's clock: got %q, want it ten minutes ahead", text)
				}
			}
			a := &arena{t: t, servers: group{at}}
			for range 3 {
				c := newCable(t, at.addr)
				a.replicas = append(a.replicas, &replica{url: "valkey://" + c.addr(), cable: c})
			}
			a.prove()
		})
	}
	t.Run("standbys take over", func(t *testing.T) { // each replica connects to the new primary at another time, or never
		t.Parallel()
		a := &arena{t: t, servers: startGroup(t), byHand: true}
		for range 3 {
			c := newCable(t, a.servers[0].addr)
			a.replicas = append(a.replicas, &replica{url: "valkey://" + c.addr() + "?servers=3", cable: c})
		}
		a.prove()
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		a := &arena{t: t, servers: startGroup(t), rest: 3 * time.Second}
		url := a.servers.startSentinel(t)
		for range 3 {
			a.replicas = append(a.replicas, &replica{url: url})
		}
		a.prove()
	})
}

// prove plays the history, and checks that each kind of event happened often enough.
func (a *arena) prove() {
	t := a.t
	// The slice of go test has few registers, so that each is read often by workers that mostly
	// pause: without pauses they would use a whole processor until the last fault is repaired.
	registers, goal, troubles := 4, int64(1000), 2
	a.think = 200
	if len(a.servers) > 1 {
		troubles = 1
	}
	if os.Getenv("MCPSCHEDD_SOAK") != "" {
		registers, goal, troubles, a.think = 9, 500_000, 100, 0 // about eight minutes on any machine, as the faults take that long
	}
	for i := range registers {
		a.world = append(a.world, &register{place: call.Place{Domain: fmt.Sprintf("host%d", i)}})
	}
	a.world[registers-2].place = call.Place{Slot: 12345}
	for _, r := range a.replicas {
		r.live(t)
	}
	a.play(goal, troubles)
	for _, r := range a.replicas {
		r.die()
	}
	var said strings.Builder
	for i, n := range names {
		fmt.Fprintf(&said, " %d %s;", a.counts[i].Load(), n)
	}
	t.Logf("%d stale;%s", a.stale.Load(), &said)
	if t.Failed() {
		return
	}
	if few := a.few(goal); few != "" {
		t.Errorf("the test proves little: %s", few)
	}
}

// cables returns the replicas' connections to the servers.
func (a *arena) cables() (all []*cable) {
	for _, r := range a.replicas {
		all = append(all, r.cable)
	}
	return all
}

// few returns a message about a kind of event that was too rare, or "".
func (a *arena) few(goal int64) string {
	for i, least := range map[int]int64{hits: goal / 50, joins: goal / 2000, fetches: goal / 50, writes: goal / 100} {
		if got := a.counts[i].Load(); got < least {
			return fmt.Sprintf("%d %s, want at least %d", got, names[i], least)
		}
	}
	return ""
}

// play runs workers that read and write until there were enough operations and all faults were
// caused.
func (a *arena) play(goal int64, troubles int) {
	var operations atomic.Int64
	var trouble sync.WaitGroup
	var over atomic.Bool
	trouble.Go(func() {
		for range troubles {
			if a.stale.Load() > 0 {
				break
			}
			time.Sleep(young + rand.N(time.Second) + rand.N(a.rest+1))
			a.trouble()
		}
		if a.byHand { // otherwise every write might be refused from here on
			a.servers.reunite(a.cables())
		}
		time.Sleep(lease + settle + 1500*time.Millisecond + a.rest)
		over.Store(true)
	})
	var workers sync.WaitGroup
	for i := range 12 {
		workers.Go(func() {
			r := a.replicas[i%len(a.replicas)]
			for a.stale.Load() == 0 && (!over.Load() || operations.Load() < goal || a.few(goal) != "" && operations.Load() < 20*goal) {
				operations.Add(1)
				nth := rand.IntN(len(a.world) - 1) // the last register is only used by trouble
				if rand.IntN(30) == 0 {
					a.write(r, a.world[nth], false)
				} else {
					a.read(r, a.world[nth], nth)
				}
				if a.think > 0 {
					pause(a.think)
				} else if rand.IntN(20) == 0 {
					pause(2)
				}
			}
		})
	}
	workers.Wait()
	trouble.Wait()
}
