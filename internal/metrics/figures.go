package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"mcpschedd/internal/telemetry"
)

// prefix begins the name of every family of ours.
const prefix = "mcpschedd_"

// bounds (s) of the latencies: a stored answer takes microseconds, a slow tool minutes.
var bounds = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}

var (
	build    = describe("build_info", "The program: always 1.", "version", "goversion")
	duration = describe("call_duration_seconds", "How long calls took, from their arrival to their answer.", "upstream", "tool")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// family is one family of samples and how it is read off the figures.
type family struct {
	*prometheus.Desc
	kind prometheus.ValueType
	read func(s *telemetry.Stats, n *names, tell tell)
}

// tell takes one sample.
type tell func(value float64, labels ...string)

// counter is a family that only rises.
func counter(name, help string, read func(s *telemetry.Stats, n *names, tell tell), labels ...string) family {
	return family{describe(name, help, labels...), prometheus.CounterValue, read}
}

// gauge is one that rises and falls.
func gauge(name, help string, read func(s *telemetry.Stats, n *names, tell tell), labels ...string) family {
	return family{describe(name, help, labels...), prometheus.GaugeValue, read}
}

// figures turns what it reads into samples.
type figures struct {
	stats     func() telemetry.Stats
	latencies func([]float64) map[string]telemetry.Histogram
	version   string
}

// Describe says which families there are.
func (f *figures) Describe(out chan<- *prometheus.Desc) {
	out <- build
	out <- duration
	for _, family := range families {
		out <- family.Desc
	}
}

// Collect reads the figures once.
func (f *figures) Collect(out chan<- prometheus.Metric) {
	s := f.stats()
	n := named(&s)
	out <- sample(build, prometheus.GaugeValue, 1, clean(f.version), runtime.Version())
	for _, family := range families {
		family.read(&s, n, func(value float64, labels ...string) {
			out <- sample(family.Desc, family.kind, value, labels...)
		})
	}
	if f.latencies == nil {
		return
	}
	ms := make([]float64, len(bounds))
	for i, b := range bounds {
		ms[i] = b * 1000
	}
	for tool, h := range f.latencies(ms) {
		if l, ok := n.tools[tool]; ok { // else its first call came in between
			out <- histogram(h, l.upstream, l.tool)
		}
	}
}

// sample returns one, or what tells the registry why there is none.
func sample(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) prometheus.Metric {
	m, err := prometheus.NewConstMetric(d, kind, value, labels...)
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return m
}

func histogram(h telemetry.Histogram, upstream, tool string) prometheus.Metric {
	counts := make(map[float64]uint64, len(bounds))
	for i, b := range bounds {
		counts[b] = uint64(h.Counts[i])
	}
	m, err := prometheus.NewConstHistogram(duration, uint64(h.Count), h.Sum/1000, counts, upstream, tool)
	if err != nil {
		return prometheus.NewInvalidMetric(duration, err)
	}
	return m
}
