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

// play applies events to a throttle, a letter for each: (u)sed, (l)ate, (w)asted, (s)tarted,
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

// event is an event of a throttle.
type event struct {
	kind rune // a letter of play
	era  int  // for a label: the era in which its prefetch was started
}

// levelAfter computes the level and the number of labels at it by the rules, from all events so far.
func levelAfter(all []event) (level, era, labelled int) {
	level = 3
	var labels []event // labels of the current era
	sinceHarm := math.MaxInt
	fresh := true // a prefetch was started since the last harm
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
	return level, era, len(labels)
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
			want, era, _ := levelAfter(all)
			if got := th.Level(); got != want || th.Era() != era {
				fatalf("after %d: got level %d in era %d, want %d in %d", len(all), got, th.Era(), want, era)
			}
			if want != level {
				reached[fmt.Sprint(level, "→", want)]++
			}
			level = want
		}
	}
	walk(t.Fatalf, func(yield func(rune, bool) bool) { // to the lowest level, the highest, and the lowest again, which random walks seldom reach
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
			t.Errorf("no walk went %s: the test proves nothing about it", move)
		}
	}
	t.Log(reached)
}
