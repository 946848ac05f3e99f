package valuemodel

import "slices"

// merge overrides the model's fields with those that the layer sets. Edges are added;
// follow-ups and field groups are merged one by one. The class and invalidates_only are
// not merged, as not every layer may set them.
func (m *Model) merge(l Layer, source string) {
	setField(m, "value_class", source, &m.ValueClass, l.ValueClass)
	setField(m, "classify", source, &m.Classify, l.Classify)
	setField(m, "rate_limit_host", source, &m.Host, l.Host)
	setField(m, "speculate", source, &m.Speculate, l.Speculate)
	setField(m, "disclosure", source, &m.Disclosure, l.Disclosure)
	setField(m, "volatile", source, &m.Volatile, l.Volatile)
	setField(m, "fail_fast_after_n", source, &m.FailFastAfter, l.FailFastAfter)
	setField(m, "validate", source, &m.Validate.File, l.Validate.File)
	setField(m, "url_argument", source, &m.URLArgument, l.URLArgument)
	setField(m, "cost_model.typical_kb", source, &m.Cost.TypicalKB, l.Cost.TypicalKB)
	setField(m, "cost_model.max_kb", source, &m.Cost.MaxKB, l.Cost.MaxKB)
	setField(m, "cost_model.latency_ms_p50", source, &m.Cost.Latency, l.Cost.Latency)
	setField(m, "cost_model.dollars", source, &m.Cost.Dollars, l.Cost.Dollars)
	setField(m, "cost_model.freshness_ttl_s", source, &m.Cost.Freshness, l.Cost.Freshness)
	mergeEdges(m, l.Invalidates, source)
	mergeGroups(m, l.FieldGroups, source)
	mergeFollowUps(m, l.FollowUps, source)
}

// setField overrides a field if the layer's value is not zero.
func setField[T comparable](m *Model, key, source string, field *T, value T) {
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

// mergeFollowUps treats follow-ups with the same tool and arguments as the same.
func mergeFollowUps(m *Model, next []FollowUp, source string) {
	for _, f := range next {
		m.Sources[f.Key()] = source
		i := slices.IndexFunc(m.FollowUps, func(have FollowUp) bool { return have.Key() == f.Key() })
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
