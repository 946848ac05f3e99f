package proxy_test

import (
	"testing"
	"time"

	"mcpschedd/internal/bubble"
	"mcpschedd/internal/proxy"
	"mcpschedd/internal/valuemodel"
)

// Learned candidates, and tools that only annotations declare read-only, are not prefetched before
// they have enough labels. In shadow mode nothing is prefetched.
func TestHarmShadow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		options func(t testing.TB) proxy.Options
		never   bool
	}{
		{"learned", func(t testing.TB) proxy.Options {
			return defaults(t, reading("foe/get", 0), reading("foe/list", 0))
		}, false},
		{"known by its server's word alone", trusting, false},
		{"both", func(t testing.TB) proxy.Options {
			o := trusting(t)
			o.Models, _ = valuemodel.Compile(nil)
			return o
		}, false},
		{"shadow mode", func(t testing.TB) proxy.Options {
			o := defaults(t, listing(t)...)
			o.Enrichment.Mode = "shadow"
			return o
		}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newFoe(taking(400*time.Millisecond), hinted("list", "get")...)
				d := beset(t, f, test.options(t))
				d.enter().browses(0, 12, 3*time.Second)
				asked := 0 // counts a candidate each time it is considered
				for _, v := range f.ledger() {
					switch {
					case v.early && asked < 3:
						t.Errorf("a prefetch at %s came after %d calls", v.arguments, asked)
					case v.tool == "get" && !v.early:
						asked++
					}
				}
				if made := len(early(f.ledger())); (made == 0) != test.never {
					t.Errorf("%d prefetches were made, want none: %v", made, test.never)
				}
			})
		})
	}
}

// A call labels its prediction once, even if that was considered several times.
func TestHarmOneCallIsOneLabel(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		f := newFoe(nil, hinted("list", "get", "other")...)
		d := beset(t, f, trusting(t))
		g := d.enter()
		g.call("list", page(1))
		for i := range 6 {
			time.Sleep(time.Second)
			g.call("other", thing(9, i))
		}
		time.Sleep(time.Second)
		g.call("get", thing(1, 0))
		time.Sleep(time.Second)
		g.call("list", page(2))
		time.Sleep(time.Second)
		if n := len(early(f.ledger())); n > 0 {
			t.Errorf("%d prefetches came after the calls of one candidate, want none before five labels", n)
		}
	})
}
