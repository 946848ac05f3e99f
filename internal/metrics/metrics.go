// Package metrics shows the figures to Prometheus.
//
// The one idea: nothing is counted here. Each scrape reads the figures once and turns
// them into samples, so that Prometheus, the resource and the command line cannot
// disagree:
//
//	mux.Handle("GET /metrics", metrics.Handler(metrics.Options{
//		Stats: stats, Latencies: tally.Latencies, Version: version,
//	}))
//
//	mcpschedd_calls_total{upstream="github",tool="list_issues",disposition="hit"} 12
//
// What a scrape counts by tool has no total of its own: sum() makes it. Calls for tools
// that nobody has are among them as the tool "(unknown)", so that the sums are those
// of the figures. Shares are left out: they are quotients of what is here. So are the
// quantiles of the figures, which are of the whole time since the start: the histogram
// gives them for any span of time.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"mcpschedd/internal/telemetry"
)

// atOnce is how many scrapes are answered at the same time; more get 503.
const atOnce = 4

// Options are what is shown.
type Options struct {
	Stats     func() telemetry.Stats                                // read once for each scrape; required
	Latencies func(bounds []float64) map[string]telemetry.Histogram // upstream/tool → how long its calls took, by upper bounds in ms; default: not shown
	Version   string                                                // the program's
}

// Handler serves the figures, those of the Go runtime and those of the process, as
// text in the format of Prometheus or of OpenMetrics, as it is asked for.
func Handler(o Options) http.Handler {
	return promhttp.HandlerFor(registry(o), promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		ErrorHandling:       promhttp.ContinueOnError, // one sample that is wrong does not hide the others
		MaxRequestsInFlight: atOnce,
	})
}

// registry is one of our own: what libraries put into the default one is not shown.
func registry(o Options) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(
		&figures{stats: o.Stats, latencies: o.Latencies, version: o.Version},
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return r
}
