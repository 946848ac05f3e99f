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

// field is a field of a model for display: value in JSON, text in the table.
type field struct {
	key   string // configuration key
	value any
	text  string
}

// fields returns the fields with a single value.
func (m *Model) fields() []field {
	names, domains := []string{}, []map[string]any{}
	for _, d := range m.Domains {
		names, domains = append(names, d.Name), append(domains, map[string]any{"name": d.Name, "remote": d.Remote})
	}
	only := formatBool(m.InvalidatesOnly)
	if m.OnlyIgnored {
		only = "false (true is ignored: the tool has no invalidates)"
	}
	repeats := strconv.Itoa(m.FailFastAfter)
	if !m.BackOff {
		repeats += " (a hint only)"
	}
	return []field{
		{"value_class", m.ValueClass, string(m.ValueClass)},
		{"side_effect_class", m.Class, string(m.Class)},
		{"classify", m.Classify, string(m.Classify)},
		{"domain", domains, strings.Join(names, ", ")},
		{"remote", m.Remote, formatBool(&m.Remote)},
		{"rate_limit_host", m.Host, m.Host},
		{"url_argument", m.URLArgument, m.URLArgument},
		{"speculate", m.Speculate, formatBool(m.Speculate)},
		{"disclosure", m.Disclosure, string(m.Disclosure)},
		{"volatile", m.Volatile, formatBool(m.Volatile)},
		{"fail_fast_after_n", m.FailFastAfter, repeats},
		{"validate", map[string]string{"file": m.ValidateFile}, m.ValidateFile},
		decimal("cost_model.typical_kb", m.Cost.TypicalKB),
		decimal("cost_model.max_kb", m.Cost.MaxKB),
		decimal("cost_model.latency_ms_p50", float64(m.Cost.Latency)/float64(time.Millisecond)),
		decimal("cost_model.dollars", m.Cost.Dollars),
		decimal("cost_model.freshness_ttl_s", m.Cost.Freshness.Seconds()),
		{"invalidates_only", m.InvalidatesOnly, only},
	}
}

func decimal(key string, n float64) field {
	return field{key, n, strconv.FormatFloat(n, 'f', -1, 64)}
}

func formatBool(b *bool) string { return strconv.FormatBool(isTrue(b)) }

// WriteTo writes a table of all fields, their values and the layers that set them. Fields
// with long values come last, so that they do not widen the other columns.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(key, text, source string) {
		if source == "" {
			text, source = "-", "-" // not set
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", key, text, source)
	}
	for _, f := range m.fields() {
		row(f.key, f.text, m.Sources[f.key])
	}
	_ = t.Flush() // a buffer cannot fail
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) {
		row("field_groups."+name, m.FieldGroups[name].String(), m.Sources["field_groups."+name])
	}
	for _, f := range m.FollowUps {
		row("follow_up."+f.Tool, f.String(), m.Sources[f.Key()])
	}
	for _, e := range m.Invalidates {
		row("invalidates."+e.Tool, e.scope(), m.Sources[e.Key()])
	}
	_ = t.Flush()
	return b.WriteTo(w)
}

// MarshalJSON returns all fields by their configuration keys, with the layers that set
// them.
func (m *Model) MarshalJSON() ([]byte, error) {
	type object = map[string]any
	costs, groups, followUps, edges := object{}, object{}, []object{}, []object{}
	out := object{
		"upstream": m.Upstream, "tool": m.Tool, "provider": m.Provider, "back_off": m.BackOff, "unaimed": m.OnlyIgnored,
		"cost_model": costs,
	}
	for _, f := range m.fields() {
		to, key := out, f.key
		if cost, ok := strings.CutPrefix(f.key, "cost_model."); ok {
			to, key = costs, cost
		}
		to[key] = object{"value": nil}
		if source := m.Sources[f.key]; source != "" {
			to[key] = object{"value": f.value, "source": source}
		}
	}
	for name, g := range m.FieldGroups {
		groups[name] = object{
			"fields": g.Fields, "estimated_value": g.EstimatedValue, "default_include": g.DefaultInclude,
			"source": m.Sources["field_groups."+name],
		}
	}
	for _, f := range m.FollowUps {
		followUps = append(followUps, object{
			"tool": f.Tool, "probability": f.Probability, "args": f.Args, "max": f.Max, "source": m.Sources[f.Key()],
		})
	}
	for _, e := range m.Invalidates {
		edges = append(edges, object{"tool": e.Tool, "match": e.Match, "source": m.Sources[e.Key()]})
	}
	out["field_groups"], out["follow_up"], out["invalidates"] = groups, followUps, edges
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return b.Bytes(), err
}

// String returns the group's settings on one line.
func (g FieldGroup) String() string {
	parts := []string{"fields " + strings.Join(g.Fields, " ")}
	if g.EstimatedValue != nil {
		parts = append(parts, "value "+strconv.FormatFloat(*g.EstimatedValue, 'f', -1, 64))
	}
	if g.DefaultInclude != nil {
		parts = append(parts, "included "+formatBool(g.DefaultInclude))
	}
	return strings.Join(parts, ", ")
}

// String returns the follow-up on one line, without its tool.
func (f FollowUp) String() string {
	text := "probability " + strconv.FormatFloat(f.Probability, 'g', 3, 64)
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		text += ", " + name + " = " + f.Args[name].String()
	}
	if f.Max > 0 {
		text += ", at most " + strconv.Itoa(f.Max)
	}
	return text
}

// Key returns the key of the follow-up in [Model.Sources].
func (f FollowUp) Key() string {
	key := "follow_up." + f.Tool
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		key += " " + name + "=" + f.Args[name].String()
	}
	return key
}

// scope says which results of its tool an edge invalidates.
func (e Edge) scope() string {
	if len(e.Match) == 0 {
		return "all"
	}
	return "same " + strings.Join(e.Match, ", ")
}
