// Package budget shares out the tokens that answers bring into models' contexts: those of one
// session, those of one turn of its model, and those of a pool that several sessions have for
// a window of time.
//
// The one idea: what a client asked for is always delivered, and counted. Only what is optional
// asks first, and has to fit into what is left ([Agent.Room]): before anything else goes what
// is added to answers unasked, then excerpts of plans' results get shorter, and at last optional
// steps of plans are not run.
//
//	p := budget.NewPool(budget.Rules{Context: 100_000, Pool: 400_000, Window: time.Hour}, nil)
//	a := p.Join(budget.Session{Client: "claude-code"})
//	a.Delivered(turn, tokens)
//	room := a.Room(turn)
//
// A pool is divided by weight. An agent may use its share whenever it likes; what it has not
// used in the part of the window that is over is lent to agents that have used theirs up, by
// their weights. So every agent keeps its share of the rest of the window, from when it joins,
// whatever others use or are given because they asked for it: that is its floor. This is
// weighted max-min fairness over time (Bertsekas and Gallager, Data Networks, 6.5.2).
//
// Shares go by what was delivered, which is counted here, and by weights. An agent that declares
// a weight can only lower its own: the operator's bound for its client holds above that, 1 where
// there is none. So nothing is gained by declaring another weight than the true one. The name of
// a client is its own word, though: weights over 1 share among programs of one user, and
// are no defence against one that takes another's name or begins many sessions.
//
// It leaves out counting tokens exactly; [Meter] estimates them.
package budget

import (
	"math"
	"sync"
	"time"

	"mcpschedd/internal/age"
)

// Unbounded is what may be added where nothing bounds it.
const Unbounded = math.MaxInt

// leastExcerpt is how many tokens a plan may always bring back: what it read was asked for.
// With less than that left, its optional steps are not run.
const minExcerpt = 500

// Rules are how much may be delivered. Zero values bound nothing.
type Rules struct {
	Context int                // tokens of one session
	PerTurn int                // tokens of one turn of a session's model
	Reserve float64            // part of each bound that is kept for what was asked for, 0 to 1
	Pool    int                // tokens of all sessions in a window
	Window  time.Duration      // of the pool; 0: one that never ends
	Weights map[string]float64 // client → the weight it has, or may declare at most; any other: 1
}

// On reports whether there is anything to count for.
func (r *Rules) Enabled() bool { return r.Context > 0 || r.PerTurn > 0 || r.Pool > 0 }

// weight is that of an agent.
func (r *Rules) weight(s Session) float64 {
	most, ok := r.Weights[s.Client]
	if !ok {
		most = 1
	}
	if s.Weight > 0 && s.Weight < most {
		return s.Weight
	}
	return most
}

// Session is what is known of an agent when it joins.
type Session struct {
	Client      string  // as it calls itself
	Weight      float64 // that it declares; 0: none
	Multiplexed bool    // it is any number of conversations: they have no context and no turn in common
}

// Room is what may still be added in a turn.
type Room struct {
	Left     int  // tokens until the nearest bound; [Unbounded]: there is none
	Extras   int  // tokens that may be added to an answer unasked
	Excerpts int  // tokens that a plan may bring back of what it read
	Optional bool // optional steps of plans are run
}

// Unlimited is the room where nothing is bounded.
var Unlimited = Room{Unbounded, Unbounded, Unbounded, true}

// Pool is the agents that share what there is in a window.
type Pool struct {
	now func() age.Moment

	mu             sync.Mutex
	rules          Rules
	began          age.Moment // of the window
	agents         map[*Agent]struct{}
	sharePerWeight float64 // the share of an agent of weight 1
	departedUsed   int     // tokens that agents which have left used in this window
	excess         int     // tokens of this window that were asked for beyond what an agent had left
}

// NewPool returns a pool without agents. now is the clock; nil: [age.Now].
func NewPool(r Rules, now func() age.Moment) *Pool {
	if now == nil {
		now = age.Now
	}
	return &Pool{now: now, rules: r, began: now(), agents: make(map[*Agent]struct{})}
}

// Configure replaces the rules. What was used stays used; where there was no pool, or one with
// another window, a window begins.
func (p *Pool) Configure(r Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.rules
	p.rules = r
	for a := range p.agents {
		a.weight = r.weight(a.session)
	}
	p.divideLocked()
	if old.Pool == 0 || old.Window != r.Window {
		p.beginLocked(p.now())
	}
}

// Used is how many tokens of the window were used, and how long that has still to go.
func (p *Pool) Used() (tokens int, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	return p.usedLocked(), max(0, p.rules.Window-p.now().Since(p.began))
}

// Agent is one session. Its fields are its pool's to guard.
type Agent struct {
	pool    *Pool
	session Session
	weight  float64

	used, turn, turnUsed int // tokens: in all, of which turn the next is, and in that

	windowUsed   int        // tokens of the pool's window
	reserved     float64    // tokens of the pool that no other agent may use
	lastDelivery age.Moment // it was given something
}

// Join adds an agent.
func (p *Pool) Join(s Session) *Agent {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &Agent{pool: p, session: s, weight: p.rules.weight(s)}
	p.agents[a] = struct{}{}
	p.divideLocked()
	p.advanceLocked() // what is kept for the others gets less
	a.reserved = max(0, min(p.remainingLocked()*p.sharePerWeight*a.weight, p.freeLocked()))
	return a
}

// Leave takes the agent out of its pool. What it used in the window stays used.
func (a *Agent) Leave() {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, joined := p.agents[a]; !joined {
		return
	}
	p.advanceLocked()
	delete(p.agents, a)
	p.divideLocked()
	p.departedUsed += a.windowUsed
	heirs := 0.0 // weights of those with some of their share left
	for b := range p.agents {
		if p.excessLocked(b) < 0 {
			heirs += b.weight
		}
	}
	for b := range p.agents {
		if p.excessLocked(b) < 0 {
			b.reserved += a.reserved * b.weight / heirs
		}
	}
}

// Delivered notes that the agent was given tokens in a turn of its model.
func (a *Agent) Delivered(turn, tokens int) {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	if turn != a.turn {
		a.turn, a.turnUsed = turn, 0
	}
	if a.pooledLocked() {
		p.excess += max(0, tokens-max(0, a.leftLocked()))
	}
	a.addLocked(tokens)
	a.turnUsed += tokens
	a.lastDelivery = p.now()
}

// Correct notes that what was delivered in a turn had so many tokens more than was noted then,
// or less.
func (a *Agent) Adjust(turn, tokens int) {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	a.addLocked(tokens)
	if turn == a.turn {
		a.turnUsed = max(0, a.turnUsed+tokens)
	}
}

// addLocked counts tokens, which come out of what is kept for the agent first.
func (a *Agent) addLocked(tokens int) {
	a.used = max(0, a.used+tokens)
	if _, joined := a.pool.agents[a]; !joined {
		a.pool.departedUsed = max(0, a.pool.departedUsed+tokens)
		return
	}
	a.windowUsed = max(0, a.windowUsed+tokens)
	if tokens > 0 {
		a.reserved = max(0, a.reserved-float64(tokens))
	}
}

// Used is how many tokens the agent was given.
func (a *Agent) Used() int {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.used
}

// Room is what may still be added in a turn.
func (a *Agent) Room(turn int) Room {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	r, out := &p.rules, Unlimited
	bound := func(left int, of float64) {
		out.Left = min(out.Left, left)
		out.Extras = min(out.Extras, left-int(of*r.Reserve))
	}
	if r.Context > 0 && !a.session.Multiplexed {
		bound(r.Context-a.used, float64(r.Context))
	}
	if r.PerTurn > 0 && !a.session.Multiplexed {
		left := r.PerTurn
		if turn == a.turn {
			left -= a.turnUsed
		}
		bound(left, float64(r.PerTurn))
	}
	if a.pooledLocked() {
		bound(a.leftLocked(), p.sharePerWeight*a.weight)
	}
	out.Left, out.Extras = max(0, out.Left), max(0, out.Extras)
	out.Excerpts, out.Optional = max(minExcerpt, out.Left), out.Left >= minExcerpt
	return out
}

// beginLocked begins a window.
func (p *Pool) beginLocked(at age.Moment) {
	p.began, p.departedUsed, p.excess = at, 0, 0
	for a := range p.agents {
		a.windowUsed, a.reserved = 0, p.sharePerWeight*a.weight
	}
}

// advanceLocked begins a new window when the last one is over, and lends what agents could have
// used by now and have not: no more is kept for one than its share of the rest of the window.
func (p *Pool) advanceLocked() {
	now := p.now()
	if past := now.Since(p.began); p.rules.Window > 0 && past >= p.rules.Window {
		p.beginLocked(now.Ago(past % p.rules.Window))
	}
	rest := p.remainingLocked()
	for a := range p.agents {
		a.reserved = min(a.reserved, rest*p.sharePerWeight*a.weight)
	}
}

// restLocked is the part of the window that is not over.
func (p *Pool) remainingLocked() float64 {
	if p.rules.Window <= 0 {
		return 1
	}
	return 1 - float64(p.now().Since(p.began))/float64(p.rules.Window)
}

// divideLocked finds the shares anew, after agents, weights or the pool have changed.
func (p *Pool) divideLocked() {
	weights := 0.0
	for a := range p.agents {
		weights += a.weight
	}
	p.sharePerWeight = float64(p.rules.Pool) / weights
}

// overLocked is what an agent has used beyond its share; below 0: that is left of it.
func (p *Pool) excessLocked(a *Agent) float64 {
	return float64(a.windowUsed) - p.sharePerWeight*a.weight
}

func (p *Pool) usedLocked() int {
	used := p.departedUsed
	for a := range p.agents {
		used += a.windowUsed
	}
	return used
}

// freeLocked is what is neither used nor kept for an agent.
func (p *Pool) freeLocked() float64 {
	free := float64(p.rules.Pool - p.usedLocked())
	for a := range p.agents {
		free -= a.reserved
	}
	return free
}

// sharesLocked reports whether there is a pool, and the agent is in it.
func (a *Agent) pooledLocked() bool {
	_, joined := a.pool.agents[a]
	return joined && a.pool.rules.Pool > 0
}

// asks is the part of a window for which an agent that was given something counts as one that
// wants more.
const activeFraction = 0.05

// leftLocked is what the agent may still use of the pool: what is left of its share, and, once
// that is used up, its part of what is lent. Neither takes from what is kept for others. What
// others were given beyond that, as they asked for it, takes from what is lent, but from no
// agent's share.
func (a *Agent) leftLocked() int {
	p, now := a.pool, a.pool.now()
	free, over := p.freeLocked(), p.excessLocked(a)
	if over <= -1 { // tokens are whole
		return int(min(-over, free+float64(p.excess)+a.reserved))
	}
	borrowed, borrowers := 0.0, 0.0
	recent := time.Duration(activeFraction * float64(p.rules.Window))
	for b := range p.agents {
		if o := p.excessLocked(b); o > -1 && (b == a || now.Since(b.lastDelivery) < recent) {
			borrowed += o
			borrowers += b.weight
		}
	}
	return int(min(free, (free+borrowed)*a.weight/borrowers-over))
}
