// Package budget divides the tokens that answers add to models' contexts: the budget of one
// session, of one turn of its model, and of a pool that several sessions share in a time window.
//
// An answer that a client asked for is always delivered, and counted. Only optional tokens must
// fit into what is left ([Agent.Room]): first additions to answers are dropped, then excerpts of
// plans' results shrink, and last the optional steps of plans are skipped.
//
//	p := budget.NewPool(budget.Rules{Context: 100_000, Pool: 400_000, Window: time.Hour})
//	a := p.Join(budget.Session{Client: "claude-code"})
//	a.Delivered(turn, tokens)
//	room := a.Room(turn)
//
// A pool is divided by weight. An agent may use its share at any time. What it has not used of
// the elapsed part of the window is lent, by weight, to agents that have used up their shares.
// So from when it joins, each agent keeps its share of the rest of the window, whatever other
// agents use. This is weighted max-min fairness over time (Bertsekas and Gallager, Data Networks,
// 6.5.2).
//
// Shares depend only on counted deliveries and on weights, which the operator assigns by the
// client's name. That name is the client's own claim: weights divide a budget among one user's
// programs, and do not protect against a program that takes another's name or opens many sessions.
//
// The package does not count tokens.
package budget

import (
	"cmp"
	"math"
	"sync"
	"time"

	"mcpschedd/internal/age"
)

// Unbounded is the room without a bound.
const Unbounded = math.MaxInt

// minExcerpt is the number of tokens that a plan may always return, as its reads were asked for.
// With less left, its optional steps are skipped.
const minExcerpt = 500

// Rules are the budgets. A zero bound means none. The tags are the keys of [budgets] in the
// configuration.
type Rules struct {
	Context int                `toml:"context_tokens" min:"0"`                 // tokens per session
	PerTurn int                `toml:"per_turn" min:"0"`                       // tokens per turn of a session's model
	Reserve float64            `toml:"reserve" default:"0.25" min:"0" max:"1"` // part of each bound that extras must leave
	Pool    int                `toml:"pool_tokens" min:"0"`                    // tokens of all sessions per window
	Window  time.Duration      `toml:"window" default:"5h"`                    // of the pool; 0 for one that never ends
	Weights map[string]float64 `toml:"weights" min:"0.001" max:"1000"`         // client → its weight; default 1
}

// Enabled reports whether any budget is set.
func (r *Rules) Enabled() bool { return r.Context > 0 || r.PerTurn > 0 || r.Pool > 0 }

// weight returns the weight of a client's agents.
func (r *Rules) weight(client string) float64 { return cmp.Or(r.Weights[client], 1) }

// Session describes an agent when it joins.
type Session struct {
	Client      string // the name it reports
	Multiplexed bool   // several conversations share it, so Context and PerTurn do not apply
}

// Room is what is left in a turn for tokens that were not asked for.
type Room struct {
	Left     int  // tokens up to the nearest bound, or [Unbounded]
	Extras   int  // tokens that may be added to answers unasked
	Excerpts int  // tokens that a plan may return from its results
	Optional bool // whether optional steps of plans run
}

// Unlimited is the room without any budget.
var Unlimited = Room{Unbounded, Unbounded, Unbounded, true}

// Pool is the budget of a window and the agents that share it.
type Pool struct {
	mu             sync.Mutex
	rules          Rules
	began          age.Moment // start of the window
	agents         map[*Agent]struct{}
	sharePerWeight float64 // share of an agent with weight 1
	departedUsed   int     // tokens used in this window by agents that have left
	overdrawn      int     // tokens of this window delivered on request beyond what their agent had left
}

// NewPool returns a pool without agents.
func NewPool(r Rules) *Pool {
	return &Pool{rules: r, began: age.Now(), agents: make(map[*Agent]struct{})}
}

// Configure replaces the rules. Used tokens stay counted. A new window begins if there was no
// pool, or its window has changed.
func (p *Pool) Configure(r Rules) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old, perWeight := p.rules, p.sharePerWeight
	p.rules = r
	p.divideLocked()
	for a := range p.agents { // a reservation grows with its share; advanceLocked reduces it
		a.reserved += max(0, a.shareLocked()-perWeight*old.weight(a.session.Client))
	}
	if old.Pool == 0 || old.Window != r.Window {
		p.beginLocked(age.Now())
	}
}

// Used returns the tokens used in the window, and the rest of the window's time.
func (p *Pool) Used() (tokens int, left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	return p.usedLocked(), max(0, p.rules.Window-age.Now().Since(p.began))
}

// Agent is one session in a pool. The pool's mutex guards it.
type Agent struct {
	pool    *Pool
	session Session

	used, turn, turnUsed int // tokens in total, the current turn, and tokens in that turn

	windowUsed   int        // tokens used in the pool's window
	reserved     float64    // tokens of the pool that no other agent may use
	lastDelivery age.Moment // time of the last delivery
}

// Join adds an agent.
func (p *Pool) Join(s Session) *Agent {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &Agent{pool: p, session: s}
	p.agents[a] = struct{}{}
	p.divideLocked()
	p.advanceLocked() // reduces what the other agents have reserved, or begins a window and reserves for all
	a.reserved = 0    // it is not among what is free
	a.reserved = max(0, min(p.remainingLocked()*a.shareLocked(), p.freeLocked()))
	return a
}

// Leave removes the agent. What it used stays counted in the window.
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
	heirWeight := 0.0 // weights of the agents with a rest of their share
	for b := range p.agents {
		if b.excessLocked() < 0 {
			heirWeight += b.weightLocked()
		}
	}
	for b := range p.agents {
		if b.excessLocked() < 0 {
			b.reserved += a.reserved * b.weightLocked() / heirWeight
		}
	}
}

// Delivered records tokens delivered to the agent in a turn of its model.
func (a *Agent) Delivered(turn, tokens int) {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advanceLocked()
	if turn != a.turn {
		a.turn, a.turnUsed = turn, 0
	}
	if a.pooledLocked() {
		p.overdrawn += max(0, tokens-max(0, a.leftLocked()))
	}
	a.used, a.turnUsed, a.lastDelivery = a.used+tokens, a.turnUsed+tokens, age.Now()
	if _, joined := p.agents[a]; !joined {
		p.departedUsed += tokens
		return
	}
	a.windowUsed += tokens
	a.reserved = max(0, a.reserved-float64(tokens)) // its own use reduces it first
}

// Used returns the tokens delivered to the agent in total.
func (a *Agent) Used() int {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.used
}

// Room returns what may still be delivered in a turn.
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
		bound(a.leftLocked(), a.shareLocked())
	}
	out.Left, out.Extras = max(0, out.Left), max(0, out.Extras)
	out.Excerpts, out.Optional = max(minExcerpt, out.Left), out.Left >= minExcerpt
	return out
}

// beginLocked begins a window.
func (p *Pool) beginLocked(at age.Moment) {
	p.began, p.departedUsed, p.overdrawn = at, 0, 0
	for a := range p.agents {
		a.windowUsed, a.reserved = 0, a.shareLocked()
	}
}

// advanceLocked begins a new window when the last one has ended. It also limits each reservation to the
// agent's share of the rest of the window; what that frees may be lent.
func (p *Pool) advanceLocked() {
	now := age.Now()
	if elapsed := now.Since(p.began); p.rules.Window > 0 && elapsed >= p.rules.Window {
		p.beginLocked(now.Ago(elapsed % p.rules.Window))
	}
	rest := p.remainingLocked()
	for a := range p.agents {
		a.reserved = min(a.reserved, rest*a.shareLocked())
	}
}

// remainingLocked is the fraction of the window that is left.
func (p *Pool) remainingLocked() float64 {
	if p.rules.Window <= 0 {
		return 1
	}
	return 1 - float64(age.Now().Since(p.began))/float64(p.rules.Window)
}

// divideLocked recomputes the shares after a change of agents, weights or pool.
func (p *Pool) divideLocked() {
	weights := 0.0
	for a := range p.agents {
		weights += a.weightLocked()
	}
	p.sharePerWeight = float64(p.rules.Pool) / weights
}

// weightLocked is the agent's weight.
func (a *Agent) weightLocked() float64 { return a.pool.rules.weight(a.session.Client) }

// shareLocked is the agent's share of the pool.
func (a *Agent) shareLocked() float64 { return a.pool.sharePerWeight * a.weightLocked() }

// excessLocked is what an agent has used beyond its share; negative if some of it is left.
func (a *Agent) excessLocked() float64 { return float64(a.windowUsed) - a.shareLocked() }

func (p *Pool) usedLocked() int {
	used := p.departedUsed
	for a := range p.agents {
		used += a.windowUsed
	}
	return used
}

// freeLocked is the part of the pool that is neither used nor reserved.
func (p *Pool) freeLocked() float64 {
	free := float64(p.rules.Pool - p.usedLocked())
	for a := range p.agents {
		free -= a.reserved
	}
	return free
}

// pooledLocked reports whether there is a pool and the agent is in it.
func (a *Agent) pooledLocked() bool {
	_, joined := a.pool.agents[a]
	return joined && a.pool.rules.Pool > 0
}

// activeFraction is the part of a window after a delivery during which an agent counts as one
// that wants more.
const activeFraction = 0.05

// leftLocked is what the agent may still use of the pool: the rest of its share or, once that is
// used up, its part of what is lent. Neither takes from other agents' reservations. Tokens
// delivered on request beyond a share reduce what is lent, but no agent's share.
func (a *Agent) leftLocked() int {
	p, now := a.pool, age.Now()
	free, excess := p.freeLocked(), a.excessLocked()
	if excess <= -1 { // half a token is not a rest, as tokens are whole
		return int(min(-excess, free+float64(p.overdrawn)+a.reserved))
	}
	borrowed, borrowers := 0.0, 0.0
	recent := time.Duration(activeFraction * float64(p.rules.Window))
	for b := range p.agents {
		if o := b.excessLocked(); o > -1 && (b == a || now.Since(b.lastDelivery) < recent) {
			borrowed += o
			borrowers += b.weightLocked()
		}
	}
	return int(min(free, (free+borrowed)*a.weightLocked()/borrowers-excess))
}
