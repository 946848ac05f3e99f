package predict

const (
	maxProposals  = 64 // after one call
	maxOutcomes   = 8192
	proposalWorth = 4 // of what is known more generally, in labels
)

// Proposal is a call that somebody else derived from a result: a configured
// follow-up.
type Proposal struct {
	Tool      string
	Arguments string  // canonical
	Edge      string  // names the follow-up and its bindings: where its outcomes count
	Rank      int     // in the list its argument comes from
	Of        int     // how long that list is
	Prior     float64 // probability that it is made, as configured; 0: Options.Prior
	Free      bool    // no argument of it was read off a result
}

// proposal is a proposal that is remembered with its call.
type proposal struct {
	Proposal
	edge hash // where its outcomes count, whatever its rank
	call hash
	made bool // the call was made since
}

// Propose adds what follows from a call whose result is known. They are candidates
// as long as the call is remembered and its own answer holds. A tool that is no
// target may be proposed: who proposes it decides what may be run early. Proposals
// after a call that is not remembered, or past 64 after one call, are ignored.
func (s *History) Propose(id uint64, p []Proposal) {
	e := s.event(id)
	if e == nil || e.values == nil {
		return
	}
	for _, one := range p {
		if len(e.proposals) < maxProposals && len(one.Tool) <= maxName && len(one.Arguments) <= maxSplit {
			e.proposals = append(e.proposals, s.m.proposal(one))
		}
	}
}

func (m *Learner) proposal(p Proposal) proposal {
	if p.Prior == 0 {
		p.Prior = usualPrior
	}
	return proposal{Proposal: p, edge: seed.num(3).str(p.Edge).str(p.Tool), call: callHash(p.Tool, p.Arguments)}
}

// propose collects what was proposed after a call. What was proposed after a newer
// one stands.
func (c *collector) propose(e *event) {
	for i := range e.proposals {
		p := &e.proposals[i]
		if p.made {
			continue
		}
		d := c.candidate(p.Tool, p.Arguments)
		if d == nil {
			return
		}
		d.free = d.free || p.Free
		if d.proposal == nil {
			d.proposal, d.after = p, e
		}
	}
}

// configured is the posterior probability of what was proposed, and notes where its
// label counts. In its first turn it is that of its rank, backed off to its follow-up,
// backed off to what was configured. Later it is no more than that, and less if what
// was not asked for at once turned out not to be asked for at all.
func (f *features) configured(c *candidate) float64 {
	p, m, k := c.proposal, f.s.m, &c.sample
	edge, rank := m.outcome(p.edge), m.outcome(p.edge.num(bucket(p.Rank)))
	first := rank.mean(edge.mean(p.Prior, proposalWorth), proposalWorth)
	dist := distance(f.s.turn - c.after.turn)
	if dist == 0 {
		k.outcomes = append(k.outcomes, edge, rank)
		return first
	}
	later := m.outcome(p.edge.num(-dist))
	k.outcomes = append(k.outcomes, later)
	return min(first, later.mean(first, proposalWorth))
}

// outcome is what came of proposals.
func (m *Learner) outcome(of hash) *outcome {
	o := m.outcomes[of]
	if o == nil {
		o = &outcome{}
		if len(m.outcomes) < maxOutcomes {
			m.outcomes[of] = o
		}
	}
	return o
}
