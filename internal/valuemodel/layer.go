package valuemodel

import (
	"cmp"
	"slices"
)

// merge overrides the model's fields with those that the rule's layer sets. Edges are added;
// follow-ups and field groups are merged one by one. The class and invalidates_only are
// not merged, as not every layer may set them.
func (m *Model) merge(r Rule) {
	l := r.Layer
	setField(m, "value_class", r, &m.ValueClass, l.ValueClass)
	setField(m, "classify", r, &m.Classify, l.Classify)
	setField(m, "rate_limit_host", r, &m.Host, l.Host)
	setField(m, "speculate", r, &m.Speculate, l.Speculate)
	setField(m, "disclosure", r, &m.Disclosure, l.Disclosure)
	setField(m, "volatile", r, &m.Volatile, l.Volatile)
	setField(m, "fail_fast_after_n", r, &m.FailFastAfter, l.FailFastAfter)
	setField(m, "validate", r, &m.Validate.File, l.Validate.File)
	setField(m, "url_argument", r, &m.URLArgument, l.URLArgument)
	setField(m, "cost_model.typical_kb", r, &m.Cost.TypicalKB, l.Cost.TypicalKB)
	setField(m, "cost_model.max_kb", r, &m.Cost.MaxKB, l.Cost.MaxKB)
	setField(m, "cost_model.latency_ms_p50", r, &m.Cost.Latency, l.Cost.Latency)
	setField(m, "cost_model.dollars", r, &m.Cost.Dollars, l.Cost.Dollars)
	setField(m, "cost_model.freshness_ttl_s", r, &m.Cost.Freshness, l.Cost.Freshness)
	mergeEdges(m, r)
	mergeGroups(m, r)
	mergeFollowUps(m, r)
}

// setField overrides a field with a value of the rule's layer if it is not zero.
func setField[T comparable](m *Model, key string, r Rule, field *T, value T) {
	var unset T
	if value != unset {
		*field = value
		m.Sources[key] = r.source(key)
	}
}

func mergeEdges(m *Model, r Rule) {
	for _, e := range r.Invalidates {
		e = e.sorted()
		if !slices.ContainsFunc(m.Invalidates, func(have Edge) bool { return have.id() == e.id() }) {
			m.Invalidates = append(m.Invalidates, e)
		}
		m.Sources[e.Key()] = r.source("invalidates")
	}
}

func mergeGroups(m *Model, r Rule) {
	for name, g := range r.FieldGroups {
		if m.FieldGroups == nil {
			m.FieldGroups = make(map[string]FieldGroup)
		}
		have := m.FieldGroups[name]
		if g.Fields != nil {
			have.Fields = g.Fields
		}
		have.EstimatedValue = cmp.Or(g.EstimatedValue, have.EstimatedValue)
		have.DefaultInclude = cmp.Or(g.DefaultInclude, have.DefaultInclude)
		m.FieldGroups[name] = have
		m.Sources["field_groups."+name] = r.source("field_groups." + name)
	}
}

// mergeFollowUps treats follow-ups with the same tool and arguments as the same.
func mergeFollowUps(m *Model, r Rule) {
	for _, f := range r.FollowUps {
		m.Sources[f.Key()] = r.source("follow_up")
		i := slices.IndexFunc(m.FollowUps, func(have FollowUp) bool { return have.Key() == f.Key() })
		if i < 0 {
			m.FollowUps = append(m.FollowUps, f)
			continue
		}
		have := &m.FollowUps[i]
		have.Probability, have.Max = cmp.Or(f.Probability, have.Probability), cmp.Or(f.Max, have.Max)
	}
}
