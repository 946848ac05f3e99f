package valuemodel

import (
	"bytes"
	"cmp"
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

// WriteTo writes every field, its value, and the layer that set it; those with
// long values behind the others, so that they do not push them apart.
func (m *Model) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s/%s\n", m.Upstream, m.Tool)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(key, value, said string) {
		fmt.Fprintf(t, "%s\t%s\t%s\n", key, cmp.Or(value, "-"), cmp.Or(m.Sources[said], "-"))
	}
	for _, l := range m.lines() {
		row(l.key, l.value, l.key)
	}
	row("invalidates_only", m.narrowed(), "invalidates_only")
	if err := t.Flush(); err != nil {
		return 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(m.FieldGroups)) {
		row("field_groups."+name, m.FieldGroups[name].String(), "field_groups."+name)
	}
	for _, f := range m.FollowUps {
		row("follow_up."+f.Tool, f.String(), f.Key())
	}
	for _, e := range m.Invalidates {
		row("invalidates."+e.Tool, e.scope(), e.Key())
	}
	if err := t.Flush(); err != nil {
		return 0, err
	}
	return b.WriteTo(w)
}

// line is one field as it is shown.
type line struct{ key, value string }

// lines are the fields with one value each.
func (m *Model) lines() []line {
	return []line{
		{"value_class", string(m.ValueClass)},
		{"side_effect_class", string(m.Class)},
		{"classify", string(m.Classify)},
		{"domain", m.domains()},
		{"remote", truth(&m.Remote)},
		{"rate_limit_host", m.Host},
		{"url_argument", m.URLArgument},
		{"speculate", truth(m.Speculate)},
		{"disclosure", string(m.Disclosure)},
		{"volatile", truth(m.Volatile)},
		{"fail_fast_after_n", m.patience()},
		{"validate", m.ValidateFile},
		{"cost_model.typical_kb", decimal(m.Cost.TypicalKB)},
		{"cost_model.max_kb", decimal(m.Cost.MaxKB)},
		{"cost_model.latency_ms_p50", decimal(m.Cost.milliseconds())},
		{"cost_model.dollars", decimal(m.Cost.Dollars)},
		{"cost_model.freshness_ttl_s", decimal(m.Cost.Freshness.Seconds())},
	}
}

// narrowed is invalidates_only, and why it is not what it was set to.
func (m *Model) narrowed() string {
	if m.Unaimed {
		return "false (true is not obeyed: nothing says what else it makes stale)"
	}
	return truth(m.InvalidatesOnly)
}

func (m *Model) domains() string {
	var names []string
	for _, d := range m.Domains {
		names = append(names, d.Name)
	}
	return strings.Join(names, ", ")
}

// patience is the number of equal answers with what comes of them.
func (m *Model) patience() string {
	switch {
	case m.FailFastAfter == 0:
		return ""
	case m.BackOff:
		return strconv.Itoa(m.FailFastAfter)
	}
	return strconv.Itoa(m.FailFastAfter) + " (a hint only)"
}

func truth(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

// decimal is a number as it is written by hand; "" for one that is not set.
func decimal(f float64) string {
	if f == 0 {
		return ""
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func (c Cost) milliseconds() float64 { return float64(c.Latency) / float64(time.Millisecond) }

// String is the group as the configuration has it, on one line.
func (g FieldGroup) String() string {
	parts := []string{"fields " + strings.Join(g.Fields, " ")}
	if g.EstimatedValue != nil {
		parts = append(parts, "value "+strconv.FormatFloat(*g.EstimatedValue, 'f', -1, 64))
	}
	if g.DefaultInclude != nil {
		parts = append(parts, "included "+truth(g.DefaultInclude))
	}
	return strings.Join(parts, ", ")
}

// String is what follows but for its tool, on one line.
func (f FollowUp) String() string {
	parts := []string{"probability " + strconv.FormatFloat(f.Probability, 'g', 3, 64)}
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		parts = append(parts, name+" = "+f.Args[name].String())
	}
	if f.Max > 0 {
		parts = append(parts, "at most "+strconv.Itoa(f.Max))
	}
	return strings.Join(parts, ", ")
}

// Key is the name under which [Model.Sources] has the layer that set what follows.
func (f FollowUp) Key() string {
	parts := []string{"follow_up." + f.Tool}
	for _, name := range slices.Sorted(maps.Keys(f.Args)) {
		parts = append(parts, name+"="+f.Args[name].String())
	}
	return strings.Join(parts, " ")
}

// scope is which answers of its tool an edge names.
func (e Edge) scope() string {
	if len(e.Match) == 0 {
		return "all"
	}
	return "same " + strings.Join(e.Match, ", ")
}

// MarshalJSON gives every field by its name in the configuration, with the layer
// that set it.
func (m *Model) MarshalJSON() ([]byte, error) {
	type domain struct {
		Name   string `json:"name"`
		Remote bool   `json:"remote"`
	}
	domains := []domain{}
	for _, d := range m.Domains {
		domains = append(domains, domain(d))
	}
	out := explained{
		Upstream: m.Upstream, Tool: m.Tool, Provider: m.Provider, BackOff: m.BackOff, Unaimed: m.Unaimed,
		Domain:          sourced{domains, m.Sources["domain"]},
		Remote:          m.sourced("remote", m.Remote),
		ValueClass:      m.sourced("value_class", m.ValueClass),
		Class:           m.sourced("side_effect_class", m.Class),
		Classify:        m.sourced("classify", m.Classify),
		Host:            m.sourced("rate_limit_host", m.Host),
		URLArgument:     m.sourced("url_argument", m.URLArgument),
		Speculate:       m.sourced("speculate", m.Speculate),
		Disclosure:      m.sourced("disclosure", m.Disclosure),
		Volatile:        m.sourced("volatile", m.Volatile),
		FailFastAfter:   m.sourced("fail_fast_after_n", m.FailFastAfter),
		Validate:        m.sourced("validate", map[string]string{"file": m.ValidateFile}),
		InvalidatesOnly: m.sourced("invalidates_only", m.InvalidatesOnly),
		Cost: map[string]sourced{
			"typical_kb":      m.sourced("cost_model.typical_kb", m.Cost.TypicalKB),
			"max_kb":          m.sourced("cost_model.max_kb", m.Cost.MaxKB),
			"latency_ms_p50":  m.sourced("cost_model.latency_ms_p50", m.Cost.milliseconds()),
			"dollars":         m.sourced("cost_model.dollars", m.Cost.Dollars),
			"freshness_ttl_s": m.sourced("cost_model.freshness_ttl_s", m.Cost.Freshness.Seconds()),
		},
		FieldGroups: map[string]explainedGroup{},
		FollowUps:   []explainedFollowUp{},
		Invalidates: []explainedEdge{},
	}
	for name, g := range m.FieldGroups {
		out.FieldGroups[name] = explainedGroup{g.Fields, g.EstimatedValue, g.DefaultInclude, m.Sources["field_groups."+name]}
	}
	for _, f := range m.FollowUps {
		out.FollowUps = append(out.FollowUps, explainedFollowUp{f.Tool, f.Probability, f.Args, f.Max, m.Sources[f.Key()]})
	}
	for _, e := range m.Invalidates {
		out.Invalidates = append(out.Invalidates, explainedEdge{e.Tool, e.Match, m.Sources[e.Key()]})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return b.Bytes(), err
}

// sourced is a field's value with the layer that set it.
type sourced struct {
	Value  any    `json:"value"`            // null: not set
	Source string `json:"source,omitempty"` // "" for one that is not set
}

// sourced leaves the value out where nobody set it.
func (m *Model) sourced(key string, value any) sourced {
	source := m.Sources[key]
	if source == "" {
		value = nil
	}
	return sourced{value, source}
}

// explained is the JSON form of a model.
type explained struct {
	Upstream        string                    `json:"upstream"`
	Tool            string                    `json:"tool"`
	Provider        string                    `json:"provider,omitempty"`
	Domain          sourced                   `json:"domain"`
	Remote          sourced                   `json:"remote"`
	ValueClass      sourced                   `json:"value_class"`
	Class           sourced                   `json:"side_effect_class"`
	Classify        sourced                   `json:"classify"`
	Host            sourced                   `json:"rate_limit_host"`
	URLArgument     sourced                   `json:"url_argument"`
	Speculate       sourced                   `json:"speculate"`
	Disclosure      sourced                   `json:"disclosure"`
	Volatile        sourced                   `json:"volatile"`
	FailFastAfter   sourced                   `json:"fail_fast_after_n"`
	BackOff         bool                      `json:"back_off"`
	Validate        sourced                   `json:"validate"`
	Cost            map[string]sourced        `json:"cost_model"`
	FieldGroups     map[string]explainedGroup `json:"field_groups"`
	FollowUps       []explainedFollowUp       `json:"follow_up"`
	Invalidates     []explainedEdge           `json:"invalidates"`
	InvalidatesOnly sourced                   `json:"invalidates_only"`
	Unaimed         bool                      `json:"unaimed,omitempty"` // it was to be true
}

type explainedGroup struct {
	Fields         []string `json:"fields"`
	EstimatedValue *float64 `json:"estimated_value,omitempty"`
	DefaultInclude *bool    `json:"default_include,omitempty"`
	Source         string   `json:"source"`
}

type explainedFollowUp struct {
	Tool        string             `json:"tool"`
	Probability float64            `json:"probability"`
	Args        map[string]Binding `json:"args,omitempty"`
	Max         int                `json:"max,omitempty"`
	Source      string             `json:"source"`
}

type explainedEdge struct {
	Tool   string   `json:"tool"`
	Match  []string `json:"match,omitempty"`
	Source string   `json:"source"`
}
