// Command replicas plays the calls of recorded sessions with the stores of several replicas, once
// without and once with a shared server. It prints how many calls went upstream, how many got an
// answer from before a change, and what a call cost, also at the server:
//
//	go run ./replicas valkey://127.0.0.1:6379 TRACE.jsonl.gz...
//
// 200 clients, each at one of the replicas, take the sessions in turn and make their calls one at a
// time, in an order that is the same in each run. There is no upstream, and no time passes between
// two calls, so answers only become invalid by changes. A tool is read-only if its name says so; any
// other changes everything that answers depend on. The second table has only the reads.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valkey"
	"mcpschedd/tools/dataset"
)

const (
	clients = 200
	lease   = 2 * time.Second // approximate time until a new history is trusted
	settle  = 10 * time.Millisecond
)

var reads = regexp.MustCompile(`^(get|search|list|calculate|think)`)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: replicas URL TRACE...")
	}
	var trace []replay.Call
	for _, name := range os.Args[2:] {
		calls, err := replay.ReadFile(name)
		if err != nil {
			log.Fatal(err)
		}
		trace = append(trace, calls...)
	}
	day := order(dataset.BySession(trace))
	onlyReads := slices.DeleteFunc(slices.Clone(day), func(t turn) bool { return !reads.MatchString(t.Tool) })
	for _, calls := range [][]turn{day, onlyReads} {
		fmt.Printf("%d calls of %d clients\n", len(calls), clients)
		for _, n := range []int{1, 2, 4, 8} {
			fmt.Printf("%d replicas: apart %v; shared %v\n", n, play(calls, n, ""), play(calls, n, os.Args[1]))
		}
	}
}

// result is the result of one day.
type result struct {
	upstream, stale int
	each            time.Duration
	server          work // per call
}

func (r result) String() string {
	text := fmt.Sprintf("%d upstream, %d stale, %v a call", r.upstream, r.stale, r.each)
	if r.server.commands > 0 {
		text += fmt.Sprintf(" (server: %.1f commands, %.0f µs of processor)", r.server.commands, r.server.seconds*1e6)
	}
	return text
}

// work is the work of a server.
type work struct{ commands, seconds float64 }

// workOf returns the work of a server without a password.
func workOf(address string) (w work) {
	u, err := url.Parse(address)
	if err != nil {
		log.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "INFO everything\r\nQUIT\r\n")
	for lines := bufio.NewScanner(c); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "total_commands_processed":
			w.commands = n
		case "used_cpu_user", "used_cpu_sys":
			w.seconds += n
		}
	}
	return w
}

// turn is a call of a client.
type turn struct {
	client int
	replay.Call
}

// order divides the sessions among the clients, and puts their calls in order.
func order(sessions [][]replay.Call) (day []turn) {
	queues := make([][]replay.Call, clients)
	for i := range max(clients, len(sessions)) {
		queues[i%clients] = append(queues[i%clients], sessions[i%len(sessions)]...)
	}
	for random := rand.New(rand.NewPCG(1, 1)); ; {
		left := false
		for _, c := range random.Perm(clients) {
			if len(queues[c]) > 0 {
				day, left = append(day, turn{c, queues[c][0]}), true
				queues[c] = queues[c][1:]
			}
		}
		if !left {
			return day
		}
	}
}

// play plays the day with n replicas. at is the URL of their shared server, or "".
func play(day []turn, n int, at string) (r result) {
	var stores []*dedup.Store
	for range n {
		o := dedup.Options{MaxBytes: 64 << 20, WriteSettle: settle}
		if at != "" {
			peers, err := valkey.New(valkey.Options{URL: at, Lease: lease, WriteSettle: settle})
			if err != nil {
				log.Fatal(err)
			}
			defer peers.Close()
			o.Peers = peers
			ready(peers)
		}
		s := dedup.New(o)
		defer s.Close()
		stores = append(stores, s)
	}
	run := fmt.Sprint(n, time.Now().UnixNano()) // so that no answer of an earlier run is used
	var before work
	if at != "" {
		before = workOf(at)
	}
	began, version := time.Now(), uint64(0)
	for _, t := range day {
		if reads.MatchString(t.Tool) {
			r.ask(stores[t.client%n], run, t.Call, version)
			continue
		}
		change(stores[t.client%n])
		version++
		r.upstream++
	}
	r.each = time.Since(began) / time.Duration(len(day))
	if at != "" {
		calls, after := float64(len(day)), workOf(at)
		r.server = work{(after.commands - before.commands) / calls, (after.seconds - before.seconds) / calls}
	}
	return r
}

// ready returns when the peers' history is trusted.
func ready(peers *valkey.Store) {
	for range 1000 {
		tokens, err := peers.Lookup(context.Background(), []call.Place{{Domain: "host"}})
		if err == nil && tokens[0] != "" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	log.Fatal("the server is not relied on")
}

var places = []call.Place{{Domain: "host"}}

// change makes a call that changes everything that answers depend on.
func change(s *dedup.Store) {
	write := s.RegisterWrite(call.Effect{Places: places})
	if err := write.Announce(context.Background(), func(error) {}); err != nil {
		log.Fatal(err)
	}
	write.End()
}

// ask makes a read. Its answer begins with the version that it has read.
func (r *result) ask(s *dedup.Store, run string, c replay.Call, version uint64) {
	got := make(chan uint64, 1)
	key := call.Key{Upstream: 1, Scope: "*", Tool: c.Tool, Arguments: string(c.Arguments)}
	q := dedup.Query{Key: key, Places: places, Reuse: dedup.Reuse{Freshness: 24 * time.Hour}, SharedKey: run + key.Tool + key.Arguments}
	w := &dedup.Waiter{Sent: func() {}, Done: func(o dedup.Outcome) {
		if o.How == dedup.Fetched {
			got <- version
		} else {
			got <- binary.BigEndian.Uint64(o.Body)
		}
	}}
	s.Do(context.Background(), q, w, func(_ context.Context, f *dedup.Flight) {
		r.upstream++
		body := binary.BigEndian.AppendUint64(make([]byte, 0, c.Bytes+8), version)
		f.Finish(body[:max(8, c.Bytes)], false, true)
	})
	if <-got != version {
		r.stale++
	}
}
