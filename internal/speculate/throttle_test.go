package speculate_test

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpschedd/internal/speculate"
)

// play applies a story to a throttle, a letter for each event: (u)sed, (l)ate, (w)asted, (s)tarted,
// (h)arm.
func play(t *speculate.Throttle, story string) {
	for _, what := range story {
		switch what {
		case 'u', 'l', 'w':
			t.Label(t.Era(), what != 'w', what == 'l')
		case 's':
			t.Started()
		case 'h':
			t.Harm()
		}
	}
}

// n repeats a story.
func n(times int, story string) string { return strings.Repeat(story, times) }

func TestThrottle(t *testing.T) {
	for _, tt := range []struct {
		name, story string
		want        int
	}{
		{"everyone begins with what is configured", "", 3},
		{"15 labels are no judgement", n(15, "w"), 3},
		{"16 are", n(16, "w"), 2},
		{"and 15 more are none on the next level", n(16, "w") + n(15, "w"), 2},
		{"which 16 are", n(32, "w"), 1},
		{"down to watching", n(48, "w"), 0},
		{"and no further", n(500, "w"), 0},

		{"accuracy below .3", n(4, "wwwwu"), 2},
		{"accuracy between .3 and .6", n(100, "uw"), 3},
		{"of 16 labels 4 used, the first", n(4, "u") + n(12, "w"), 2},
		{"of 16 labels 4 used, the last", n(12, "w") + n(4, "u"), 3},
		{"5 of 17: the next one may be right", n(5, "u") + n(12, "w"), 3},
		{"or not", n(5, "u") + n(13, "w"), 2},
		{"in a window of 64: half of it is forgotten after 44", n(40, "u") + n(40, "w"), 3},
		{"and it tips", n(40, "u") + n(50, "w"), 2},

		{"accuracy alone earns nothing beyond", n(500, "u"), 3},
		{"level 4 is earned by being late", n(16, "l"), 4},
		{"not before 16 labels", n(15, "l"), 3},
		{"late share under 10 %", "l" + n(400, "u"), 3},
		{"late share over 10 %", "ll" + n(15, "u"), 4},
		{"late and inaccurate", n(50, "lw"), 3},
		{"there is no level above", n(200, "l"), 4},
		{"level 4 stays between .3 and .6", n(16, "l") + n(100, "uw"), 4},
		{"level 4 is lost like any other", n(16, "l") + n(16, "w"), 3},

		{"a level is regained by accuracy", n(16, "w") + n(16, "u"), 3},
		{"not before 16 labels", n(16, "w") + n(15, "u"), 2},
		{"two levels take 32", n(32, "w") + n(31, "u"), 2},
		{"no more and no less", n(32, "w") + n(32, "u"), 3},
		{"between .3 and .4 it is not regained", n(16, "w") + n(100, "uww"), 2},
		{"from .4 it is", n(16, "w") + n(20, "uwwuw"), 3},
		{"but at .4 no more is earned", n(100, "lwwlw"), 3},
		{"nor between .4 and .6", n(16, "w") + n(100, "lw"), 3},

		{"harm costs a level at once", "h", 2},
		{"the same news costs one", "hhhh", 2},
		{"the next prefetch's harm another", "hsh", 1},
		{"down to watching", n(20, "hs"), 0},
		{"harm: no rise before 32 labels", "h" + n(31, "u"), 2},
		{"a rise after them", "h" + n(32, "u"), 3},
		{"harm again begins anew", "h" + n(31, "u") + "h" + n(31, "u"), 2},
		{"and ends", "h" + n(31, "u") + "h" + n(32, "u"), 3},
		{"harm does not keep it from falling further", "h" + n(16, "w"), 1},
		{"from 0 after harm", n(3, "sh") + n(31, "u"), 0},
		{"the watched lead back", n(3, "sh") + n(32, "u"), 1},
		{"from 0 after waste", n(48, "w") + n(16, "u"), 1},
		{"the watched that prove wrong do not", n(48, "w") + n(300, "uww"), 0},
		{"the watched of which half are right do", n(48, "w") + n(8, "uw"), 1},
		{"and what is started then goes on", n(48, "w") + n(24, "uw"), 3},
		{"from 0 after harm, if half are right", n(3, "sh") + n(16+16+16, "uw"), 3},
		{"all the way from bottom to top", n(48, "w") + n(16*4, "l"), 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			th := speculate.NewThrottle()
			play(th, tt.story)
			if got := th.Level(); got != tt.want {
				t.Errorf("got level %d, want %d", got, tt.want)
			}
		})
	}
}

// TestThrottleEarlierPrefetches: prefetches begun before a change of level do not count at the new one.
func TestThrottleEarlierPrefetches(t *testing.T) {
	th := speculate.NewThrottle()
	for range 200 { // begun at level 3, all of them
		th.Label(0, false, false)
	}
	if got := th.Level(); got != 2 {
		t.Errorf("200 wasted of one level: got level %d, want 2", got)
	}
}

func TestAllowance(t *testing.T) {
	for level, want := range map[int]string{
		0: "1 1 1, caution 4",
		1: "1 1 1, caution 4",
		2: "1 1 4, caution 2",
		3: "1 3 8, caution 1",
		4: "1 3 8, caution 0.5",
	} {
		of1, _ := speculate.Allowance(level, 1)
		of3, _ := speculate.Allowance(level, 3)
		of8, caution := speculate.Allowance(level, 8)
		if got := fmt.Sprintf("%d %d %d, caution %v", of1, of3, of8, caution); got != want {
			t.Errorf("level %d: got %s, want %s", level, got, want)
		}
	}
}

// event is an event of a throttle.
type event struct {
	kind rune // as in play
	era  int  // of a label
}

// levelAfter computes the level by the rules, from all events so far.
func levelAfter(all []event) (level, era int) {
	level = 3
	var labels []event // of this era
	sinceHarm := math.MaxInt
	fresh := true // something was started since the last harm
	move := func(by int) {
		if to := level + by; to >= 0 && to <= 4 {
			level, era, labels = to, era+1, nil
		}
	}
	for _, e := range all {
		switch e.kind {
		case 's':
			fresh = true
		case 'h':
			sinceHarm = 0
			if fresh {
				fresh = false
				move(-1)
			}
		default:
			if e.era != era {
				continue
			}
			labels = append(labels, e)
			if sinceHarm < math.MaxInt {
				sinceHarm++
			}
			if len(labels) < 16 {
				continue
			}
			used, late, weight := 0.0, 0.0, 0.0
			for i, l := range labels {
				w := math.Pow(63.0/64, float64(len(labels)-1-i))
				weight += w
				if l.kind != 'w' {
					used += w
				}
				if l.kind == 'l' {
					late += w
				}
			}
			switch {
			case (used*63/64+1)/(weight*63/64+1) < 0.3:
				move(-1)
			case sinceHarm < 32:
			case level < 3 && used/weight >= 0.4:
				move(+1)
			case level == 3 && used/weight > 0.6 && late/used > 0.1:
				move(+1)
			}
		}
	}
	return level, era
}

func TestThrottleModel(t *testing.T) {
	reached := make(map[string]int)
	walk := func(fatalf func(string, ...any), events iter.Seq2[rune, bool]) {
		th := speculate.NewThrottle()
		var all []event
		level := 3
		for kind, old := range events {
			e := event{kind: kind, era: th.Era()}
			if old {
				e.era = max(0, e.era-1)
			}
			all = append(all, e)
			switch e.kind {
			case 's', 'h':
				play(th, string(e.kind))
			default:
				th.Label(e.era, e.kind != 'w', e.kind == 'l')
			}
			want, era := levelAfter(all)
			if got := th.Level(); got != want || th.Era() != era {
				fatalf("after %d: got level %d in era %d, want %d in %d", len(all), got, th.Era(), want, era)
			}
			if want != level {
				reached[fmt.Sprint(level, "→", want)]++
			}
			level = want
		}
	}
	walk(t.Fatalf, func(yield func(rune, bool) bool) { // to the bottom, the top and the bottom: chance seldom gets there
		for _, kind := range strings.Repeat("w", 200) + strings.Repeat("ul", 200) + strings.Repeat("w", 200) {
			if !yield(kind, false) {
				return
			}
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		walk(t.Fatalf, func(yield func(rune, bool) bool) {
			for range rapid.IntRange(1, 12).Draw(t, "stretches") {
				kinds := rapid.SampledFrom([]string{
					"u", "w", "l", "uw", "uuw", "uuuuw", "wwu", "wwwwu", "ul", "uuuuuuuuuuuul", "s", "sh", "h", "uuush", "wls",
				}).Draw(t, "kinds")
				for range rapid.IntRange(1, 40).Draw(t, "long") {
					kind := rune(kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")])
					if !yield(kind, rapid.IntRange(0, 9).Draw(t, "old") == 0) {
						return
					}
				}
			}
		})
	})
	for _, move := range []string{"0→1", "1→2", "2→3", "3→4", "4→3", "3→2", "2→1", "1→0"} {
		if reached[move] == 0 && !t.Failed() {
			t.Errorf("no walk went %s: the walks prove nothing of it", move)
		}
	}
	t.Log(reached)
}
