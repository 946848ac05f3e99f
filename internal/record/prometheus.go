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
	out, s := samples{help: helpOf(statsMetrics(), hostMetrics(), poolMetrics()), to: to}, c.stats()
	out.add(statsMetrics(), reflect.ValueOf(s))
	unknown := s.Totals.Failed // calls for tools that no upstream has
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		p := s.Tools[name]
		unknown -= p.Failed
		upstream, tool, split := strings.Cut(name, "/")
		if !split {
			upstream, tool = "", name // the tools beyond the bound
		}
		out.add(partMetrics(), reflect.ValueOf(p), label{"upstream", upstream}, label{"tool", tool})
	}
	out.number("calls_total", float64(max(unknown, 0)), label{"upstream", ""}, label{"tool", "(unknown)"}, label{"disposition", string(Failed)})
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		out.add(hostMetrics(), reflect.ValueOf(s.Hosts[name]), label{"host", name})
	}
	if pool := s.pool(); pool.Tokens > 0 {
		out.add(poolMetrics(), reflect.ValueOf(pool))
	}
	out.help["config_last_reload_successful"] = "Whether the current configuration file is in force."
	out.number("config_last_reload_successful", float64(boolToInt(s.Config.Error == "")))
	out.help["build_info"] = "The program: always 1."
	out.number("build_info", 1, label{"version", c.version}, label{"goversion", runtime.Version()})
}

// helpOf returns the help text of each family: that of the first metric with the family.
func helpOf(lists ...[]metric) map[string]string {
	all := make(map[string]string)
	for _, m := range slices.Concat(lists...) {
		for i, tag := range m.prom {
			if _, known := all[tag.name]; known {
				continue
			}
			all[tag.name] = m.Help
			if i > 0 {
				all[tag.name] = "Number of values of " + m.prom[0].name + "."
			}
		}
	}
	return all
}

// samples sends samples to Prometheus.
type samples struct {
	help map[string]string // family → help text
	to   chan<- prometheus.Metric
}

// add sends the samples of a struct's metrics, each with the given labels.
func (s *samples) add(metrics []metric, v reflect.Value, given ...label) {
	for i := range metrics {
		for at := range metrics[i].prom {
			s.sample(&metrics[i], at, v, given)
		}
	}
}

// sample sends a metric's value for one of its families, if the family has all given labels.
// Counts by name become one sample each, under the label without a value. Any other metric with
// such a label is the total of the family, and is left out.
func (s *samples) sample(m *metric, at int, v reflect.Value, given []label) {
	family, labels, open := m.prom[at].name, slices.Clone(given), []string(nil)
	missing := len(given)
	for _, l := range m.prom[at].labels {
		switch {
		case l.value != "":
			labels = append(labels, l)
		case slices.ContainsFunc(given, func(g label) bool { return g.name == l.name }):
			missing--
		default:
			open = append(open, l.name)
		}
	}
	if missing > 0 || len(open) > 1 {
		return
	}
	value := m.value(v)
	q, isQuantiles := value.(Quantiles)
	switch {
	case len(open) == 1:
		counts, _ := value.(map[string]int64)
		for name, n := range counts {
			s.number(family, m.inBase(float64(n)), append(slices.Clip(labels), label{open[0], name})...)
		}
	case isQuantiles && at > 0:
		s.number(family, float64(q.N), labels...)
	case isQuantiles && len(m.prom) == 1:
		s.histogram(family, &q, labels)
	default:
		s.number(family, m.inBase(number(value)), labels...)
	}
}

// number sends one sample: a counter if the family's name ends in _total, otherwise a gauge.
func (s *samples) number(family string, value float64, labels ...label) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(family, "_total") {
		kind = prometheus.CounterValue
	}
	desc, values := s.describe(family, labels)
	s.to <- prometheus.MustNewConstMetric(desc, kind, value, values...)
}

// histogram sends a histogram of durations, converted from ms to seconds.
func (s *samples) histogram(family string, q *Quantiles, labels []label) {
	if q.N == 0 {
		return
	}
	buckets := make(map[float64]uint64)
	for i, n := range q.Buckets {
		buckets[prometheusBuckets[i]/1000] = uint64(n)
	}
	desc, values := s.describe(family, labels)
	s.to <- prometheus.MustNewConstHistogram(desc, uint64(q.N), q.Sum/1000, buckets, values...)
}

func (s *samples) describe(family string, labels []label) (desc *prometheus.Desc, values []string) {
	var names []string
	for _, l := range labels {
		names, values = append(names, l.name), append(values, strings.ToValidUTF8(l.value, "\uFFFD"))
	}
	return prometheus.NewDesc(prefix+family, s.help[family], names, nil), values
}
