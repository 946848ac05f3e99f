package predict

import "slices"

// absorb adds to a model what another one learned since its state was loaded.
func (m *Learner) absorb(o *Learner) {
	m.sessions = max(m.sessions, o.sessions)
	m.weights.plus(&o.weights)
	for h, other := range o.outcomes {
		known := m.outcome(h)
		*known = known.plus(*other)
	}
	for _, list := range o.templates {
		for _, t := range list {
			m.absorbTemplate(t)
		}
	}
	for h, w := range o.withheld {
		m.withhold(h, w)
	}
	for h, f := range o.constants {
		if m.constants[h] == nil {
			m.constants[h] = &few{}
		}
		m.constants[h].plus(f)
	}
	for name, t := range o.tools {
		m.tool(name).plus(t)
	}
	for n, e := range o.edges {
		known := m.edge(n)
		known.labels = known.labels.plus(e.labels)
	}
	for tool, why := range o.bars {
		m.bar(tool, why)
	}
}

func (m *Learner) absorbTemplate(t *template) {
	known := m.templates[t.trigger]
	i := slices.IndexFunc(known, func(o *template) bool { return o.id == t.id })
	switch {
	case i >= 0:
		k := known[i]
		k.support = k.support.plus(t.support)
		for r := range k.ranks {
			k.ranks[r] = k.ranks[r].plus(t.ranks[r])
		}
		known[i].deepest = max(known[i].deepest, t.deepest)
		known[i].owners = known[i].owners.plus(t.owners)
	case m.room(known):
		c := *t
		c.support = sum{}.plus(t.support)
		for r := range c.ranks {
			c.ranks[r] = outcome{}.plus(t.ranks[r])
		}
		if w, ok := m.withheld[t.id]; ok {
			c.owners, c.support = w.owners.plus(t.owners), w.support.plus(t.support)
			delete(m.withheld, t.id)
		}
		m.keep(&c)
	case t.private():
		m.withhold(t.id, withheld{*t.owners, t.support})
	}
}

func (f *few) plus(o *few) {
	f.total = f.total.plus(o.total)
	f.texts.plus(&o.texts)
	for _, v := range o.values {
		i := slices.IndexFunc(f.values, func(w often) bool { return w.value == v.value })
		if i < 0 && len(f.values) < maxFew {
			i = len(f.values)
			f.values = append(f.values, often{value: v.value})
		}
		if i >= 0 {
			f.values[i].n = f.values[i].n.plus(v.n)
			f.values[i].in = f.values[i].in.plus(v.in)
		}
	}
}

func (t *toolStats) plus(o *toolStats) {
	t.latency.plus(&o.latency)
	t.size.plus(&o.size)
	t.lead.plus(&o.lead)
	t.useful = t.useful.plus(o.useful)
	t.agreed = t.agreed.plus(o.agreed)
	t.labels = t.labels.plus(o.labels)
}

func (q *sketch) plus(o *sketch) {
	q.n = 0
	for i, c := range o.cell {
		q.cell[i] = q.cell[i].plus(c)
		q.n += q.cell[i].now
	}
}
