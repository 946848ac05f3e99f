package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/limit"
)

// journal is the server's end of the connections of a session. It records the order of requests.
type journal struct {
	lease *Lease

	mu   sync.Mutex
	came []arrival
	work sync.WaitGroup
}

type arrival struct {
	number int64
	at     time.Time
}

// journalLink is one of the connections.
type journalLink struct {
	*journal
	c    *conn
	once sync.Once
	dead chan struct{}
}

func (k *journalLink) send(_ context.Context, out outgoing) error {
	select {
	case <-k.dead:
		return io.ErrClosedPipe
	default:
	}
	m, err := jsonrpc.Parse(out.line)
	if err != nil {
		return err
	}
	if m.IsNotification() {
		return nil
	}
	var number int64
	fmt.Sscan(string(jsonrpc.Get(m.Params, "number")), &number)
	k.mu.Lock()
	k.came = append(k.came, arrival{number, time.Now()})
	k.mu.Unlock()
	answer, err := jsonrpc.Parse(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":{}}`, out.id))
	if err != nil {
		return err
	}
	k.work.Go(func() {
		time.Sleep(time.Second + time.Duration(number)*12347*time.Nanosecond) // so that no two requests end at the same time
		select {
		case <-k.dead:
		default:
			k.c.message(answer, 0)
		}
	})
	return nil
}

func (k *journalLink) close() {
	k.once.Do(func() {
		close(k.dead)
		k.c.closed(nil)
	})
}

// lives connects, and ends each connection after a random time, with pauses in between.
func (j *journal) lives(r *rand.Rand, lives int) {
	in := j.lease.in
	for range lives {
		time.Sleep(time.Duration(r.Int64N(int64(40 * time.Second))))
		c := newConn(in)
		k := &journalLink{journal: j, c: c, dead: make(chan struct{})}
		c.link = k
		in.setState(c, nil, nil)
		time.Sleep(time.Duration(r.Int64N(int64(time.Minute))))
		k.close()
		in.disconnected(c)
	}
	in.setState(nil, errRemoved, nil)
}

// placed is a request of the session.
type placed struct {
	host string
	err  error
}

// send sends a request as the proxy does.
func (j *journal) send(ctx context.Context, hosts *limit.Hosts, number int, p *placed) {
	var slot *limit.Slot
	req := &Request{
		Method: "tools/call", Params: fmt.Appendf(nil, `{"number":%d}`, number),
		Admit: func(ctx context.Context, wait bool) (err error) {
			if wait {
				slot, err = hosts.Enter(ctx, p.host)
				return err
			}
			var ok bool
			if slot, ok = hosts.TryEnter(p.host); !ok {
				return ErrMustWait
			}
			return nil
		},
	}
	j.work.Add(1)
	j.lease.Send(ctx, j.lease.Turn(), req, func(_ Answer, err error) {
		defer j.work.Done()
		p.err = err
		if slot != nil {
			slot.Leave(limit.Outcome{})
		}
	})
}

// Requests are sent in the order of their turns, whatever happens to connections, limits and
// callers.
func TestOrderOfSending(t *testing.T) {
	limits := map[string]limit.Rule{"paced": {Rate: 0.2, Burst: 1}, "single": {Concurrency: 1}, "free": {}}
	names := []string{"paced", "single", "free"}
	sent := 0
	seeds := uint64(100)
	if os.Getenv("MCPSCHEDD_SOAK") != "" {
		seeds = 3000
	}
	for seed := range seeds {
		bubble.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 8))
			up := New(Spec{Name: "journal", StartTimeout: 30 * time.Second}, Quiet(Options{}))
			in := &instance{up: up}
			in.state.Store(&state{changed: make(chan struct{})})
			j := &journal{lease: &Lease{in: in}}
			hosts := limit.New(limits)
			lives := rand.New(rand.NewPCG(seed, 9))
			j.work.Go(func() { j.lives(lives, 4) })
			all := make([]placed, 60)
			for i := range all {
				p := &all[i]
				p.host = names[r.IntN(len(names))]
				ctx, cancel := context.WithCancel(t.Context())
				if r.IntN(5) == 0 {
					time.AfterFunc(time.Duration(r.Int64N(int64(20*time.Second))), cancel)
				}
				defer cancel()
				j.send(ctx, hosts, i, p)
				if r.IntN(2) == 0 {
					time.Sleep(time.Duration(r.Int64N(int64(3 * time.Second))))
				}
			}
			j.work.Wait()
			synctest.Wait()
			place := make(map[int64]int)
			for n, a := range j.came {
				if _, twice := place[a.number]; twice {
					t.Errorf("seed %d: request %d came twice", seed, a.number)
				}
				place[a.number] = n
			}
			sent += len(place)
			for i, p := range all {
				at, came := place[int64(i)]
				if !came && p.err == nil || came && p.err != nil && (errors.Is(p.err, errStarting) || strings.Contains(p.err.Error(), "not sent")) {
					t.Errorf("seed %d: request %d, which came: %v, ended with %v", seed, i, came, p.err)
				}
				for k := i + 1; came && k < len(all); k++ {
					if later, too := place[int64(k)]; too && later < at {
						t.Errorf("seed %d: request %d (%+v) passed %d (%+v)", seed, k, all[k], i, p)
					}
				}
			}
			if len(j.lease.queue.turns) > 0 {
				t.Errorf("seed %d: %d turns are left in line", seed, len(j.lease.queue.turns))
			}
			for name := range limits {
				slot, free := hosts.TryEnter(name)
				if name == "single" && !free {
					t.Errorf("seed %d: the slot of %s is not free", seed, name)
				}
				if free {
					slot.Leave(limit.Outcome{})
				}
			}
		})
	}
	if sent == 0 {
		t.Error("no request was sent")
	}
}

// A read that joins another request keeps its place until that one was sent. If it must be sent
// itself, it uses its own place if it still has one.
func TestReclaim(t *testing.T) {
	var q queue
	first, second := q.take(), q.take()
	again := first.Reclaim()
	first.Release() // the request that it joined is sent later
	if again != first || second.ready() == nil || again.ready() != nil {
		t.Error("the first one has lost its place")
	}
	next := second.ready()
	again.release(true)
	<-next
	second.Release()
	behind := q.take()
	if again = second.Reclaim(); again == second || behind.ready() != nil || again.ready() == nil {
		t.Error("a request that had left its place is not the last in the queue")
	}
	if none := (*Turn)(nil); none.Reclaim() != nil || none.ready() != nil {
		t.Error("what stands in no line has a place")
	}
}
