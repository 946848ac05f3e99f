package record

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// metric describes a field of [Stats], or of a struct in it, by its tags.
type metric struct {
	Name string `json:"name"` // path in the JSON, such as totals.prefetch.issued
	Help string `json:"help"`
	Unit string `json:"unit,omitempty"` // ms, KiB or share

	csv         string
	row, format string // of the text tag: row of the summary, and format of its part
	prom        []familyTag
	index       []int // of the field
}

// familyTag is one metric family of a prom tag.
type familyTag struct {
	name   string
	labels []label
}

// label is a Prometheus label. In a familyTag, an empty value means that each sample sets it.
type label struct{ name, value string }

// The metrics of each type. They are built on first use, as a proxy on stdio may never need them.
var (
	statsMetrics  = sync.OnceValue(metricsOfType[Stats])
	totalsMetrics = sync.OnceValue(metricsOfType[Totals])
	partMetrics   = sync.OnceValue(metricsOfType[Part])
	hostMetrics   = sync.OnceValue(metricsOfType[Host])
	poolMetrics   = sync.OnceValue(metricsOfType[PoolBudget])
)

func metricsOfType[T any]() []metric { return metricsOf(reflect.TypeFor[T](), "") }

var quantilesType = reflect.TypeFor[Quantiles]()

// metricsOf lists the fields of a struct type, each nested struct followed by its own fields.
func metricsOf(t reflect.Type, path string) (all []metric) {
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous {
			continue // VisibleFields lists its fields too
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type.Kind() == reflect.Slice {
			continue // lists such as the running processes are not metrics
		}
		m := metric{Name: path + name, Help: f.Tag.Get("jsonschema"), Unit: f.Tag.Get("unit"), csv: f.Tag.Get("csv"), index: f.Index}
		m.row, m.format, _ = strings.Cut(f.Tag.Get("text"), ": ")
		for tag := range strings.FieldsSeq(f.Tag.Get("prom")) {
			m.prom = append(m.prom, parseFamily(tag))
		}
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

// parseFamily parses a family such as calls_total{upstream,tool,disposition=hit}.
func parseFamily(tag string) (f familyTag) {
	name, labels, _ := strings.Cut(strings.TrimSuffix(tag, "}"), "{")
	f.name = name
	for text := range strings.FieldsFuncSeq(labels, func(r rune) bool { return r == ',' }) {
		name, value, _ := strings.Cut(text, "=")
		f.labels = append(f.labels, label{name, value})
	}
	return f
}

// value returns the metric's value in a struct of its type.
func (m *metric) value(v reflect.Value) any { return v.FieldByIndex(m.index).Interface() }

// number converts a value to one number. Counts by name and quantiles become their sum.
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

// inBase converts a number to Prometheus' base units, seconds and bytes.
func (m *metric) inBase(v float64) float64 {
	switch m.Unit {
	case "ms":
		return v / 1000
	case "KiB":
		return v * 1024
	}
	return v
}

// columns returns the column names and the values of a line of CSV.
func columns(metrics []metric, v reflect.Value) (names, values []string) {
	for i := range metrics {
		m := &metrics[i]
		if m.csv == "" {
			continue
		}
		switch value := m.value(v).(type) {
		case Quantiles:
			names, values = append(names, m.csv+"_p50", m.csv+"_p90"), append(values, decimal(value.P50), decimal(value.P90))
		case float64:
			names, values = append(names, m.csv), append(values, decimal(value))
		default:
			names, values = append(names, m.csv), append(values, strconv.FormatInt(int64(number(value)), 10))
		}
	}
	return names, values
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
