package metrics

import (
	"maps"
	"slices"

	"mcpschedd/internal/telemetry"
)

// unknown is the tool of calls for tools that nobody has.
const unknown = "(unknown)"

// families are what is shown, in the order in which it is read.
var families = []family{
	counter("calls_total", "Calls of clients, steps of plans included, by how they came by their answers.", calls, "upstream", "tool", "disposition"),
	counter("call_errors_total", "Calls whose answer is an error.",
		ofTools(func(p *telemetry.Part) float64 { return float64(p.Errors) }), "upstream", "tool"),
	counter("upstream_requests_total", "Calls that went to upstreams, prefetches included.",
		ofTools(func(p *telemetry.Part) float64 { return float64(p.UpstreamCalls) }), "upstream", "tool"),
	counter("waited_seconds_total", "Waiting of calls for their answers.",
		ofTools(func(p *telemetry.Part) float64 { return p.WaitedMS / 1000 }), "upstream", "tool"),
	counter("hidden_seconds_total", "Waiting that calls did not have, by what saved it: prefetch or repeat.", hidden, "upstream", "tool", "by"),
	counter("fetch_seconds_total", "Time that fetches took.",
		ofTools(func(p *telemetry.Part) float64 { return p.FetchMS.Sum / 1000 }), "upstream", "tool"),
	counter("fetches_total", "Fetches that were timed.",
		ofTools(func(p *telemetry.Part) float64 { return float64(p.FetchMS.N) }), "upstream", "tool"),
	counter("result_bytes_total", "Bytes of results.",
		ofTools(func(p *telemetry.Part) float64 { return p.ResultKB.Sum * 1024 }), "upstream", "tool"),
	counter("tokens_saved_total", "Tokens that did not go into a context, estimated.",
		ofTools(func(p *telemetry.Part) float64 { return float64(p.TokensSaved) }), "upstream", "tool"),
	counter("tokens_to_client_total", "Tokens of the answers that clients were given, estimated.",
		ofTools(func(p *telemetry.Part) float64 { return float64(p.TokensToClient) }), "upstream", "tool"),

	counter("prefetches_total", "Prefetches, by what became of them, and of wasted ones why.", prefetches, "upstream", "tool", "fate", "cause"),
	gauge("prefetches_open", "Prefetches of which it is not known yet what becomes of them.",
		of(func(t *telemetry.Totals) float64 { return float64(t.Prefetch.Open) })),
	counter("candidates_total", "Exact calls that were thought of.",
		of(func(t *telemetry.Totals) float64 { return float64(t.Candidates) })),
	counter("declined_total", "Candidates that were not fetched early, by reason.", declined, "reason"),
	counter("declined_called_total", "Candidates that were not fetched early, and called all the same.",
		of(func(t *telemetry.Totals) float64 { return float64(t.LateInvoked) })),
	counter("predictions_total", "Answers of which a size was predicted.",
		of(func(t *telemetry.Totals) float64 { return float64(t.Predictions) })),
	counter("cost_overruns_total", "Answers of at least 130 % of the predicted tokens.",
		of(func(t *telemetry.Totals) float64 { return float64(t.CostOverruns) })),
	counter("best_seconds_total", "Waiting that the best choices under the same bounds would have hidden.",
		of(func(t *telemetry.Totals) float64 { return t.BestMS / 1000 })),
	counter("regret_seconds_total", "What those would have hidden more than the choices that were made.",
		of(func(t *telemetry.Totals) float64 { return t.RegretMS / 1000 })),

	counter("reads_total", "Calls that only read.", of(func(t *telemetry.Totals) float64 { return float64(t.Reads) })),
	counter("repeats_total", "Calls answered by what another call had fetched.", of(func(t *telemetry.Totals) float64 { return float64(t.Repeats) })),
	counter("plans_total", "Plans.", of(func(t *telemetry.Totals) float64 { return float64(t.Plans) })),
	counter("plan_steps_total", "Calls made by plans.", of(func(t *telemetry.Totals) float64 { return float64(t.PlanSteps) })),
	counter("llm_turns_saved_total", "Requests to a model that plans made unnecessary.", of(func(t *telemetry.Totals) float64 { return float64(t.TurnsSaved.Plan) })),
	counter("backoffs_total", "Calls served what is older than it should be, as the client kept asking.", of(func(t *telemetry.Totals) float64 { return float64(t.BackOffs) })),
	counter("references_total", "Answers that a note stood for.", of(func(t *telemetry.Totals) float64 { return float64(t.References) })),
	counter("inlined_total", "Answers added to others.", of(func(t *telemetry.Totals) float64 { return float64(t.Inlined) })),

	counter("harm_seconds_total", "Waiting of calls for prefetches.", of(func(t *telemetry.Totals) float64 { return t.Harm.ForegroundWaitMS / 1000 })),
	counter("harm_total", "What prefetches did to others, by reason: rate_limited, eviction or question.", harm, "reason"),
	counter("events_lost_total", "Lines of the record that could not be written.", of(func(t *telemetry.Totals) float64 { return float64(t.EventsLost) })),

	counter("sessions_total", "Sessions that there have been.", func(s *telemetry.Stats, _ *names, tell tell) { tell(float64(s.Sessions)) }),
	gauge("sessions_open", "Sessions at the moment.", func(s *telemetry.Stats, _ *names, tell tell) { tell(float64(s.Open)) }),
	gauge("config_last_reload_successful", "Whether the configuration as it is written is in force.", reloaded),

	gauge("host_level", "How freely the host is guessed at, from 0 (watched only) to 4.", ofHosts(func(h *telemetry.Host) float64 { return float64(h.Level) }), "host"),
	gauge("host_calls_in_flight", "Calls that are with the host.", ofHosts(func(h *telemetry.Host) float64 { return float64(h.InFlight) }), "host"),
	gauge("host_calls_waiting", "Real calls that wait for a place.", ofHosts(func(h *telemetry.Host) float64 { return float64(h.Waiting) }), "host"),
	gauge("host_cooling_seconds", "For so long nothing is guessed there.", ofHosts(func(h *telemetry.Host) float64 { return h.CoolingMS / 1000 }), "host"),
	gauge("host_recent_guesses", "Guesses within the last hour.", ofHosts(func(h *telemetry.Host) float64 { return float64(h.Guesses) }), "host"),
	counter("host_rate_limited_total", "Times that the host said it is called too often.", ofHosts(func(h *telemetry.Host) float64 { return float64(h.Limited) }), "host"),
	counter("host_harm_seconds_total", "Waiting of real calls for guesses at the host.", ofHosts(func(h *telemetry.Host) float64 { return h.HarmMS / 1000 }), "host"),
}

// of reads one number of the totals.
func of(value func(*telemetry.Totals) float64) func(*telemetry.Stats, *names, tell) {
	return func(s *telemetry.Stats, _ *names, tell tell) { tell(value(&s.Totals)) }
}

// ofTools reads one number of each tool.
func ofTools(value func(*telemetry.Part) float64) func(*telemetry.Stats, *names, tell) {
	return func(s *telemetry.Stats, n *names, tell tell) {
		for key, p := range s.Tools {
			l := n.tools[key]
			tell(value(&p), l.upstream, l.tool)
		}
	}
}

// ofHosts reads one number of each host.
func ofHosts(value func(*telemetry.Host) float64) func(*telemetry.Stats, *names, tell) {
	return func(s *telemetry.Stats, n *names, tell tell) {
		for host, h := range s.Hosts {
			tell(value(&h), n.hosts[host])
		}
	}
}

// calls has one of each call, and those for no tool.
func calls(s *telemetry.Stats, n *names, tell tell) {
	none := s.Totals.Failed
	for key, p := range s.Tools {
		l := n.tools[key]
		tell(float64(p.ServedStored), l.upstream, l.tool, "hit")
		tell(float64(p.Joined), l.upstream, l.tool, "joined")
		tell(float64(p.Fetched), l.upstream, l.tool, "fetched")
		tell(float64(p.Failed), l.upstream, l.tool, "failed")
		none -= p.Failed
	}
	tell(float64(max(0, none)), "", unknown, "failed")
}

// hidden has the waiting saved by prefetches apart from the rest.
func hidden(s *telemetry.Stats, n *names, tell tell) {
	for key, p := range s.Tools {
		l := n.tools[key]
		tell(p.HiddenByPrefetch/1000, l.upstream, l.tool, "prefetch")
		tell(max(0, p.HiddenMS-p.HiddenByPrefetch)/1000, l.upstream, l.tool, "repeat")
	}
}

// prefetches has each prefetch once, by its fate.
func prefetches(s *telemetry.Stats, n *names, tell tell) {
	for key, p := range s.Tools {
		l, f := n.tools[key], &p.Prefetch
		tell(float64(f.Used-f.Late), l.upstream, l.tool, "used", "")
		tell(float64(f.Late), l.upstream, l.tool, "late", "")
		tell(float64(f.Compared), l.upstream, l.tool, "compared", "")
		tellEach(f.Wasted, func(value float64, cause string) { tell(value, l.upstream, l.tool, "wasted", cause) })
	}
}

func declined(s *telemetry.Stats, _ *names, tell tell) {
	tellEach(s.Totals.Declined, func(value float64, reason string) { tell(value, reason) })
}

func harm(s *telemetry.Stats, _ *names, tell tell) {
	h := &s.Totals.Harm
	tell(float64(h.RateLimited), "rate_limited")
	tell(float64(h.Evictions), "eviction")
	tell(float64(h.Questions), "question")
}

func reloaded(s *telemetry.Stats, _ *names, tell tell) {
	if s.Config.Error != "" {
		tell(0)
		return
	}
	tell(1)
}

// tellEach tells of each count under its own name.
func tellEach(counts map[string]int64, tell func(value float64, name string)) {
	taken := make(map[string]bool, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		tell(float64(counts[name]), distinct(taken, "", clean(name)))
	}
}
