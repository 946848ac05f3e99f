package tune

import (
	"slices"
	"strconv"

	"mcpschedd/internal/predict"
	"mcpschedd/internal/valuemodel"
)

// trial is one call that an edge would have made early, once or, if its answer grew
// too old, again.
type trial struct {
	call   uint64 // which: of which session, after which call
	ranked        // its place in the list that it comes from
	issues uint16 // times that it would have been made
	right  bool   // the session made it while its answer stood
	at     int64  // ms since 1970, when the session began; 0: not recorded
	held   bool   // in a session that it was not read off
	hidden float32
}

// ranked is a place in a list.
type ranked struct{ rank, of uint16 }

// mostTrials bounds the trials of one edge.
const mostTrials = 1 << 14

// try tries edges on a session.
func (m *Miner) try(number int, of session, by map[string][]*edge, aside map[string]bool) {
	s := of.steps
	v := &viewer{m: m, s: s, at: of.at, number: number, aside: aside, later: make(map[[2]string][]int)}
	for i := range s {
		key := [2]string{s[i].tool, s[i].args}
		v.later[key] = append(v.later[key], i)
	}
	for i := range s {
		edges := by[s[i].tool]
		if len(edges) == 0 || s[i].failed {
			continue
		}
		model := *s[i].model
		model.FollowUps = nil
		for _, e := range edges {
			model.FollowUps = append(model.FollowUps, valuemodel.FollowUp{Tool: bare(e.tool), Args: e.args, Max: mostRank})
		}
		made := predict.Calls(&model, s[i].args, predict.Result{Text: []byte(s[i].text)})
		for k, e := range edges {
			v.trials(i, e, made[k])
		}
	}
}

const mostRank = 8 // calls that are tried of one list

// viewer tells what became of a call that would have been made early.
type viewer struct {
	m      *Miner
	s      []step
	at     int64
	number int
	aside  map[string]bool     // tools whose calls were not read off it
	later  map[[2]string][]int // call → where it was made
}

func (v *viewer) trials(after int, e *edge, made predict.Made) {
	for rank, args := range made.Arguments[:min(len(made.Arguments), mostRank)] {
		if len(e.cases) >= mostTrials {
			return
		}
		t, counts := v.trial(after, e.tool, args)
		if !counts {
			continue
		}
		t.ranked = ranked{uint16(rank), uint16(min(made.Of, 1<<15))}
		e.cases = append(e.cases, t)
	}
}

// trial plays what a guess would have come to: it is made when the turn has been
// answered, and again as long as the call before it is remembered and neither answer
// has been overtaken by a change. It does not count if there is no reason to make
// it: the session has its answer already.
func (v *viewer) trial(after int, tool, args string) (t trial, counts bool) {
	as := step{tool: tool, args: args}
	v.m.judge(&as)
	if !as.target {
		return t, false
	}
	s := v.s
	if v.has(after, &as) {
		return t, false
	}
	t = trial{call: sum(strconv.Itoa(v.number), strconv.Itoa(after), tool, args), at: v.at, held: v.aside[s[after].tool]}
	keeps := v.m.keeps(as.model)
	end := s[after].turn
	issued := int64(-1)
	for i := after; i < len(s); i++ {
		c := &s[i]
		if c.turn > end { // the turn before this one has ended: that is when guesses are made
			at := v.ended(i)
			if issued < 0 || at > issued+keeps {
				issued = at
				t.issues++
			}
			end = c.turn
		}
		switch {
		case i-after > mostBack || c.turn-s[after].turn > mostTurns:
			return t, true
		case c.turn > s[after].turn && c.tool == tool && c.args == args:
			if c.start <= issued+keeps && !c.failed { // an error is not kept
				t.right = true
				t.hidden = float32(min(c.end-c.start, max(c.start-issued, 0)))
			}
			return t, true
		case c.turn > s[after].turn && (stale(c.effect, as.places) || stale(c.effect, s[after].places)):
			return t, t.issues > 0
		}
	}
	t.issues = max(t.issues, 1) // the session ended
	return t, true
}

// has reports whether the session has the answer to a call, and nothing has changed
// that it depends on.
func (v *viewer) has(after int, c *step) bool {
	made := v.later[[2]string{c.tool, c.args}]
	n, _ := slices.BinarySearchFunc(made, v.s[after].turn+1, func(at, turn int) int { return v.s[at].turn - turn })
	if n == 0 {
		return false
	}
	from, to := min(made[n-1], after), max(made[n-1], after) // it may be a later one of the same turn
	return to-from < longAgo && !slices.ContainsFunc(v.s[from:to+1], func(w step) bool { return stale(w.effect, c.places) })
}

const longAgo = 1000 // calls, after which nobody looks whether anything has changed

// ended is when the turn before a call had been answered.
func (v *viewer) ended(i int) int64 {
	var last int64
	for k := i - 1; k >= 0 && v.s[k].turn >= v.s[i].turn-1; k-- {
		if v.s[k].turn < v.s[i].turn {
			last = max(last, v.s[k].end)
		}
	}
	return last
}
