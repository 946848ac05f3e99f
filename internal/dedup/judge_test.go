package dedup_test

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/dedup"
)

// judge checks the outcome of a call against the world.
func (w *world) judge(o op, own *fetch, got dedup.Outcome, least []int, came time.Time) {
	w.mu.Lock()
	var cancelled bool
	if own != nil {
		cancelled = own.cancelled
	}
	w.mu.Unlock()
	switch {
	case got.Err != nil:
		w.count("left")
		if o.cancel == 0 || got.Err != errLeft {
			w.blame("%#v stayed and got %v", o, got.Err)
		}
		return
	case got.Refetch:
		w.count("alone")
		return
	case got.How == dedup.Fetched:
		w.count("fetched")
		if own == nil || cancelled {
			w.blame("%#v got %+v; its fetch was cancelled: %v", o, got, cancelled)
			return
		}
		w.judgeTrial(own, got.Comparison)
		return
	}
	w.count(string(got.How))
	if got.BackedOff {
		w.count("backed off")
	}
	var nth int
	if _, err := fmt.Fscan(bytes.NewReader(got.Body), &nth); err != nil {
		w.blame("%#v got %.20q: its bytes were given back", o, got.Body)
		return
	}
	w.mu.Lock()
	x := w.fetches[nth]
	x.servedLocked(got, came)
	w.mu.Unlock()
	w.judgeShared(o, x, got, least, came)
}

// judgeShared checks an answer that the call did not fetch itself.
func (w *world) judgeShared(o op, x *fetch, got dedup.Outcome, least []int, came time.Time) {
	use := modelUses[o.use]
	age := came.Sub(x.began)
	if overtaken(x.saw, least) {
		w.blame("stale answer: %#v came when the world was at %v and got, %s, what the server saw at %v: fetch %#v", o, least, got.How, x.saw, x.op)
	}
	if o.trial && got.Prefetched {
		w.blame("a trial is served: %#v got, %s, fetch %#v", o, got.How, x.op)
	}
	switch {
	case x.op.scope != o.scope:
		w.blame("stale answer of another scope: %#v got fetch %#v", o, x.op)
	case x.op.key != o.key:
		w.blame("%#v got the answer to another call: %#v", o, x.op)
	case !x.good || x.cancelled:
		w.blame("%#v got what may not be shared: %#v", o, x.op)
	case got.Prefetched != x.prefetched || x.prefetched && use.Volatile:
		w.blame("%#v got, prefetched %v, fetch %#v", o, got.Prefetched, x.op)
	case got.How == dedup.Hit && got.Took != x.took:
		w.blame("%#v is told that the fetch took %v, want %v", o, got.Took, x.took)
	case got.How == dedup.Hit && got.Age != age:
		w.blame("%#v is told an age of %v, want %v", o, got.Age, age)
	case use.Pure || got.BackedOff && use.BackOff:
	case use.Freshness > 0 && age > use.Freshness:
		w.blame("%#v got an answer of %v", o, age)
	case use.Freshness > 0:
	case got.How == dedup.Hit && (!x.prefetched || x.served > 1 || age > use.MaxAge):
		w.blame("%#v got an answer without freshness, fetched %v ago, prefetched %v, served %d times", o, age, x.prefetched, x.served)
	case got.How == dedup.Joined && !x.prefetched && age >= 100*time.Millisecond:
		w.blame("%#v joined a fetch of %v", o, age)
	}
}

// overtaken reports whether the server's answer is from before a change that preceded the call.
func overtaken(saw, least []int) bool {
	for i := range saw {
		if saw[i] < least[i] {
			return true
		}
	}
	return false
}

// servedLocked records that a call got the answer of this fetch.
func (x *fetch) servedLocked(got dedup.Outcome, came time.Time) {
	x.served++
	switch {
	case got.How == dedup.Hit:
		x.hits++
	case x.asked.IsZero() || came.Before(x.asked):
		x.asked = came
	}
}

// judgeTrial checks a comparison. As all answers differ, its result may be Differs if nothing has
// changed in between, and never Same.
func (w *world) judgeTrial(own *fetch, got dedup.Comparison) {
	w.mu.Lock()
	defer w.mu.Unlock()
	like := func(x *fetch) bool {
		return x.prefetched && x.good && x.op.scope == own.op.scope && x.op.key == own.op.key && slices.Equal(x.saw, own.saw)
	}
	switch {
	case got == dedup.NotCompared:
	case !own.op.trial || got != dedup.Differs:
		w.blamed = append(w.blamed, fmt.Sprintf("%#v is told %d of a comparison", own.op, got))
	case !slices.ContainsFunc(w.fetches, like):
		w.blamed = append(w.blamed, fmt.Sprintf("a false accusation: %#v is told of a difference, and the world had changed", own.op))
	default:
		w.sums["compared"]++
	}
}

// judgeFates checks the fates of all prefetches against the calls that got them.
func (w *world) judgeFates() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.fetches {
		if x.prefetch == nil {
			continue
		}
		var want call.Fate
		switch got := x.prefetch.Fate(); {
		case x.served == x.hits && x.hits > 0:
			want = call.Ready
		case x.served > 0: // calls that joined it got it before any that were hits
			want = call.Late
		case got == call.Pending:
			want = call.Pending // CheckFates checks the number of these
		case x.prefetch.Why() == "compared":
			want = call.Compared // CheckFates checks these
		default:
			want = call.Wasted
		}
		if got := x.prefetch.Fate(); got != want {
			w.blamed = append(w.blamed, fmt.Sprintf("wrong fate: got %d, %q, want %d: fetch %#v, served %d times",
				got, x.prefetch.Why(), want, x.op, x.served))
		}
		w.sums["fate "+[]string{"pending", "ready", "late", "wasted", "compared"}[want]+" "+x.prefetch.Why()]++
	}
}
