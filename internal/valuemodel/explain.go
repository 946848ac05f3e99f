package valuemodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// field is a field of a model for display.
type field struct {
	key   string // in [Model.Sources]: the configuration key, of a list with what identifies its element
	value any
}

// fields returns the fields with a single value, which are short.
func (m *Model) fields() []field {
	return []field{
		{"value_class", m.ValueClass},
		{"side_effect_class", m.Class},
		{"classify", m.Classify},
		{"domain", strings.Join(m.Domains, ", ")},
		{"remote", m.Remote},
		{"rate_limit_host", m.Host},
		{"url_argument", m.URLArgument},
		{"speculate", isTrue(m.Speculate)},
		{"disclosure", m.Disclosure},
		{"volatile", isTrue(m.Volatile)},
		{"fail_fast_after_n", m.FailFastAfter},
		{"validate", m.Validate.File},
		{"cost_model.typical_kb", m.Cost.TypicalKB},
		{"cost_model.max_kb", m.Cost.MaxKB},
		{"cost_model.latency_ms_p50", float64(m.Cost.Latency) / float64(time.Millisecond)},
		{"cost_model.dollars", m.Cost.Dollars},
		{"cost_model.freshness_ttl_s", m.Cost.Freshness.Seconds()},
		{"invalidates_only", isTrue(m.InvalidatesOnly)},
	}
}

// lists returns the field groups, follow-ups and edges.
func (m *Model) lists() (all []field) {
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) {
		all = append(all, field{"field_groups." + name, m.FieldGroups[name]})
	}
	for _, f := range m.FollowUps {
		all = append(all, field{f.Key(), f})
	}
	for _, e := range m.Invalidates {
		all = append(all, field{e.Key(), e})
	}
	return all
}

// WriteTo writes a table of all fields, their values and the layers that set them. Lists
// come last, as JSON, so that they do not widen the columns of the others.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range m.fields() {
		if source := m.Sources[f.key]; source != "" {
			fmt.Fprintf(t, "%s\t%v\t%s\n", f.key, f.value, source)
		} else {
			fmt.Fprintf(t, "%s\t-\t-\n", f.key) // not set
		}
	}
	_ = t.Flush() // a buffer cannot fail
	for _, f := range m.lists() {
		name, _, _ := strings.Cut(f.key, " ") // the value says the rest
		text, _ := json.Marshal(f.value)      // it was decoded from TOML
		fmt.Fprintf(t, "%s\t%s\t%s\n", name, text, m.Sources[f.key])
	}
	_ = t.Flush()
	return b.WriteTo(w)
}

// MarshalJSON returns all fields by their configuration keys, with the layers that set
// them.
func (m *Model) MarshalJSON() ([]byte, error) {
	type sourced struct {
		Value  any    `json:"value"`            // null if not set
		Source string `json:"source,omitempty"` // "" if not set
	}
	fields := make(map[string]sourced)
	for _, f := range append(m.fields(), m.lists()...) {
		fields[f.key] = sourced{}
		if source := m.Sources[f.key]; source != "" {
			fields[f.key] = sourced{f.value, source}
		}
	}
	return json.Marshal(map[string]any{"upstream": m.Upstream, "tool": m.Tool, "provider": m.Provider, "fields": fields})
}

// Key returns the key of the follow-up in [Model.Sources].
func (f FollowUp) Key() string {
	var key strings.Builder
	key.WriteString("follow_up." + f.Tool)
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		key.WriteString(" " + name + "=" + f.Args[name].String())
	}
	return key.String()
}
