package tune

import (
	"path/filepath"
	"slices"
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/enrich"
	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/replay"
	"mcpschedd/internal/valuemodel"
)

// session is what a client did.
type session struct {
	id    uint64 // a hash of its name, and of that of the file, without the folder
	at    int64  // ms since 1970, when it began; 0: not recorded
	steps []step
}

// step is one call of a session.
type step struct {
	tool       string // as Options.Model names it
	args       string // canonical
	text       string // of its answer
	turn       int    // from 0; calls of one turn were made together
	start, end int64  // ms
	failed     bool
	repeat     bool // the session has made the same call before

	model  *valuemodel.Model
	target bool         // it may be made on a guess
	places []call.Place // that its answer depends on
	effect call.Effect  // what it may change
}

// Bounds on what is looked at.
const (
	mostArguments = 4 << 10   // bytes of the arguments of a call that is to be explained
	mostText      = 256 << 10 // bytes of a result, as live
)

const (
	usualThink   = 3000 // ms between an answer and the next call, where it was not recorded
	usualLatency = 450  // ms
)

// sessionsOf makes sessions of the calls of a trace, in the order in which they
// begin.
func (m *Miner) sessionsOf(name string, calls []replay.Call) []session {
	at := make(map[string]int)
	var all []session
	var batches []int // newest of each session
	for i := range calls {
		c := &calls[i]
		k, known := at[c.Session]
		if !known {
			k = len(all)
			at[c.Session] = k
			all, batches = append(all, session{id: sum(filepath.Base(name), c.Session)}), append(batches, c.Batch)
		}
		s := m.step(c)
		if n := len(all[k].steps); n > 0 {
			s.turn = all[k].steps[n-1].turn
			if c.Batch != batches[k] {
				s.turn++
			}
		}
		batches[k] = c.Batch
		all[k].steps = append(all[k].steps, s)
	}
	for i, s := range all {
		all[i].at = s.steps[0].start
		lay(s.steps)
	}
	return all
}

func (m *Miner) step(c *replay.Call) step {
	s := step{tool: m.named(c.Tool), text: c.Text[:min(len(c.Text), mostText)], failed: c.Failed}
	if c.Start != nil && c.End != nil {
		s.start, s.end = *c.Start, max(*c.Start, *c.End)
	}
	if out, ok := jsonrpc.AppendCanonical(nil, c.Arguments); ok {
		s.args = string(out)
	}
	m.judge(&s)
	return s
}

// judge fills in what the models say of a call.
func (m *Miner) judge(s *step) {
	s.model = m.model(s.tool)
	index := jsonrpc.NewIndex([]byte(s.args))
	args := valuemodel.Arguments(nil)
	if index.Unambiguous() {
		args = index.Get
	}
	class := s.model.ClassOf(args, func(yield func(string) bool) {
		for m := range index.All() {
			if !yield(string(m.Name)) {
				return
			}
		}
	})
	if !class.Reads() {
		s.effect = s.model.Writes(args)
		return
	}
	s.places = s.model.Reads(args)
	s.target = args != nil && enrich.Speculatable(s.model)
}

// lay gives each call a time where none was recorded, and finds the repeats.
func lay(s []step) {
	seen := make(map[[2]string]bool, len(s))
	var now int64
	for i := range s {
		c := &s[i]
		key := [2]string{c.tool, c.args}
		c.repeat, seen[key] = seen[key], true
		if c.end == 0 {
			if c.start = now; i > 0 && s[i-1].turn != c.turn {
				c.start += usualThink
			}
			c.end = c.start + usualLatency
			if l := c.model.Cost.Latency; l > 0 {
				c.end = c.start + l.Milliseconds()
			}
		}
		now = max(now, c.end)
	}
}

// stale reports whether a change is one of something that an answer depends on.
func stale(e call.Effect, places []call.Place) bool {
	return slices.ContainsFunc(e.Places, func(p call.Place) bool { return slices.Contains(places, p) })
}

// keeps is for how long an answer got early stands in for a call.
func (m *Miner) keeps(of *valuemodel.Model) int64 {
	if of.Cost.Freshness > 0 {
		return of.Cost.Freshness.Milliseconds()
	}
	return int64(m.o.MaxAge / time.Millisecond)
}
