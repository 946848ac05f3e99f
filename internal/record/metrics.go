package record

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// metric is one figure: a field of [Stats] or of what is in it, with what its tags say.
type metric struct {
	Name string `json:"name"` // as in the JSON, such as totals.prefetch.issued
	Help string `json:"help"`
	Unit string `json:"unit,omitempty"` // ms, KiB or share

	csv         string
	row, format string // of the summary
	prom        []familyTag
	index       []int // of the field
}

// familyTag is one of a prom tag: a family that a field is counted in.
type familyTag struct {
	name   string
	labels []label
}

// label is of a sample; without a value it says what the family has.
type label struct{ name, value string }

// The lists of metrics: of everything, and of one tool or upstream, or host, or the pool. They
// are made when they are asked for, which a proxy on stdio does not do.
var (
	statsMetrics  = sync.OnceValue(metricsOfType[Stats])
	totalsMetrics = sync.OnceValue(metricsOfType[Totals])
	partMetrics   = sync.OnceValue(metricsOfType[Part])
	hostMetrics   = sync.OnceValue(metricsOfType[Host])
	poolMetrics   = sync.OnceValue(metricsOfType[PoolBudget])
)

func metricsOfType[T any]() []metric { return metricsOf(reflect.TypeFor[T](), "") }

var quantilesType = reflect.TypeFor[Quantiles]()

// metricsOf lists the fields of a type that have a json name or a prom tag, those of structs in
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

// parseFamily reads one such as calls_total{upstream,tool,disposition=hit}.
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

// columns are the names and the values of a line of CSV, of a struct that the metrics are of.
func columns(metrics []metric, v reflect.Value) (names, values []string) {
	for i := range metrics {
		m := &metrics[i]
		if m.csv == "" {
			continue
		}
		switch value := m.of(v).(type) {
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
