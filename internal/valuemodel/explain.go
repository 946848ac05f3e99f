package valuemodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
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
	var domains []string
	for _, d := range m.Domains {
		domains = append(domains, d.Name)
	}
	return []field{
		{"value_class", m.ValueClass},
		{"side_effect_class", m.Class},
		{"classify", m.Classify},
		{"domain", strings.Join(domains, ", ")},
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
// come last, so that they do not widen the columns of the others.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, part := range [][]field{m.fields(), m.lists()} {
		for _, f := range part {
			name, _, _ := strings.Cut(f.key, " ") // the value says the rest
			text, source := fmt.Sprint(f.value), m.Sources[f.key]
			if source == "" {
				text, source = "-", "-" // not set
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", name, text, source)
		}
		_ = t.Flush() // a buffer cannot fail
	}
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

// String returns the group's settings on one line.
func (g FieldGroup) String() string {
	text := "fields " + strings.Join(g.Fields, " ")
	if g.EstimatedValue != nil {
		text += fmt.Sprint(", value ", *g.EstimatedValue)
	}
	if g.DefaultInclude != nil {
		text += fmt.Sprint(", included ", *g.DefaultInclude)
	}
	return text
}

// String returns the follow-up on one line, without its tool.
func (f FollowUp) String() string {
	var text strings.Builder
	text.WriteString("probability " + strconv.FormatFloat(f.Probability, 'g', 3, 64))
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		fmt.Fprintf(&text, ", %s = %s", name, f.Args[name])
	}
	if f.Max > 0 {
		text.WriteString(", at most " + strconv.Itoa(f.Max))
	}
	return text.String()
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

// String says which results of its tool an edge invalidates.
func (e Edge) String() string {
	if len(e.Match) == 0 {
		return "all"
	}
	return "same " + strings.Join(e.Match, ", ")
}
