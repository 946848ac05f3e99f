package dedup_test

import (
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/dedup"
)

// polled is the result of one call of a polling client.
type polled struct {
	how     dedup.Disposition
	backOff time.Duration
	held    bool
}

// TestBackOff makes repeated calls, with an event before each.
func TestBackOff(t *testing.T) {
	const s = time.Second
	fetched := func(hint time.Duration) polled { return polled{dedup.Fetched, hint, false} }
	held := func(hint time.Duration) polled { return polled{dedup.Hit, hint, true} }
	hinting, holding := dedup.Reuse{Repeats: 3}, dedup.Reuse{Repeats: 3, BackOff: true}
	sleep := func(d time.Duration) func(*testing.T, *source, *dedup.Query) {
		return func(*testing.T, *source, *dedup.Query) { time.Sleep(d) }
	}
	type step struct {
		before func(t *testing.T, src *source, q *dedup.Query)
		want   polled
	}
	three := []step{{sleep(0), fetched(0)}, {sleep(s), fetched(0)}, {sleep(s), fetched(2 * s)}}
	for _, tt := range []struct {
		name  string
		use   dedup.Reuse
		steps []step
	}{
		{"no repeats counted", dedup.Reuse{}, []step{{sleep(0), fetched(0)}, {sleep(s), fetched(0)}, {sleep(s), fetched(0)}}},
		{"only hinted", hinting, append(three[:3:3], step{sleep(s), fetched(3 * s)})},
		{"at least a second", hinting, []step{{sleep(0), fetched(0)}, {sleep(0), fetched(0)}, {sleep(0), fetched(s)}}},
		{"at most a minute", hinting, append(three[:3:3], step{sleep(time.Hour), fetched(time.Minute)})},
		{"held back", holding, append(three[:3:3], step{sleep(s), held(s)}, step{sleep(s - 1), held(1)})},
		{"held back until the time has passed, then longer", holding, append(three[:3:3],
			step{sleep(s), held(s)}, step{sleep(s), fetched(4 * s)}, step{sleep(3 * s), held(s)}, step{sleep(s), fetched(8 * s)})},
		{"changed by a write", holding, append(three[:3:3],
			step{func(_ *testing.T, src *source, _ *dedup.Query) { src.store.Invalidate(host) }, fetched(0)})},
		{"another answer", holding, append(three[:3:3],
			step{func(_ *testing.T, src *source, _ *dedup.Query) { time.Sleep(2 * s); src.same = "else" }, fetched(0)})},
		{"an answer that failed", holding, append(three[:3:3],
			step{func(t *testing.T, src *source, q *dedup.Query) {
				time.Sleep(2 * s)
				wait(t, src.store, *q).flight.Finish([]byte("same"), false, false)
			}, fetched(0)})},
		{"other arguments", holding, append(three[:3:3],
			step{func(t *testing.T, src *source, q *dedup.Query) { src.ask(t, other(*q)) }, held(2 * s)})},
		{"another client", holding, append(three[:3:3],
			step{func(_ *testing.T, _ *source, q *dedup.Query) { q.Delivered = dedup.NewDelivered() }, fetched(0)})},
		{"another client fetched since", holding, append(three[:3:3],
			step{func(t *testing.T, src *source, q *dedup.Query) {
				theirs := *q
				theirs.Delivered = dedup.NewDelivered()
				src.ask(t, theirs)
			}, fetched(2 * s)})},
		{"hits count", dedup.Reuse{Freshness: time.Minute, Repeats: 3}, []step{
			{sleep(0), fetched(0)},
			{sleep(s), polled{how: dedup.Hit}},
			{sleep(s), polled{how: dedup.Hit, backOff: 58 * s}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				src := &source{store: newStore(t), same: "same"}
				q := query(tt.use, host)
				q.Delivered = dedup.NewDelivered()
				for i, step := range tt.steps {
					step.before(t, src, &q)
					o := src.ask(t, q)
					if got := (polled{o.How, o.BackOff, o.BackedOff}); got != step.want {
						t.Errorf("call %d: got %+v, want %+v", i, got, step.want)
					}
				}
			})
		})
	}
}

func TestRepeated(t *testing.T) {
	s := newStore(t)
	src := &source{store: s}
	q := query(pure, host)
	q.Delivered = dedup.NewDelivered()
	want := func(what string, same bool) {
		t.Helper()
		if got := src.ask(t, q); got.Repeated != same {
			t.Errorf("%s: same %v, want %v", what, got.Repeated, same)
		}
	}
	want("the first", false)
	want("a hit", true)
	want("a hit again", true)
	q.Delivered.Referenced(q.Key)
	want("after a reference", false)
	want("after the body", true)
	s.Invalidate(host)
	want("after a change", false)
	mine := q.Delivered
	q.Delivered = dedup.NewDelivered()
	want("another client's first", false)
	q.Delivered = nil
	q.Delivered.Referenced(q.Key)
	want("without a client", false)
	q.Delivered = mine
	want("once more", true)
}

// TestLost: a client is not sent a reference to an answer that did not reach it.
func TestLost(t *testing.T) {
	src := &source{store: newStore(t)}
	q := query(fresh, host)
	q.Delivered = dedup.NewDelivered()
	src.ask(t, q)
	q.Delivered.Lost(q.Key)
	if src.ask(t, q).Repeated {
		t.Error("an answer that was lost counts as delivered")
	}
	if !src.ask(t, q).Repeated {
		t.Error("an answer that was delivered does not count")
	}
}
