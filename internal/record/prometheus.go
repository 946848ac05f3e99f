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

// Prometheus reads the figures once for each scrape, and counts nothing itself. What is
// counted by tool has no total of its own: sum() makes it. Quotients and quantiles of the
// whole time are left out: they are made of what is here, for any span of time.

// Exports says whether this program has the libraries of Prometheus and OpenTelemetry.
const Exports = true

const (
	prefix = "mcpschedd_" // of the name of every family of ours
	atOnce = 4            // scrapes that are answered at the same time; more get 503
)

// Metrics serves the figures, and some of the process, to Prometheus.
func Metrics(stats func() Stats, version string) http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(&collector{stats, version}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: atOnce})
}

// collector makes samples of the figures.
type collector struct {
	stats   func() Stats
	version string
}

// Describe says nothing: tools and hosts come and go.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads the figures.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	out, s := samples{help: helpOf(statsMetrics(), hostMetrics(), poolMetrics()), to: to}, c.stats()
	s.Totals.derive()
	out.add(statsMetrics(), reflect.ValueOf(s))
	unknown := s.Totals.Failed // calls for tools that no upstream has
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		p := s.Tools[name]
		p.derive()
		unknown -= p.Failed
		upstream, tool, split := strings.Cut(name, "/")
		if !split {
			upstream, tool = "", name // all beyond the bound
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
	out.help["config_last_reload_successful"] = "Whether the configuration as it is written is in force."
	out.number("config_last_reload_successful", float64(one(s.Config.Error == "")))
	out.help["build_info"] = "The program: always 1."
	out.number("build_info", 1, label{"version", c.version}, label{"goversion", runtime.Version()})
}

// helpOf says what the families are that metrics name: the first to name one describes it.
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

// samples are on their way to Prometheus.
type samples struct {
	help map[string]string // family → what it is
	to   chan<- prometheus.Metric
}

// add adds those that a struct has, under the labels that all of it has.
func (s *samples) add(metrics []metric, of reflect.Value, given ...label) {
	for i := range metrics {
		for at := range metrics[i].prom {
			s.sample(&metrics[i], at, of, given)
		}
	}
}

// sample adds what a metric has for one of its families, if the family has the labels that are
// given: of counts by name one for each, under the label that is left open. Any other figure
// with an open label is the sum of what the family counts, and is left out.
func (s *samples) sample(m *metric, at int, of reflect.Value, given []label) {
	family, labels, open := m.prom[at].name, slices.Clone(given), []string(nil)
	lacks := len(given)
	for _, l := range m.prom[at].labels {
		switch {
		case l.value != "":
			labels = append(labels, l)
		case slices.ContainsFunc(given, func(g label) bool { return g.name == l.name }):
			lacks--
		default:
			open = append(open, l.name)
		}
	}
	if lacks > 0 || len(open) > 1 {
		return
	}
	value := m.of(of)
	q, ofMany := value.(Quantiles)
	switch {
	case len(open) == 1:
		counts, _ := value.(map[string]int64)
		for name, n := range counts {
			s.number(family, m.inBase(float64(n)), append(slices.Clip(labels), label{open[0], name})...)
		}
	case ofMany && at > 0:
		s.number(family, float64(q.N), labels...)
	case ofMany && len(m.prom) == 1:
		s.histogram(family, &q, labels)
	default:
		s.number(family, m.inBase(number(value)), labels...)
	}
}

// number adds one sample. A family that ends in _total only rises.
func (s *samples) number(family string, value float64, labels ...label) {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(family, "_total") {
		kind = prometheus.CounterValue
	}
	desc, values := s.described(family, labels)
	s.to <- prometheus.MustNewConstMetric(desc, kind, value, values...)
}

// histogram adds how many values of ms there are up to each of the bounds.
func (s *samples) histogram(family string, q *Quantiles, labels []label) {
	if q.N == 0 {
		return
	}
	buckets := make(map[float64]uint64)
	for i, n := range q.Buckets {
		buckets[bounds[i]/1000] = uint64(n)
	}
	desc, values := s.described(family, labels)
	s.to <- prometheus.MustNewConstHistogram(desc, uint64(q.N), q.Sum/1000, buckets, values...)
}

func (s *samples) described(family string, labels []label) (desc *prometheus.Desc, values []string) {
	var names []string
	for _, l := range labels {
		names, values = append(names, l.name), append(values, strings.ToValidUTF8(l.value, "\uFFFD"))
	}
	return prometheus.NewDesc(prefix+family, s.help[family], names, nil), values
}
