package speculate

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// stay is one call at an instance, as a history has it; in milliseconds.
type stay struct {
	visit      *visit
	came, went int // went < 0: it is there
}

// sharedBy is in how many of the milliseconds before now another call was there too.
func sharedBy(all []stay, which, now int) (n int) {
	there := func(v stay, at int) bool { return v.came <= at && (v.went < 0 || at < v.went) }
	for at := all[which].came; at < now; at++ {
		for i, other := range all {
			if i != which && there(other, at) {
				n++
				break
			}
		}
	}
	return n
}

// Of any calls that come and go the shared time is what counting every millisecond
// gives; a call that leaves twice has left once.
func TestSharedTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []stay
		var own occupancy
		began := time.Unix(1e9, 0)
		now := 0
		at := func() time.Time { return began.Add(time.Duration(now) * time.Millisecond) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.IntRange(0, 5).Draw(t, "ms")
			which := rapid.IntRange(0, len(all)).Draw(t, "which")
			if which == len(all) {
				all = append(all, stay{own.enter(at()), now, -1})
				continue
			}
			v := &all[which]
			if v.went < 0 {
				want := time.Duration(sharedBy(all, which, now)) * time.Millisecond
				if got := v.visit.shared(at()); got != want {
					t.Fatalf("call %d, there since %d: at %d got %v, want %v", which, v.came, now, got, want)
				}
			}
			if rapid.Bool().Draw(t, "leaves") {
				v.visit.leave(at())
				if v.went < 0 {
					v.went = now
				}
			}
		}
	})
}

// Each instance has an occupancy of its own, which is forgotten with it.
func TestOccupancies(t *testing.T) {
	var c occupancies
	one, two, now := c.of(1), c.of(2), time.Unix(1e9, 0)
	s := one.enter(now)
	two.enter(now)
	if got := s.shared(now.Add(time.Second)); got != 0 {
		t.Errorf("shared %v with a call at another instance", got)
	}
	c.of(1).enter(now.Add(time.Second))
	if got := s.shared(now.Add(3 * time.Second)); got != 2*time.Second {
		t.Errorf("got %v, want the two seconds", got)
	}
	c.forget(1)
	if c.of(1) == one || c.of(2) != two {
		t.Error("want one forgotten, and the other not")
	}
}
