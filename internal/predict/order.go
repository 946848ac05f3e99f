package predict

import "maps"

const (
	maxOrder   = 1 << 15 // contexts with what follows them
	orderWorth = 4       // of a shorter context in a longer one, in labels
)

// tally counts something, and how much of it since the state was loaded.
type tally struct{ n, fresh float32 }

func (t tally) more(n float32) tally { return tally{t.n + n, t.fresh + n} }

// plus adds what another process counted since it loaded the same state.
func (t tally) plus(o tally) tally { return tally{t.n + o.fresh, 0} }

// order is which tool comes after which one to three others: counts per context,
// the longer one backed off to the shorter one (as in PPM: Cleary and Witten 1984).
type order struct {
	total map[hash]tally
	joint map[hash]tally
}

func newOrder() order { return order{map[hash]tally{}, map[hash]tally{}} }

// contexts are the last turns, from none of them to all.
func contexts(past []string) [4]hash {
	var out [4]hash
	out[0] = seed
	for k := 1; k < len(out); k++ {
		out[k] = out[k-1]
		if k <= len(past) {
			out[k] = out[k].str(past[len(past)-k])
		}
	}
	return out
}

func (o *order) learn(past []string, next string) {
	for k, h := range contexts(past) {
		if k > len(past) {
			break
		}
		o.total[h] = o.total[h].more(1)
		o.joint[h.str(next)] = o.joint[h.str(next)].more(1)
	}
	o.bound()
}

// bound halves all counts, until those below one that are forgotten make room.
func (o *order) bound() {
	for len(o.joint) > maxOrder {
		for _, counts := range []map[hash]tally{o.joint, o.total} {
			maps.DeleteFunc(counts, func(h hash, t tally) bool {
				t.n /= 2
				counts[h] = t
				return t.n < 1
			})
		}
	}
}

// next is the probability that a turn of a tool comes next.
func (o *order) next(past []string, tool string) float64 {
	p := 0.02
	for k, h := range contexts(past) {
		if k > len(past) {
			break
		}
		p = (float64(o.joint[h.str(tool)].n) + orderWorth*p) / (float64(o.total[h].n) + orderWorth)
	}
	return p
}
