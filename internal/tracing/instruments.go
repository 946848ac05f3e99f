package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"mcpschedd/internal/telemetry"
)

// bounds (s) are those that the conventions recommend for mcp.server.operation.duration.
var bounds = []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300}

// cardinality leaves the bounds on names to the figures, which have their own, where
// the instruments are read off them.
func cardinality(kind sdkmetric.InstrumentKind) (limit int, fallback bool) {
	return 0, kind == sdkmetric.InstrumentKindHistogram
}

// figure is one instrument and how it is read off the figures.
type figure struct {
	name, unit, text string
	gauge            bool // else a counter
	read             func(s *telemetry.Stats, tell tell)
}

// tell takes one value of a figure.
type tell func(value float64, of ...attribute.KeyValue)

// measure makes the instruments. All of one export are read off the same figures.
func (t *Tracer) measure(meter metric.Meter, stats func() telemetry.Stats) (err error) {
	t.duration, err = meter.Float64Histogram("mcp.server.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("How long requests took from their arrival to their answer."), metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil || stats == nil {
		return err
	}
	instruments := make([]metric.Float64Observable, len(figures))
	all := make([]metric.Observable, len(figures))
	for i, f := range figures {
		if f.gauge {
			instruments[i], err = meter.Float64ObservableGauge("mcpschedd."+f.name, metric.WithUnit(f.unit), metric.WithDescription(f.text))
		} else {
			instruments[i], err = meter.Float64ObservableCounter("mcpschedd."+f.name, metric.WithUnit(f.unit), metric.WithDescription(f.text))
		}
		if err != nil {
			return err
		}
		all[i] = instruments[i]
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := stats()
		for i, f := range figures {
			f.read(&s, func(value float64, of ...attribute.KeyValue) {
				o.ObserveFloat64(instruments[i], value, metric.WithAttributes(of...))
			})
		}
		return nil
	}, all...)
	return err
}

// figures are what is read off the figures. Times are seconds, as is usual there.
var figures = []figure{
	{name: "calls", unit: "{call}", text: "Calls of clients, by how they came by their answers.",
		read: perTool(func(p *telemetry.Part, tell tell) {
			tell(float64(p.ServedStored), by("disposition", "hit"))
			tell(float64(p.Joined), by("disposition", "joined"))
			tell(float64(p.Fetched), by("disposition", "fetched"))
			tell(float64(p.Failed), by("disposition", "failed"))
		})},
	{name: "call.errors", unit: "{call}", text: "Calls whose answer is an error.",
		read: perTool(func(p *telemetry.Part, tell tell) { tell(float64(p.Errors)) })},
	{name: "upstream.requests", unit: "{request}", text: "Calls that went to upstreams, prefetches included.",
		read: perTool(func(p *telemetry.Part, tell tell) { tell(float64(p.UpstreamCalls)) })},
	{name: "prefetches", unit: "{prefetch}", text: "Prefetches, by what became of them.",
		read: perTool(func(p *telemetry.Part, tell tell) {
			tell(float64(p.Prefetch.Used-p.Prefetch.Late), by("fate", "used"))
			tell(float64(p.Prefetch.Late), by("fate", "late"))
			tell(float64(p.Prefetch.Compared), by("fate", "compared"))
			for cause, n := range p.Prefetch.Wasted {
				tell(float64(n), by("fate", "wasted"), by("cause", cause))
			}
		})},
	{name: "hidden", unit: "s", text: "Waiting that calls did not have.",
		read: perTool(func(p *telemetry.Part, tell tell) {
			tell(p.HiddenByPrefetch/1000, by("by", "prefetch"))
			tell(max(0, p.HiddenMS-p.HiddenByPrefetch)/1000, by("by", "repeat"))
		})},
	{name: "waited", unit: "s", text: "Waiting of calls for their answers.",
		read: perTool(func(p *telemetry.Part, tell tell) { tell(p.WaitedMS / 1000) })},
	{name: "tokens.saved", unit: "{token}", text: "Tokens that did not go into a context, estimated.",
		read: perTool(func(p *telemetry.Part, tell tell) { tell(float64(p.TokensSaved)) })},
	{name: "tokens.to_client", unit: "{token}", text: "Tokens of answers, estimated.",
		read: perTool(func(p *telemetry.Part, tell tell) { tell(float64(p.TokensToClient)) })},
	{name: "reads", unit: "{call}", text: "Calls that only read.", read: total(func(s *telemetry.Stats) float64 { return float64(s.Totals.Reads) })},
	{name: "candidates", unit: "{call}", text: "Exact calls that were thought of.", read: total(func(s *telemetry.Stats) float64 { return float64(s.Totals.Candidates) })},
	{name: "declined", unit: "{call}", text: "Of those: not fetched early, by reason.",
		read: func(s *telemetry.Stats, tell tell) {
			for reason, n := range s.Totals.Declined {
				tell(float64(n), by("reason", reason))
			}
		}},
	{name: "declined.called", unit: "{call}", text: "Of those: called all the same.", read: total(func(s *telemetry.Stats) float64 { return float64(s.Totals.LateInvoked) })},
	{name: "turns.saved", unit: "{turn}", text: "Requests to a model that plans made unnecessary.", read: total(func(s *telemetry.Stats) float64 { return float64(s.Totals.TurnsSaved.Plan) })},
	{name: "plans", unit: "{plan}", text: "Plans.", read: total(func(s *telemetry.Stats) float64 { return float64(s.Totals.Plans) })},
	{name: "regret", unit: "s", text: "What the best choices under the same bounds would have hidden more.", read: total(func(s *telemetry.Stats) float64 { return s.Totals.RegretMS / 1000 })},
	{name: "harm.waited", unit: "s", text: "Waiting of calls for prefetches.", read: total(func(s *telemetry.Stats) float64 { return s.Totals.Harm.ForegroundWaitMS / 1000 })},
	{name: "harm", unit: "{event}", text: "What prefetches did to others, by kind.",
		read: func(s *telemetry.Stats, tell tell) {
			tell(float64(s.Totals.Harm.RateLimited), by("kind", "rate_limited"))
			tell(float64(s.Totals.Harm.Evictions), by("kind", "eviction"))
			tell(float64(s.Totals.Harm.Questions), by("kind", "question"))
		}},
	{name: "events.lost", unit: "{event}", text: "Lines of the record that could not be written.", read: total(func(s *telemetry.Stats) float64 { return float64(s.Totals.EventsLost) })},
	{name: "sessions", unit: "{session}", text: "Sessions that have been.", read: total(func(s *telemetry.Stats) float64 { return float64(s.Sessions) })},
	{name: "sessions.open", unit: "{session}", text: "Sessions at the moment.", gauge: true, read: total(func(s *telemetry.Stats) float64 { return float64(s.Open) })},
	{name: "host.level", unit: "1", text: "How freely a host is guessed at: 0 is not at all, 4 is more than configured.", gauge: true,
		read: func(s *telemetry.Stats, tell tell) {
			for host, h := range s.Hosts {
				tell(float64(h.Level), by("host", host))
			}
		}},
}

// by is an attribute of a metric.
func by(key, value string) attribute.KeyValue {
	return attribute.String("mcpschedd."+key, cut(value, longestName))
}

// total reads one number.
func total(read func(*telemetry.Stats) float64) func(*telemetry.Stats, tell) {
	return func(s *telemetry.Stats, tell tell) { tell(read(s)) }
}

// perTool reads a number of each tool.
func perTool(read func(p *telemetry.Part, tell tell)) func(*telemetry.Stats, tell) {
	return func(s *telemetry.Stats, tell tell) {
		for tool, p := range s.Tools {
			read(&p, func(value float64, of ...attribute.KeyValue) { tell(value, append(of, by("tool", tool))...) })
		}
	}
}
