package predict

import (
	"slices"

	"mcpschedd/internal/secret"
)

const (
	maxConstants     = 8192 // number of arguments
	maxTop           = 24   // values per argument
	minConstantShare = 20   // a public value counts as a constant if it is at least one in this many of all uses
)

// topValues are the most frequent values of an argument.
type topValues struct {
	Values []topValue
	total  sum // number of uses
	Texts  shape
}

// topValue is the hash of a value with its uses; the value itself is not needed.
type topValue struct {
	Value hash
	In    seenIn
	n     sum
}

func (m *state) learnConstants(tool string, slots []slot, session uint64) {
	for _, a := range slots {
		if a.value.kind == word || len(a.value.text) > 120 || maySecret(a.name, a.value.text) {
			continue
		}
		h := seed.str(tool).str(a.name)
		top := m.constants[h]
		if top == nil && len(m.constants) < maxConstants {
			top = &topValues{}
			m.constants[h] = top
		}
		if top == nil {
			continue
		}
		top.learn(a.value.hash(), session)
		if a.value.kind == text {
			top.Texts.learn(a.value.text)
		}
	}
}

// maySecret reports whether a value with the given name may be a secret.
func maySecret(name, value string) bool {
	return secret.Named(name, value) || len(secret.In(value)) > 0
}

func (t *topValues) learn(v hash, session uint64) {
	t.total.Now++
	i := slices.IndexFunc(t.Values, func(o topValue) bool { return o.Value == v })
	switch {
	case i >= 0:
	case len(t.Values) < maxTop:
		i = len(t.Values)
		t.Values = append(t.Values, topValue{Value: v})
	default: // replace the least used value, and age the others
		i = 0
		for k := range t.Values {
			t.Values[k].n.Now *= 0.98
			if t.Values[k].n.Now < t.Values[i].n.Now {
				i = k
			}
		}
		t.Values[i] = topValue{Value: v}
	}
	t.Values[i].n.Now++
	t.Values[i].In.add(session)
}

func (t *topValues) each(do func(*sum)) {
	do(&t.total)
	for i := range t.Values {
		do(&t.Values[i].n)
	}
}

// merge adds the values of another process.
func (t *topValues) merge(o *topValues) {
	t.total.merge(o.total)
	t.Texts.merge(&o.Texts)
	for _, v := range o.Values {
		i := slices.IndexFunc(t.Values, func(w topValue) bool { return w.Value == v.Value })
		if i < 0 && len(t.Values) < maxTop {
			i = len(t.Values)
			t.Values = append(t.Values, topValue{Value: v.Value})
		}
		if i >= 0 {
			t.Values[i].n.merge(v.n)
			t.Values[i].In.merge(v.In)
		}
	}
}

// matchesShape reports whether a text is similar to the argument's values so far.
func (m *state) matchesShape(argument hash, t string) bool {
	top := m.constants[argument]
	return top == nil || top.Texts.matches(t)
}

// isConstant reports whether the value of an argument counts as a constant.
func (m *state) isConstant(tool string, a slot) bool {
	if a.value.kind == word {
		return true
	}
	top := m.constants[seed.str(tool).str(a.name)]
	if top == nil {
		return false
	}
	h := a.value.hash()
	i := slices.IndexFunc(top.Values, func(o topValue) bool { return o.Value == h })
	return i >= 0 && top.Values[i].In.public() && top.Values[i].n.Now*minConstantShare >= top.total.Now
}
