package enrich

import (
	"cmp"
	"slices"
)

// ground sorts the candidates so that each stands behind what it needs. One that
// needs what is declined is declined for the same reason; one that needs itself
// cannot be had.
func (p *picking) ground() {
	waiting := make([]int, 0, len(p.all))
	for i := range p.all {
		if s := &p.stands[i]; s.same == i && s.reason == "" {
			s.reason = p.resolve(i)
			waiting = append(waiting, i)
		}
	}
	p.sorted = make([]int, 0, len(waiting))
	placed := make([]bool, len(p.all))
	for found := true; found && len(waiting) > 0; {
		before := len(waiting)
		waiting = slices.DeleteFunc(waiting, func(i int) bool {
			s := &p.stands[i]
			ready := !slices.ContainsFunc(s.needs, func(k int) bool { return p.stands[k].reason == "" && !placed[k] })
			if ready {
				placed[i] = true
				p.sorted = append(p.sorted, i)
			}
			return ready
		})
		found = len(waiting) < before
	}
	for _, i := range waiting {
		p.stands[i].reason = NotSpeculatable
	}
	p.inherit()
}

// resolve finds what a candidate needs that is not had already.
func (p *picking) resolve(i int) Reason {
	for _, k := range p.all[i].Needs {
		if k < 0 || k >= len(p.all) {
			return NotSpeculatable
		}
		k = p.stands[k].same
		if had := p.all[k].Reason; had != Stored && had != InFlight {
			p.stands[i].needs = append(p.stands[i].needs, k)
		}
	}
	return ""
}

// inherit declines what needs something that is declined.
func (p *picking) inherit() {
	for _, i := range p.sorted {
		s := &p.stands[i]
		for _, k := range s.needs {
			s.reason = cmp.Or(s.reason, p.stands[k].reason)
		}
	}
}

// closure is a candidate with all that it needs.
func (p *picking) closure(i int) []int {
	all := []int{i}
	for n := 0; n < len(all); n++ {
		for _, k := range p.stands[all[n]].needs {
			if !slices.Contains(all, k) {
				all = append(all, k)
			}
		}
	}
	return all
}
