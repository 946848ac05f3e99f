// Package replay plays recorded calls to the predictor as if they were made now,
// and counts what would have come of running its candidates early.
//
// The one idea: learning does not depend on what is issued, so one pass gives the
// whole curve, a point for each gate. Nothing looks ahead: a turn's candidates are
// made from what came before it, and only then is it looked at.
//
// It leaves out, so far, everything between a candidate and a prefetch: cost,
// budget, pace and the store's own rules.
package replay

import (
	"math"
	"time"

	"mcpschedd/internal/jsonrpc"
	"mcpschedd/internal/predict"
)

// Class is what a call does to what was fetched before it.
type Class int

const (
	Neutral Class = iota // nothing, and it is never run early
	Read                 // nothing
	Write                // all of it is void
)

// Rules say how a trace is judged.
type Rules struct {
	Class        func(tool string) Class
	KeepTurns    int       // how many turns an answer may be used
	Gates        []float64 // probabilities from which a candidate is issued
	AfterSession func()    // nil: nothing
}

// Report is what a replay found.
type Report struct {
	Sessions int
	Calls    int
	Reads    int
	Repeats  int     // reads that the session had made before
	Points   []Point // by gate
	Deciles  [10]Decile
}

// Point is what comes of one gate.
type Point struct {
	Gate     float64
	Issued   int
	Used     int
	PerCall  float64 // issued
	Coverage float64 // used, of the reads that are no repeats
}

// Accuracy is the share of what was issued that was used.
func (p Point) Accuracy() float64 { return float64(p.Used) / float64(max(1, p.Issued)) }

// Decile is a line of the reliability table: candidates by their probability when
// they were first thought of since the last write.
type Decile struct {
	N        int
	Expected float64 // sum of probabilities
	Hits     int
	Loss     float64 // of information, in nats
}

func (d *Decile) add(p float64, hit bool) {
	d.N++
	d.Expected += p
	if hit {
		d.Hits++
		d.Loss -= math.Log(p)
	} else {
		d.Loss -= math.Log(1 - p)
	}
}

// Run plays a trace to a model, which learns as it goes.
func Run(m *predict.Model, calls []Call, rules Rules) Report {
	rep := Report{Points: make([]Point, len(rules.Gates))}
	for i, g := range rules.Gates {
		rep.Points[i].Gate = g
	}
	for _, turns := range sessions(calls) {
		p := newPlayer(m, rules, &rep)
		for turn, batch := range turns {
			p.play(turn, batch)
		}
		p.void()
		p.s.End()
		if rules.AfterSession != nil {
			rules.AfterSession()
		}
	}
	for i := range rep.Points {
		p := &rep.Points[i]
		p.PerCall = float64(p.Issued) / float64(max(1, rep.Calls))
		p.Coverage = float64(p.Used) / float64(max(1, rep.Reads-rep.Repeats))
	}
	return rep
}

// exact is one call, whoever makes it.
type exact struct{ tool, arguments string }

// thought is when a candidate was first thought of, and how likely it was.
type thought struct {
	p    float64
	turn int
}

// player plays one session.
type player struct {
	s     *predict.Session
	rules Rules
	rep   *Report
	made  map[exact]bool
	pools []map[exact]int   // by gate: what was issued → after which turn
	first map[exact]thought // since the last write
	calls uint64
}

func newPlayer(m *predict.Model, rules Rules, rep *Report) *player {
	rep.Sessions++
	p := &player{s: m.Begin(), rules: rules, rep: rep, made: map[exact]bool{}, first: map[exact]thought{}}
	for range rules.Gates {
		p.pools = append(p.pools, map[exact]int{})
	}
	return p
}

// play counts what a turn could have been served, then lets the model see it.
func (p *player) play(turn int, batch []Call) {
	wrote := false
	calls := make([]exact, len(batch))
	for i, c := range batch {
		calls[i] = c.exact()
		class := p.rules.Class(c.Tool)
		wrote = wrote || class == Write
		p.rep.Calls++
		if class == Read {
			p.read(turn, calls[i])
		}
	}
	first := p.calls
	for i, c := range batch {
		p.calls++
		p.made[calls[i]] = true
		p.s.Call(predict.Call{ID: p.calls, Turn: turn, Tool: c.Tool, Arguments: calls[i].arguments, At: at(c.Start)})
	}
	for i, c := range batch {
		p.s.Result(predict.Result{
			ID: first + uint64(i) + 1, Failed: c.Failed, Values: predict.Extract([]byte(c.Text), nil), Size: c.Bytes, At: at(c.End),
		})
	}
	if wrote {
		p.void()
	}
	p.issue(turn, at(batch[len(batch)-1].End))
}

// read counts a read: a repeat, or a hit wherever it was issued.
func (p *player) read(turn int, c exact) {
	p.rep.Reads++
	if p.made[c] {
		p.rep.Repeats++
		return
	}
	for g, pool := range p.pools {
		if issued, ok := pool[c]; ok && turn-issued <= p.rules.KeepTurns {
			p.rep.Points[g].Used++
		}
	}
	if t, ok := p.first[c]; ok {
		p.settle(c, t, true)
	}
}

// issue issues the candidates of a turn that are not there already.
func (p *player) issue(turn int, now time.Time) {
	for c, t := range p.first {
		if turn-t.turn > p.rules.KeepTurns {
			p.settle(c, t, false)
		}
	}
	for _, c := range p.s.Candidates(now) {
		call := exact{c.Tool, c.Arguments}
		if p.made[call] {
			continue
		}
		if _, ok := p.first[call]; !ok {
			p.first[call] = thought{c.P, turn}
		}
		for g, pool := range p.pools {
			issued, ok := pool[call]
			if c.P >= p.rules.Gates[g] && (!ok || turn-issued > p.rules.KeepTurns) {
				pool[call] = turn
				p.rep.Points[g].Issued++
			}
		}
	}
}

// void forgets all that was issued: a write came.
func (p *player) void() {
	p.s.Invalidate()
	for _, pool := range p.pools {
		clear(pool)
	}
	for c, t := range p.first {
		p.settle(c, t, false)
	}
}

func (p *player) settle(c exact, t thought, hit bool) {
	p.rep.Deciles[min(9, int(t.p*10))].add(t.p, hit)
	delete(p.first, c)
}

// exact is the call without its result.
func (c *Call) exact() exact {
	arguments, ok := jsonrpc.AppendCanonical(nil, c.Arguments)
	if !ok {
		arguments = c.Arguments
	}
	return exact{c.Tool, string(arguments)}
}

func at(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return time.UnixMilli(*ms)
}
