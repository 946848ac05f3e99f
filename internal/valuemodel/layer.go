package valuemodel

import (
	"maps"
	"slices"
)

// merge puts a layer on top of those merged before: what it sets wins, field by
// field. Edges only add; follow-ups and field groups merge one by one. Not merged
// are the class and invalidates_only, which not every layer may set.
func (m *Model) merge(l Layer, source string) {
	put(m, "value_class", source, &m.ValueClass, l.ValueClass)
	put(m, "classify", source, &m.Classify, l.Classify)
	put(m, "rate_limit_host", source, &m.Host, l.Host)
	put(m, "speculate", source, &m.Speculate, l.Speculate)
	put(m, "disclosure", source, &m.Disclosure, l.Disclosure)
	put(m, "volatile", source, &m.Volatile, l.Volatile)
	put(m, "fail_fast_after_n", source, &m.FailFastAfter, l.FailFastAfter)
	put(m, "validate", source, &m.ValidateFile, l.ValidateFile)
	put(m, "url_argument", source, &m.URLArgument, l.URLArgument)
	put(m, "cost_model.typical_kb", source, &m.Cost.TypicalKB, l.Cost.TypicalKB)
	put(m, "cost_model.max_kb", source, &m.Cost.MaxKB, l.Cost.MaxKB)
	put(m, "cost_model.latency_ms_p50", source, &m.Cost.Latency, l.Cost.Latency)
	put(m, "cost_model.dollars", source, &m.Cost.Dollars, l.Cost.Dollars)
	put(m, "cost_model.freshness_ttl_s", source, &m.Cost.Freshness, l.Cost.Freshness)
	mergeEdges(m, l.Invalidates, source)
	mergeGroups(m, l.FieldGroups, source)
	mergeFollowUps(m, l.FollowUps, source)
}

// put sets a field that the layer sets.
func put[T comparable](m *Model, key, source string, field *T, value T) {
	var unset T
	if value != unset {
		*field = value
		m.Sources[key] = source
	}
}

func mergeEdges(m *Model, edges []Edge, source string) {
	for _, e := range edges {
		e = e.sorted()
		if !slices.ContainsFunc(m.Invalidates, func(have Edge) bool { return have.key() == e.key() }) {
			m.Invalidates = append(m.Invalidates, e)
		}
		m.Sources[e.Key()] = source
	}
}

func mergeGroups(m *Model, groups map[string]FieldGroup, source string) {
	for name, g := range groups {
		if m.FieldGroups == nil {
			m.FieldGroups = make(map[string]FieldGroup)
		}
		have := m.FieldGroups[name]
		if g.Fields != nil {
			have.Fields = g.Fields
		}
		if g.EstimatedValue != nil {
			have.EstimatedValue = g.EstimatedValue
		}
		if g.DefaultInclude != nil {
			have.DefaultInclude = g.DefaultInclude
		}
		m.FieldGroups[name] = have
		m.Sources["field_groups."+name] = source
	}
}

// mergeFollowUps takes two with the same tool and arguments for one.
func mergeFollowUps(m *Model, next []FollowUp, source string) {
	for _, f := range next {
		m.Sources[f.Key()] = source
		i := slices.IndexFunc(m.FollowUps, func(have FollowUp) bool {
			return have.Tool == f.Tool && maps.EqualFunc(have.Args, f.Args, Binding.same)
		})
		if i < 0 {
			m.FollowUps = append(m.FollowUps, f)
			continue
		}
		if f.Probability != 0 {
			m.FollowUps[i].Probability = f.Probability
		}
		if f.Max != 0 {
			m.FollowUps[i].Max = f.Max
		}
	}
}
