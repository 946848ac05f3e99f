//go:build !lean

package record

import (
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Each scrape reads the figures of [Stats] once; nothing is counted a second time. Metrics with
// a tool label have no separate total, as sum() computes it. Ratios and quantiles over the whole
// time are left out, as queries can compute them for any period.

// Exports reports whether this program is linked with Prometheus and OpenTelemetry.
const Exports = true

const (
	prefix     = "mcpschedd_" // of each family's name
	maxScrapes = 4            // concurrent scrapes; more are answered 503
)

// Metrics returns a handler that serves the figures, and those of the Go process, to Prometheus.
func Metrics(stats func() Stats, version string) http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(&collector{stats, version}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// collector is a prometheus.Collector of the figures.
type collector struct {
	stats   func() Stats
	version string
}

// Describe sends nothing, as the label values are not known in advance.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current figures.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s, byTool := c.stats(), metricsOfType[Figures]()
	own := slices.DeleteFunc(metricsOfType[Stats](), func(m metric) bool { return m.embedded }) // the Figures follow by tool
	collect(to, own, prefix, s, nil)
	for name, f := range s.Tools {
		upstream, tool, split := strings.Cut(name, "/")
		if !split {
			upstream, tool = "", name // the tools beyond the bound, or that no upstream has
		}
		collect(to, byTool, prefix, f, prometheus.Labels{"upstream": upstream, "tool": tool})
	}
	for name, host := range s.Hosts {
		collect(to, metricsOfType[Host](), prefix+"host_", host, prometheus.Labels{"host": name})
	}
	if pool := s.pool(); pool.Tokens > 0 {
		collect(to, metricsOfType[PoolBudget](), prefix+"budget_pool_", pool, nil)
	}
	reload := metric{Name: "config_last_reload_successful", Help: "Whether the current configuration file is in force.", kind: "gauge"}
	reload.send(to, prefix, float64(boolToInt(s.Config.Error == "")), nil)
	build := metric{Name: "build_info", Help: "The program: always 1.", kind: "gauge"}
	build.send(to, prefix, 1, prometheus.Labels{"version": c.version, "goversion": runtime.Version()})
}

// collect sends the metrics of a struct, each with the given labels, counts by name as one sample
// each.
func collect(to chan<- prometheus.Metric, metrics []metric, prefix string, of any, labels prometheus.Labels) {
	for _, m := range metrics {
		v := reflect.ValueOf(of).FieldByIndex(m.index)
		switch {
		case m.kind == "histogram":
			if h := v.Interface().(Histogram); h.N > 0 {
				desc, factor := m.describe(prefix, labels)
				to <- prometheus.MustNewConstHistogram(desc, uint64(h.N), h.Sum*factor, h.buckets(factor))
			}
		case m.label != "":
			for name, n := range v.Interface().(map[string]int64) {
				all := prometheus.Labels{m.label: name}
				maps.Copy(all, labels)
				m.send(to, prefix, float64(n), all)
			}
		case m.kind != "":
			m.send(to, prefix, v.Convert(reflect.TypeFor[float64]()).Float(), labels)
		}
	}
}

// send sends one sample.
func (m *metric) send(to chan<- prometheus.Metric, prefix string, value float64, labels prometheus.Labels) {
	kind := prometheus.GaugeValue
	if m.kind == "counter" {
		kind = prometheus.CounterValue
	}
	desc, factor := m.describe(prefix, labels)
	to <- prometheus.MustNewConstMetric(desc, kind, value*factor)
}

// describe returns the metric's description, and a factor to convert its values to Prometheus'
// base units, seconds and bytes.
func (m *metric) describe(prefix string, labels prometheus.Labels) (desc *prometheus.Desc, factor float64) {
	name, factor := strings.ReplaceAll(strings.TrimPrefix(m.Name, "totals."), ".", "_"), 1.0
	switch m.Unit {
	case "ms":
		name, factor = strings.Replace(name, "_ms", "", 1)+"_seconds", 0.001
	case "KiB":
		name, factor = strings.Replace(name, "_kb", "", 1)+"_bytes", 1024
	}
	if m.kind == "counter" {
		name += "_total"
	}
	valid := make(prometheus.Labels, len(labels))
	for label, value := range labels {
		valid[label] = strings.ToValidUTF8(value, "\uFFFD")
	}
	return prometheus.NewDesc(prefix+name, m.Help, nil, valid), factor
}

// bounds are the bucket bounds (ms or KiB) of histograms: a stored answer takes microseconds, a
// slow tool minutes.
var bounds = []float64{1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1e3, 2.5e3, 5e3, 10e3, 30e3, 60e3, 300e3}

// buckets returns the cumulative counts up to each of the bounds.
func (h *Histogram) buckets(factor float64) map[float64]uint64 {
	upTo, cumulative := make(map[float64]uint64), uint64(0)
	for i, n := range h.Counts {
		cumulative += uint64(n)
		if i < len(edges) && slices.Contains(bounds, edges[i]) {
			upTo[edges[i]*factor] = cumulative
		}
	}
	return upTo
}
