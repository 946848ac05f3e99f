package predict

import "slices"

// absorb adds to a model what another one learned since its state was loaded.
func (m *Learner) absorb(o *Learner) {
	m.sessions = max(m.sessions, o.sessions)
	for h, b := range o.counts.m {
		c := m.counts.m[h]
		m.counts.m[h] = c.plus(b)
	}
	if len(m.counts.m) > maxCounts {
		m.counts.evict()
	}
	for h, t := range o.order.total {
		m.order.total[h] = m.order.total[h].plus(t)
	}
	for h, t := range o.order.joint {
		m.order.joint[h] = m.order.joint[h].plus(t)
	}
	m.order.bound()
	for set, w := range o.mixers {
		m.mixer(set).plus(w)
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
		m.edge(n).plus(e)
	}
	for tool, why := range o.bars {
		m.bar(tool, why)
	}
}

func (b beta) plus(o beta) beta {
	return beta{hits: b.hits + o.freshHits, n: b.n + o.freshN}
}

// plus adds the steps that another one's weights took.
func (m *weights) plus(o *weights) {
	for i := range m.w {
		m.w[i] = min(max(m.w[i]+o.w[i]-o.loaded[i], -maxWeight), maxWeight)
		m.seen[i] += o.seen[i] - o.loadedSeen[i]
	}
	m.loaded, m.loadedSeen = m.w, m.seen
}

func (m *Learner) absorbTemplate(t *template) {
	known := m.templates[t.trigger]
	i := slices.IndexFunc(known, func(o *template) bool { return o.id == t.id })
	switch {
	case i >= 0:
		known[i].support = known[i].support.plus(t.support)
		known[i].deepest = max(known[i].deepest, t.deepest)
		known[i].owners = known[i].owners.plus(t.owners)
	case m.room(known):
		c := *t
		c.support = tally{n: t.support.n}
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
	for i, n := range o.fresh {
		q.cell[i] += n
		q.n += n
	}
}

func (e *trust) plus(o *trust) {
	if o.back {
		*e = trust{labels: o.fresh, drift: o.drift}
		return
	}
	e.labels += o.fresh
	e.drift = max(e.drift, o.drift)
}
