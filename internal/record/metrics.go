package record

import (
	"encoding/json"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// metric is one figure: a field of [Stats] or of what is in it, with what its tags say.
type metric struct {
	Name string `json:"name"` // as in the JSON, such as totals.prefetch.issued
	Help string `json:"help"`
	Unit string `json:"unit,omitempty"` // ms, KiB or share

	csv         string
	row, format string // of the summary
	prom, count familyTag
	index       []int // of the field
}

// familyTag is a prom tag: the family that a field is counted in.
type familyTag struct {
	name   string
	labels []label
}

// label is of a sample; without a value it says what the family has.
type label struct{ name, value string }

// The lists of metrics: of everything, and of one tool or upstream, or host.
var (
	statsMetrics  = metricsOf(reflect.TypeFor[Stats](), "")
	totalsMetrics = metricsOf(reflect.TypeFor[Totals](), "")
	partMetrics   = metricsOf(reflect.TypeFor[Part](), "")
	hostMetrics   = metricsOf(reflect.TypeFor[Host](), "")
)

var quantilesType = reflect.TypeFor[Quantiles]()

// metricsOf lists the fields of a type that have a help or a prom tag, those of structs in
// it behind the struct's own.
func metricsOf(t reflect.Type, path string) (all []metric) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue // its fields come by themselves
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Slice {
			continue // how processes stand is no figure
		}
		m := metric{Name: path + name, Help: f.Tag.Get("help"), Unit: f.Tag.Get("unit"), csv: f.Tag.Get("csv"), index: f.Index}
		m.row, m.format, _ = strings.Cut(f.Tag.Get("text"), ": ")
		m.prom, m.count = parseFamily(f.Tag.Get("prom")), parseFamily(f.Tag.Get("count"))
		all = append(all, m)
		if f.Type.Kind() == reflect.Struct && f.Type != quantilesType {
			for _, inner := range metricsOf(f.Type, m.Name+".") {
				inner.index = append(slices.Clone(f.Index), inner.index...)
				all = append(all, inner)
			}
		}
	}
	return all
}

// parseFamily reads a tag such as calls_total{upstream,tool,disposition=hit}.
func parseFamily(tag string) (f familyTag) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(tag, "}"), "{")
	f.name = name
	for text := range strings.FieldsFuncSeq(labels, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(text, "=")
		f.labels = append(f.labels, label{name, value})
	}
	return f
}

// of is the metric's value in a struct of its type.
func (m *metric) of(v reflect.Value) any { return v.FieldByIndex(m.index).Interface() }

// number is a value as one number: of counts by name their sum, of quantiles that of all
// values.
func number(value any) float64 {
	switch v := value.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	case map[string]int64:
		return float64(sumOf(v))
	case Quantiles:
		return v.Sum
	}
	return 0
}

// inBase is a number in the unit that Prometheus has for it: seconds or bytes.
func (m *metric) inBase(v float64) float64 {
	switch m.Unit {
	case "ms":
		return v / 1000
	case "KiB":
		return v * 1024
	}
	return v
}

// column is a value of a line of CSV, under its name.
type column struct{ name, value string }

// columns are those of a struct that the metrics are of.
func columns(metrics []metric, v reflect.Value) (all []column) {
	for i := range metrics {
		m := &metrics[i]
		if m.csv == "" {
			continue
		}
		switch value := m.of(v).(type) {
		case Quantiles:
			all = append(all, column{m.csv + "_p50", decimal(value.P50)}, column{m.csv + "_p90", decimal(value.P90)})
		case float64:
			all = append(all, column{m.csv, decimal(value)})
		default:
			all = append(all, column{m.csv, strconv.FormatInt(int64(number(value)), 10)})
		}
	}
	return all
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }

// family is what Prometheus and OpenTelemetry know of a metric: its samples have different
// labels.
type family struct {
	name, help, unit string
	scope            string // of which its samples are: tool, host, or "" for all
	samples          []sample
}

type sample struct {
	labels []label
	value  float64
}

// counter reports whether the family only rises.
func (f *family) counter() bool { return strings.HasSuffix(f.name, "_total") }

// otlpName is its name and unit in OpenTelemetry, where the unit is not part of the name.
func (f *family) otlpName() (name, unit string) {
	name = strings.TrimSuffix(f.name, "_total")
	for suffix, unit := range map[string]string{"_seconds": "s", "_bytes": "By"} {
		if trimmed, ok := strings.CutSuffix(name, suffix); ok {
			return "mcpschedd." + trimmed, unit
		}
	}
	return "mcpschedd." + name, "1"
}

// collector gathers samples by family, in the order in which the families are declared: by
// the first metric that names them.
type collector struct {
	families []*family
	byName   map[string]*family
}

func newCollector(lists ...[]metric) *collector {
	c := &collector{byName: make(map[string]*family)}
	for _, m := range slices.Concat(lists...) {
		c.declare(m.prom, m.Help, m.Unit)
		c.declare(m.count, "Number of values of "+m.prom.name+".", "")
	}
	return c
}

func (c *collector) declare(tag familyTag, help, unit string) {
	if tag.name == "" || c.byName[tag.name] != nil {
		return
	}
	f := &family{name: tag.name, help: help, unit: unit}
	for _, l := range tag.labels {
		if l.name == "tool" || l.name == "host" {
			f.scope = l.name
		}
	}
	c.families = append(c.families, f)
	c.byName[tag.name] = f
}

// add adds the samples that a struct has for the families of a scope.
func (c *collector) add(metrics []metric, v reflect.Value, scope string, labels ...label) {
	for i := range metrics {
		m := &metrics[i]
		value := m.of(v)
		c.sample(m.prom, scope, labels, value, m.inBase)
		if q, ok := value.(Quantiles); ok {
			c.sample(m.count, scope, labels, q.N, m.inBase)
		}
	}
}

// sample adds one value, or of a map one for each key: that is the label without a value. A
// figure that lacks another label is the sum of what the family counts.
func (c *collector) sample(tag familyTag, scope string, given []label, value any, scale func(float64) float64) {
	f := c.byName[tag.name]
	if f == nil || f.scope != scope {
		return
	}
	labels, open := slices.Clone(given), ""
	for _, l := range tag.labels {
		switch known := slices.ContainsFunc(given, func(g label) bool { return g.name == l.name }); {
		case l.value != "":
			labels = append(labels, l)
		case !known:
			open = l.name
		}
	}
	counts, byName := value.(map[string]int64)
	switch {
	case byName && open != "":
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			f.samples = append(f.samples, sample{append(slices.Clip(labels), label{open, name}), scale(float64(counts[name]))})
		}
	case open == "":
		f.samples = append(f.samples, sample{labels, scale(number(value))})
	}
}

// families are all samples of the figures.
func families(s *Stats, version string) []*family {
	c := newCollector(statsMetrics, hostMetrics)
	all := *s
	all.Totals.derive()
	c.add(statsMetrics, reflect.ValueOf(all), "")
	unknown := s.Totals.Failed // calls for tools that no upstream has
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		p := s.Tools[name]
		p.derive()
		unknown -= p.Failed
		c.add(partMetrics, reflect.ValueOf(p), "tool", toolLabels(name)...)
	}
	calls := c.byName["calls_total"]
	calls.samples = append(calls.samples, sample{[]label{{"upstream", ""}, {"tool", "(unknown)"}, {"disposition", "failed"}}, float64(max(unknown, 0))})
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		c.add(hostMetrics, reflect.ValueOf(s.Hosts[name]), "host", label{"host", name})
	}
	inForce := 1.0
	if s.Config.Error != "" {
		inForce = 0
	}
	return append(c.families,
		&family{name: "config_last_reload_successful", help: "Whether the configuration as it is written is in force.", samples: []sample{{nil, inForce}}},
		&family{name: "build_info", help: "The program: always 1.", samples: []sample{{[]label{{"version", version}, {"goversion", runtime.Version()}}, 1}}})
}

// toolLabels are those of a tool by its full name.
func toolLabels(name string) []label {
	upstream, tool, split := strings.Cut(name, "/")
	if !split {
		upstream, tool = "", name // all beyond the bound
	}
	return []label{{"upstream", upstream}, {"tool", tool}}
}

// Schema is the JSON Schema (2020-12) of [Stats].
func Schema() []byte {
	defs := map[string]any{}
	schema := objectSchema(reflect.TypeFor[Stats](), defs)
	schema["$schema"], schema["title"], schema["$defs"] = "https://json-schema.org/draft/2020-12/schema", "mcpschedd stats", defs
	text, _ := json.MarshalIndent(schema, "", "  ") // it is made of strings
	return text
}

// schemaOf describes a type; structs are described once, in defs.
func schemaOf(t reflect.Type, unit string, defs map[string]any) map[string]any {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer", "minimum": 0}
	case reflect.Float64:
		if unit == "share" {
			return map[string]any{"type": "number", "minimum": 0, "maximum": 1}
		}
		return map[string]any{"type": "number", "minimum": 0}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), "", defs)}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(t.Elem(), "", defs)}
	case reflect.Struct:
		if defs[t.Name()] == nil {
			defs[t.Name()] = objectSchema(t, defs)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	}
	return map[string]any{}
}

// objectSchema describes a struct by its tags.
func objectSchema(t reflect.Type, defs map[string]any) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, omit, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		schema := schemaOf(f.Type, f.Tag.Get("unit"), defs)
		schema["description"] = f.Tag.Get("help")
		if properties[name] = schema; omit == "" {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}
