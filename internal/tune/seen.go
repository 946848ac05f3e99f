package tune

import (
	"cmp"
	"slices"
)

// seen is one answer that an upstream gave, or one call that may have changed
// something.
type seen struct {
	at      int64  // ms since 1970
	call    uint64 // tool and arguments
	result  uint64 // of a read; 0: it is a call that may have changed something
	tool    uint32
	session uint32
}

const seenSize = 40 // bytes, with its place in the order

// see remembers one, as long as there is room.
func (m *Miner) see(s seen) {
	if int64(m.sights)*seenSize > m.o.Bytes/2 {
		m.left.calls++
		return
	}
	if n := len(m.seen); n == 0 || len(m.seen[n-1]) == cap(m.seen[n-1]) {
		m.seen = append(m.seen, make([]seen, 0, 1<<13))
	}
	last := &m.seen[len(m.seen)-1]
	*last = append(*last, s)
	m.sights++
}

// inOrder are all that were seen, in the order of their times.
func (m *Miner) inOrder() []*seen {
	all := make([]*seen, 0, m.sights)
	for _, some := range m.seen {
		for i := range some {
			all = append(all, &some[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *seen) int { return cmp.Compare(a.at, b.at) })
	return all
}

// pair is two answers to the same call, one after the other.
type pair struct {
	tool    uint32
	apart   int64    // ms
	same    bool     // the answers are
	between []uint32 // tools that may have changed something in between; not kept
	unknown bool     // and others, that are not told apart
}

const mostWriters = 64 // tools that are told apart as writing

const mostCalls = 1 << 19 // exact calls that are told apart

// pairs tells each two answers to the same call, in order, and each run of equal
// answers in one session.
func (m *Miner) pairs(each func(pair), run func(tool uint32, before int, same bool)) {
	type last struct {
		at     int64
		result uint64
	}
	type asked struct {
		call, result uint64
		n            int
	}
	type who struct{ session, tool uint32 }
	answers := make(map[uint64]last)
	runs := make(map[who]asked)
	written := make(map[uint32]int64) // tool → when it was called last
	var others int64                  // when another one was
	var between []uint32
	for _, s := range m.inOrder() {
		if s.result == 0 {
			if _, known := written[s.tool]; known || len(written) < mostWriters {
				written[s.tool] = s.at
			} else {
				others = s.at
			}
			continue
		}
		if old, known := answers[s.call]; known {
			between = between[:0]
			p := pair{tool: s.tool, apart: s.at - old.at, same: old.result == s.result, unknown: others >= old.at}
			for w, at := range written {
				if at >= old.at {
					between = append(between, w)
				}
			}
			p.between = between
			each(p)
		}
		if _, known := answers[s.call]; known || len(answers) < mostCalls {
			answers[s.call] = last{s.at, s.result}
		}
		k := who{s.session, s.tool}
		r := runs[k]
		if r.call == s.call {
			run(s.tool, r.n, r.result == s.result)
		}
		if r.call != s.call || r.result != s.result {
			r = asked{call: s.call, result: s.result}
		}
		r.n++
		if r.n > 1 || len(runs) < mostCalls {
			runs[k] = r
		}
	}
}
