package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpschedd/internal/dedup"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// history returns a random trace: lists, reads of listed items, reads that stay fresh, and writes
// to one item or to everything, in turns of several overlapping calls.
func history(r *rand.Rand, sessions int) string {
	var b strings.Builder
	item := func() string { return string(rune('a' + r.IntN(6))) }
	for range sessions {
		for range 2 + r.IntN(12) {
			if r.IntN(3) > 0 {
				fmt.Fprintf(&b, "@@%d ", r.IntN(14))
			}
			for range 1 + r.IntN(3) {
				switch r.IntN(8) {
				case 0, 1:
					fmt.Fprint(&b, "list_items:", item(), item())
				case 2, 3, 4:
					fmt.Fprint(&b, "get_item:", item())
				case 5:
					fmt.Fprint(&b, "get_fresh:", item())
				case 6:
					fmt.Fprint(&b, "set_item:", item())
				case 7:
					fmt.Fprint(&b, "write:", item())
				}
				if r.IntN(8) == 0 {
					fmt.Fprint(&b, "!")
				}
				if r.IntN(4) > 0 {
					fmt.Fprintf(&b, "@%d", r.IntN(4000)*(1+r.IntN(2)*r.IntN(20)))
				}
				fmt.Fprint(&b, " ")
			}
			fmt.Fprintln(&b)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// lively returns arms with many prefetches.
func lively() []replay.Arm {
	var all []replay.Arm
	for i, source := range []replay.Source{replay.Forecast, replay.Forecast, replay.Oracle, replay.Nothing} {
		a := usual(fmt.Sprint(i), source)
		a.Rules.MinProbability, a.Rules.Waste = 0.01, 0
		if i == 1 {
			a.Rules.PerSession = 1
		}
		all = append(all, a)
	}
	return all
}

func busy(t testing.TB) replay.Options {
	fresh := valuemodel.Rule{Pattern: "get_fresh", Layer: valuemodel.Layer{Cost: valuemodel.Cost{Freshness: time.Minute}}}
	return replay.Options{Model: models(t, fresh, leads(t, 0.5)), Learn: true, MaxAge: 10 * time.Second}
}

// No stale answer is served, and the figures agree with the counts of the store.
func TestHistories(t *testing.T) {
	used := 0
	o := busy(t)
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		o.KeepTurns = int(seed % 3)
		p := replay.New(o, lively()...)
		p.Play(replay.Sessions(trace(history(r, 8))))
		for i, got := range p.Reports() {
			store := p.Stored(i)
			pre := store.Prefetch
			var wasted int64
			for _, n := range pre.Wasted {
				wasted += n
			}
			switch {
			case got.Stale != 0:
				t.Errorf("seed %d, arm %d: %d stale", seed, i, got.Stale)
			case int64(got.Used) != pre.Used || int64(got.Late) != pre.Late || int64(got.Issued) != pre.Issued:
				t.Errorf("seed %d, arm %d: counted %d issued, %d used, %d late; the store %d, %d, %d", seed, i, got.Issued, got.Used, got.Late, pre.Issued, pre.Used, pre.Late)
			case pre.Issued != pre.Used+wasted:
				t.Errorf("seed %d, arm %d: %d issued, %d used, %d wasted", seed, i, pre.Issued, pre.Used, wasted)
			case store.Entries != 0 || store.Flights != 0 || store.UnderWay != 0:
				t.Errorf("seed %d, arm %d: %d answers, %d flights, %d calls under way are left", seed, i, store.Entries, store.Flights, store.UnderWay)
			}
			used += got.Used
		}
	}
	if used < 500 {
		t.Errorf("got %d used: the test proves nothing", used)
	}
}

// If the queries lack the places of answers, the store serves stale answers, and they are counted.
func TestStaleIsSeen(t *testing.T) {
	stale := make(map[int]int) // arm → number
	b := busy(t)
	for seed := range uint64(20) {
		p := replay.New(b, lively()...)
		p.Sabotage(func(q *dedup.Query) { q.Places = nil })
		p.Play(replay.Sessions(trace(history(rand.New(rand.NewPCG(seed, 2)), 8))))
		for i, r := range p.Reports() {
			stale[i] += r.Stale
		}
	}
	for i := range 4 { // the last arm makes no prefetches, but its cached answers may be stale too
		if stale[i] == 0 {
			t.Errorf("arm %d: no stale answer was counted", i)
		}
	}
	o := replay.Options{Model: models(t, leads(t, 0.9)), MaxAge: 10 * time.Second}
	p := replay.New(o, usual("static", replay.Forecast))
	p.Sabotage(func(q *dedup.Query) { q.Places = nil })
	p.Play(replay.Sessions(trace("list_items:a\nwrite:x\nget_item:a\n\nlist_items:a\nget_item:a\nwrite:x\n")))
	if r := p.Reports()[0]; r.Used != 2 || r.Stale != 1 {
		t.Errorf("got %d used, %d stale, want 2 and 1", r.Used, r.Stale)
	}
	p = replay.New(o, usual("static", replay.Forecast))
	p.Sabotage(func(q *dedup.Query) { q.Places = nil })
	p.Play(replay.Sessions(trace("list_items:a@100\nwrite:x@9000 get_item:a@100\n")))
	if r := p.Reports()[0]; r.Used != 1 || r.Stale != 1 {
		t.Errorf("while a write is under way: got %d used, %d stale, want 1 and 1", r.Used, r.Stale)
	}
}

// Prefetches do not depend on later calls: in two traces they are equal up to the first difference
// of the traces.
func TestNothingLooksAhead(t *testing.T) {
	type prefetch struct {
		Session, Turns  int
		Tool, Arguments string
	}
	o := busy(t)
	run := func(text string) (prefetches [][]prefetch) {
		p := replay.New(o, lively()[:2]...)
		prefetches = make([][]prefetch, 2)
		session := 0
		for i := range prefetches {
			p.Watch(i, func(turns int, tool, arguments string) {
				prefetches[i] = append(prefetches[i], prefetch{session, turns, tool, arguments})
			})
		}
		for _, s := range replay.Sessions(trace(text)) {
			p.Play([]*replay.Session{s})
			session++
		}
		return prefetches
	}
	made := 0
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 3))
		past := untimed(history(r, 8))
		past = strings.TrimRight(past, "\n") + "\n"
		parts := strings.Count(past, "\n\n")
		turns := len(strings.Split(past[strings.LastIndex(past, "\n\n")+2:], "\n")) - 1
		one := run(past + untimed(history(r, 2)))
		other := run(past + untimed(history(r, 2)))
		for i := range one {
			until := func(all []prefetch) (before []prefetch) {
				for _, g := range all {
					if g.Session < parts || g.Session == parts && g.Turns <= turns {
						before = append(before, g)
					}
				}
				return before
			}
			made += len(until(one[i]))
			if diff := cmp.Diff(until(one[i]), until(other[i])); diff != "" {
				t.Fatalf("seed %d, arm %d: %s", seed, i, diff)
			}
		}
	}
	if made < 300 {
		t.Errorf("got %d prefetches: the test proves nothing", made)
	}
}

// untimed removes latencies and failures. Only the simulated upstream knows them in advance, and
// they affect later prefetches: when a slot is free, and whether a failed call is repeated.
func untimed(history string) string { return outcomes.ReplaceAllString(history, "$1") }

var outcomes = regexp.MustCompile(`([a-z])!?(@\d+)?`)

// Equal traces give equal figures.
func TestSameAgain(t *testing.T) {
	o := busy(t)
	run := func() []byte {
		p := replay.New(o, lively()...)
		p.Play(replay.Sessions(trace(history(rand.New(rand.NewPCG(7, 7)), 20))))
		out, err := json.Marshal(p.Reports())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := run()
	for range 2 {
		if again := run(); !bytes.Equal(first, again) {
			t.Fatal(cmp.Diff(string(first), string(again)))
		}
	}
}

// Without writes and expiry, all prefetches of the oracle are used, and no other arm has a higher
// coverage.
func TestOracleIsTheCeiling(t *testing.T) {
	o := busy(t)
	o.KeepTurns = 1000
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		text := strings.NewReplacer("set_item", "get_item", "write", "get_item", "!", "").Replace(untimed(history(r, 8)))
		ceiling := usual("oracle", replay.Oracle)
		ceiling.Rules = speculate.Rules{Budget: 1 << 30, Delivery: "inline"}
		all := play(t, o, text, ceiling, usual("learned", replay.Forecast))
		if o := all[0]; o.Accuracy != 1 || o.Coverage < all[1].Coverage {
			t.Errorf("seed %d: oracle: accuracy %v, coverage %v beside %v", seed, o.Accuracy, o.Coverage, all[1].Coverage)
		}
	}
}
