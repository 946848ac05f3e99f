package predict

import "slices"

const (
	maxConstants = 8192 // arguments
	maxFew       = 24   // values remembered for one argument
	fixedShare   = 20   // a public value counts as always the same if it is one in as many of all uses
)

// few are the values that an argument has most often.
type few struct {
	values []often
	total  sum // uses
	texts  likeness
}

type often struct {
	value hash // of the value: nothing here needs to know what it is
	n     sum
	in    seenIn
}

func (m *Learner) learnConstants(tool string, slots []slot, session uint64) {
	for _, a := range slots {
		if a.value.kind == word || len(a.value.text) > 120 || hasSecret([]slot{a}) {
			continue
		}
		h := seed.str(tool).str(a.name)
		f := m.constants[h]
		if f == nil && len(m.constants) < maxConstants {
			f = &few{}
			m.constants[h] = f
		}
		if f == nil {
			continue
		}
		f.learn(a.value.hash(), session)
		if a.value.kind == text {
			f.texts.learn(a.value.text)
		}
	}
}

func (f *few) learn(v hash, session uint64) {
	f.total.now++
	i := slices.IndexFunc(f.values, func(o often) bool { return o.value == v })
	if i < 0 {
		i = len(f.values)
		if i < maxFew {
			f.values = append(f.values, often{value: v})
		} else {
			i = f.weakest()
			f.values[i] = often{value: v}
		}
	}
	o := &f.values[i]
	o.n.now++
	o.in.see(session)
}

// weakest is the value seen least, each loss making the others weaker.
func (f *few) weakest() int {
	at := 0
	for i := range f.values {
		f.values[i].n.now *= 0.98
		if f.values[i].n.now < f.values[at].n.now {
			at = i
		}
	}
	return at
}

// like reports whether a text could be the value of an argument, by those that it had.
func (m *Learner) like(argument hash, t string) bool {
	f := m.constants[argument]
	return f == nil || f.texts.has(t)
}

// fixed reports whether the value of an argument may be taken for a constant.
func (m *Learner) fixed(tool string, a slot) bool {
	if a.value.kind == word {
		return true
	}
	f := m.constants[seed.str(tool).str(a.name)]
	if f == nil {
		return false
	}
	h := a.value.hash()
	for _, o := range f.values {
		if o.value == h {
			return o.in.public() && o.n.now*fixedShare >= f.total.now
		}
	}
	return false
}

func (v scalar) hash() hash { return seed.num(int(v.kind)).str(v.text) }
