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
	out, s := samples{families: familiesOf(statsMetrics(), hostMetrics()), to: to}, c.stats()
	s.Totals.derive()
	out.add(statsMetrics(), reflect.ValueOf(s), "")
	unknown := s.Totals.Failed // calls for tools that no upstream has
	for _, name := range slices.Sorted(maps.Keys(s.Tools)) {
		p := s.Tools[name]
		p.derive()
		unknown -= p.Failed
		upstream, tool, split := strings.Cut(name, "/")
		if !split {
			upstream, tool = "", name // all beyond the bound
		}
		out.add(partMetrics(), reflect.ValueOf(p), "tool", label{"upstream", upstream}, label{"tool", tool})
	}
	out.number("calls_total", float64(max(unknown, 0)), label{"upstream", ""}, label{"tool", "(unknown)"}, label{"disposition", string(Failed)})
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		out.add(hostMetrics(), reflect.ValueOf(s.Hosts[name]), "host", label{"host", name})
	}
	out.families["config_last_reload_successful"] = family{help: "Whether the configuration as it is written is in force."}
	out.number("config_last_reload_successful", float64(one(s.Config.Error == "")))
	out.families["build_info"] = family{help: "The program: always 1."}
	out.number("build_info", 1, label{"version", c.version}, label{"goversion", runtime.Version()})
}

// family is what samples of one name have in common.
type family struct{ help, scope string }

// familiesOf are those that metrics name: the first to name one describes it. The scope is
// that of which it has samples: of each tool, of each host, or else of everything.
func familiesOf(lists ...[]metric) map[string]family {
	all := make(map[string]family)
	for _, m := range slices.Concat(lists...) {
		for i, tag := range m.prom {
			if _, known := all[tag.name]; known {
				continue
			}
			f := family{help: m.Help}
			if i > 0 {
				f.help = "Number of values of " + m.prom[0].name + "."
			}
			for _, l := range tag.labels {
				if l.name == "tool" || l.name == "host" {
					f.scope = l.name
				}
			}
			all[tag.name] = f
		}
	}
	return all
}

// samples are on their way to Prometheus.
type samples struct {
	families map[string]family
	to       chan<- prometheus.Metric
}

// add adds those that a struct has for the families of a scope.
func (s *samples) add(metrics []metric, of reflect.Value, scope string, given ...label) {
	for i := range metrics {
		m := &metrics[i]
		for at, tag := range m.prom {
			if s.families[tag.name].scope == scope {
				s.sample(m, at, m.of(of), given)
			}
		}
	}
}

// sample adds what a metric has for one of its families: of counts by name one for each, under
// the label without a value. A figure that lacks another label is the sum of what the family
// counts, and is left out.
func (s *samples) sample(m *metric, at int, value any, given []label) {
	tag, open := m.prom[at], ""
	labels := slices.Clone(given)
	for _, l := range tag.labels {
		if l.value != "" {
			labels = append(labels, l)
		} else if !slices.ContainsFunc(given, func(g label) bool { return g.name == l.name }) {
			open = l.name
		}
	}
	counts, byName := value.(map[string]int64)
	q, ofMany := value.(Quantiles)
	switch {
	case byName && open != "":
		for name, n := range counts {
			s.number(tag.name, m.inBase(float64(n)), append(slices.Clip(labels), label{open, name})...)
		}
	case open != "":
	case ofMany && at > 0:
		s.number(tag.name, float64(q.N), labels...)
	case ofMany && len(m.prom) == 1:
		s.histogram(tag.name, &q, labels)
	default:
		s.number(tag.name, m.inBase(number(value)), labels...)
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
	return prometheus.NewDesc(prefix+family, s.families[family].help, names, nil), values
}
