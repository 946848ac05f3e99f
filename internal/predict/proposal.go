package predict

// Bounds on proposals.
const (
	maxProposals = 64 // after one call
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
}

// Propose adds what follows from a call whose result is known. They are candidates
// as long as the call is remembered and its own answer holds. A tool that is no
// target may be proposed: who proposes it decides what may be run early. Proposals
// after a call that is not remembered, or past 64 after one call, are ignored.
func (s *Session) Propose(id uint64, p []Proposal) {
	e := s.event(id)
	if e == nil || e.values == nil {
		return
	}
	for _, one := range p {
		if len(e.proposals) < maxProposals && len(one.Arguments) <= maxArguments {
			e.proposals = append(e.proposals, s.m.proposal(one))
		}
	}
}

func (m *Model) proposal(p Proposal) proposal {
	if p.Prior == 0 {
		p.Prior = m.opt.Prior
	}
	return proposal{p, seed.num(3).str(p.Edge).str(p.Tool)}
}

// ranked is where the outcomes of a proposal of its rank count.
func (p *proposal) ranked() hash { return p.edge.num(bucket(p.Rank)) }

// likely is the posterior probability of a proposal: that of its rank, backed off
// to its follow-up, backed off to what was configured.
func (m *Model) likely(p *proposal) float64 {
	if m.opt.Static {
		return p.Prior
	}
	return m.counts.m[p.ranked()].mean(m.counts.m[p.edge].mean(p.Prior))
}
