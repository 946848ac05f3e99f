package record

import (
	"reflect"
	"slices"
	"strings"
)

// metric describes a field of [Stats], or of a struct in it, by its tags.
type metric struct {
	Name string `json:"name"` // path in the JSON, such as totals.prefetch.issued
	Help string `json:"help"`
	Unit string `json:"unit,omitempty"` // ms, KiB or share

	kind     string // in Prometheus: counter, gauge, histogram, or "" for none
	label    string // that has the keys of a map
	index    []int  // of the field
	embedded bool   // the field is that of a struct that the type embeds
}

// metricsOfType lists the fields of a struct type, each nested struct followed by its own fields.
func metricsOfType[T any]() []metric { return metricsOf(reflect.TypeFor[T]()) }

func metricsOf(t reflect.Type) (all []metric) {
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" || f.Type.Kind() == reflect.Slice { // VisibleFields lists the fields of embedded types too
			continue
		}
		m := metric{Name: name, Help: f.Tag.Get("jsonschema"), Unit: f.Tag.Get("unit"), index: f.Index, embedded: len(f.Index) > 1}
		m.kind, m.label, _ = strings.Cut(f.Tag.Get("prom"), ",")
		all = append(all, m)
		if f.Type.Kind() != reflect.Struct {
			continue
		}
		for _, inner := range metricsOf(f.Type) {
			inner.Name, inner.index = name+"."+inner.Name, slices.Concat(f.Index, inner.index)
			inner.embedded = inner.embedded || m.embedded
			if inner.Unit == "" && !strings.HasSuffix(inner.Name, ".n") {
				inner.Unit = m.Unit
			}
			all = append(all, inner)
		}
	}
	return all
}

// figure is the value of a metric.
type figure struct {
	metric
	value float64
}

// figuresOf returns the values of the metrics of a struct that are numbers. Counts by name become
// their sum.
func figuresOf[T any](of T) (all []figure) {
	for _, m := range metricsOfType[T]() {
		f := figure{metric: m}
		switch v := reflect.ValueOf(of).FieldByIndex(m.index); v.Kind() {
		case reflect.Int, reflect.Int64:
			f.value = float64(v.Int())
		case reflect.Float64:
			f.value = v.Float()
		case reflect.Map:
			counts, isCounts := reflect.TypeAssert[map[string]int64](v)
			if !isCounts {
				continue
			}
			f.value = float64(sumOf(counts))
		default:
			continue
		}
		all = append(all, f)
	}
	return all
}

func sumOf(m map[string]int64) (sum int64) {
	for _, n := range m {
		sum += n
	}
	return sum
}
