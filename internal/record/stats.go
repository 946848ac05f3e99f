// Package record logs calls, prefetches and choices as events, and computes all statistics from
// them.
//
// Every figure is the sum over events, computed by one [Tally], whether the events come from the
// running proxy or from files. The tags of a figure's field in [Stats] are the only place that
// defines its names, meaning and outputs:
//
//	json  name in mcpschedd://stats and in `mcpschedd stats --json`
//	jsonschema  description in the JSON Schema, Prometheus, OTLP and the dashboard
//	unit  ms, KiB or share; without it the figure is a count
//	csv   column
//	text  row of the summary and a format for the value: "row: %d of something"
//	prom  family in Prometheus and OTLP, with labels; a counter if it ends in _total. For
//	      [Quantiles] either a histogram, or two families for their sum and their count
//
//	log := record.Open(record.Options{Dir: dir, Key: key, Each: func(e record.Event) { tally.Count(&e) }})
//	log.Add(record.Event{Kind: record.Call, Session: "1f00c2", …})
//	log.Close()
//
//	err := record.Read(ctx, files, tally.Add, func(p record.Problem) { … })
//	s := tally.Stats(time.Now())
//
// Quantities that cannot be observed are not counted, such as whether a model read an inlined
// answer, or how long a call would have taken that was never made.
package record

// Stats is the content of the resource mcpschedd://stats and of `mcpschedd stats --json`; its
// JSON Schema is stats.schema.json. A ratio whose denominator is 0 is 0.
type Stats struct {
	SchemaVersion int             `json:"schema_version" jsonschema:"Version of this schema. Fields may be added to version 1."`
	UptimeS       int64           `json:"uptime_s" jsonschema:"Seconds from the first event to the last, or to now while a process runs."`
	Processes     int             `json:"processes" jsonschema:"Processes that have recorded events."`
	Sessions      int             `json:"sessions" jsonschema:"Sessions so far." text:"sessions: %d" prom:"sessions_total"`
	Open          int             `json:"sessions_open" jsonschema:"Sessions that have not ended." text:"sessions: %d open" prom:"sessions_open"`
	Config        Config          `json:"config" jsonschema:"Configuration of the process that started last."`
	Totals        Totals          `json:"totals" jsonschema:"Sums over all events."`
	Upstreams     map[string]Part `json:"upstreams" jsonschema:"Figures by name of the server. At most 256; the rest is under (other)."`
	Tools         map[string]Part `json:"tools" jsonschema:"Figures by upstream/tool. At most 4,096; the rest is under (other)."`
	Hosts         map[string]Host `json:"hosts" jsonschema:"Limits and prefetching by name of the host, over all running processes."`
	Report        string          `json:"report" jsonschema:"The report line; empty if all its figures are 0."`
	Running       []Status        `json:"running,omitempty" jsonschema:"Status of the running processes."`
	Replicas      []string        `json:"replicas,omitempty" jsonschema:"If several replicas share a cache: the replicas that the figures cover, by machine and process. A quantile is then the mean of theirs."`
	Engine        any             `json:"engine,omitempty" jsonschema:"Internal state of a running proxy, for debugging; not described further, and not part of version 1."`
}

// Config describes the configuration in force.
type Config struct {
	Path     string `json:"path" jsonschema:"Path of the configuration; empty if the built-in defaults are used."`
	LoadedAt string `json:"loaded_at,omitempty" jsonschema:"When it came into force (RFC 3339)."`
	Error    string `json:"error,omitempty" jsonschema:"Why a newer configuration is not in force."`
}

// Part is the figures of one tool or upstream, or of all together. It has more than 15 fields
// because each is one figure.
type Part struct {
	Calls         int64   `json:"calls" jsonschema:"Calls of clients and of steps of plans, by where their results came from." csv:"calls" text:"calls: %d" prom:"calls_total{upstream,tool,disposition}"`
	ServedStored  int64   `json:"served_stored" jsonschema:"Calls answered from the cache." csv:"served_stored" text:"calls: %d from the cache" prom:"calls_total{upstream,tool,disposition=hit}"`
	Joined        int64   `json:"joined" jsonschema:"Calls answered by a fetch that another call or a prefetch had started." csv:"joined" text:"calls: %d joined" prom:"calls_total{upstream,tool,disposition=joined}"`
	Fetched       int64   `json:"fetched" jsonschema:"Calls answered by a fetch of their own." csv:"fetched" text:"calls: %d fetched" prom:"calls_total{upstream,tool,disposition=fetched}"`
	Failed        int64   `json:"failed" jsonschema:"Calls that were cancelled or not answered." csv:"failed" text:"calls: %d failed" prom:"calls_total{upstream,tool,disposition=failed}"`
	Errors        int64   `json:"errors" jsonschema:"Calls whose result is an error." csv:"errors" text:"calls: %d errors" prom:"call_errors_total{upstream,tool}"`
	Unclassified  int64   `json:"unclassified" jsonschema:"Calls of tools that are not known to be read-only, which are never cached, joined or prefetched." csv:"unclassified" prom:"unclassified_calls_total{upstream,tool}"`
	UpstreamCalls int64   `json:"upstream_calls" jsonschema:"Requests sent to servers, prefetches included." csv:"upstream_calls" text:"cost: %d requests to servers" prom:"upstream_requests_total{upstream,tool}"`
	Amplification float64 `json:"upstream_amplification" jsonschema:"Requests to servers per call." csv:"upstream_amplification" text:"cost: %.2f per call"`

	Prefetch PrefetchPart `json:"prefetch" jsonschema:"Outcomes of prefetches."`

	HiddenMS         float64 `json:"tool_ms_hidden" jsonschema:"Waiting time saved, by what saved it: prefetch or repeat." unit:"ms" csv:"tool_ms_hidden" text:"waiting: %s hidden" prom:"hidden_seconds_total{upstream,tool,by}"`
	HiddenByPrefetch float64 `json:"tool_ms_hidden_prefetch" jsonschema:"Waiting time saved by prefetches, each counted with its first use only." unit:"ms" csv:"tool_ms_hidden_prefetch" text:"waiting: %s of it by prefetches" prom:"hidden_seconds_total{upstream,tool,by=prefetch}"`
	HiddenByRepeat   float64 `json:"-" unit:"ms" prom:"hidden_seconds_total{upstream,tool,by=repeat}"`
	WaitedMS         float64 `json:"tool_ms_waited" jsonschema:"Time that calls waited for their results, failed calls included." unit:"ms" csv:"tool_ms_waited" text:"waiting: %s waited" prom:"waited_seconds_total{upstream,tool}"`
	TokensSaved      int64   `json:"context_tokens_saved" jsonschema:"Estimated tokens that were not sent to clients, because the client had them already or because a plan needed them only internally." csv:"context_tokens_saved" text:"saved: about %d tokens" prom:"tokens_saved_total{upstream,tool}"`
	TokensToClient   int64   `json:"tokens_to_client" jsonschema:"Estimated tokens of the results sent to clients." csv:"tokens_to_client" prom:"tokens_to_client_total{upstream,tool}"`

	LatencyMS Quantiles `json:"latency_ms" jsonschema:"Duration of calls, from arrival to result." unit:"ms" csv:"latency_ms" prom:"call_duration_seconds{upstream,tool}"`
	FetchMS   Quantiles `json:"upstream_ms" jsonschema:"Duration of fetches." unit:"ms" prom:"fetch_seconds_total{upstream,tool} fetches_total{upstream,tool}"`
	ResultKB  Quantiles `json:"result_kb" jsonschema:"Size of results in KiB; in Prometheus in bytes." unit:"KiB" prom:"result_bytes_total{upstream,tool} results_total{upstream,tool}"`
}

// PrefetchPart is the outcomes of prefetches.
type PrefetchPart struct {
	Issued     int64            `json:"issued" jsonschema:"Prefetches that were started, by fate, and wasted ones by cause." csv:"prefetches" text:"prefetches: %d" prom:"prefetches_total{upstream,tool,fate,cause}"`
	Dispatched int64            `json:"dispatched" jsonschema:"Prefetches whose request was sent to the server." csv:"dispatched"`
	Accuracy   float64          `json:"accuracy" jsonschema:"Share of the prefetches with a known fate that were used." unit:"share" csv:"accuracy" text:"prefetches: %s used (reference: 60%% or more)"`
	Used       int64            `json:"used" jsonschema:"Prefetches whose result a call used, late ones included." csv:"used"`
	InTime     int64            `json:"-" prom:"prefetches_total{upstream,tool,fate=used}"`
	Late       int64            `json:"late" jsonschema:"Prefetches whose result a call used after waiting for the rest of the fetch." csv:"late" text:"prefetches: %d of them late" prom:"prefetches_total{upstream,tool,fate=late}"`
	Compared   int64            `json:"compared" jsonschema:"Prefetches whose result was only compared with the one that a call fetched itself." csv:"compared" prom:"prefetches_total{upstream,tool,fate=compared}"`
	Wasted     map[string]int64 `json:"wasted" jsonschema:"Prefetches whose result no call used, by cause." csv:"wasted" text:"prefetches: wasted %s" prom:"prefetches_total{upstream,tool,fate=wasted,cause}"`
	Open       int64            `json:"open" jsonschema:"Prefetches whose fate is not known yet." text:"prefetches: %d still open" prom:"prefetches_open"`
	Timeliness float64          `json:"timeliness" jsonschema:"Share of the used prefetches whose result was complete when the call came." unit:"share" csv:"timeliness"`
}

// Totals is the sums over all events. It has more than 15 fields because each is one figure.
type Totals struct {
	Part
	Candidates   int64            `json:"candidates" jsonschema:"Candidate calls that were considered for prefetching." csv:"candidates" prom:"candidates_total"`
	Declined     map[string]int64 `json:"declined" jsonschema:"Candidates that were not prefetched, by reason." csv:"declined" text:"declined: %s" prom:"declined_total{reason}"`
	LateInvoked  int64            `json:"late_invoked_after_decline" jsonschema:"Candidates that were not prefetched and were then called." csv:"late_invoked_after_decline" prom:"declined_called_total"`
	RecallLoss   float64          `json:"-" unit:"share" text:"declined: %s called anyway (reference: 10%% or less)"`
	Predictions  int64            `json:"predictions" jsonschema:"Results with a predicted size; that of a prefetch counts once." csv:"predictions" text:"sizes: %d predicted" prom:"predictions_total"`
	CostOverruns int64            `json:"cost_overruns" jsonschema:"Results of at least 130 % of the predicted tokens." csv:"cost_overruns" prom:"cost_overruns_total"`
	OverrunShare float64          `json:"-" unit:"share" text:"sizes: %s overrun (reference: 15%% or less)"`
	ServedShare  float64          `json:"served_share" jsonschema:"Used prefetches as a share of the read-only calls." unit:"share" csv:"served_share"`
	Reads        int64            `json:"reads" jsonschema:"Read-only calls." csv:"reads" prom:"reads_total"`
	TurnsSaved   Turns            `json:"llm_turns_saved" jsonschema:"Requests to a model that were saved."`
	Plans        int64            `json:"plans" jsonschema:"Plans." csv:"plans" prom:"plans_total"`
	PlanSteps    int64            `json:"plan_steps" jsonschema:"Calls made by plans." csv:"plan_steps" prom:"plan_steps_total"`
	Repeats      int64            `json:"repeats" jsonschema:"Calls answered by a fetch of another call." csv:"repeats" prom:"repeats_total"`
	BackOffs     int64            `json:"backoffs" jsonschema:"Calls answered with an older error than usual, because the client kept repeating them." csv:"backoffs" prom:"backoffs_total"`
	References   int64            `json:"references" jsonschema:"Results replaced by a note that the client already has them." csv:"references" prom:"references_total"`
	Inlined      int64            `json:"inlined" jsonschema:"Results appended to other results; whether they were read is not known." csv:"inlined" prom:"inlined_total"`
	RegretMS     float64          `json:"regret_ms" jsonschema:"Waiting time that the best choices under the same limits would have saved beyond the actual choices." unit:"ms" csv:"regret_ms" text:"regret: %s less hidden than with the best choices" prom:"regret_seconds_total"`
	BestMS       float64          `json:"best_ms" jsonschema:"Waiting time that the best choices under the same limits would have saved." unit:"ms" text:"regret: which would have hidden %s" prom:"best_seconds_total"`
	Harm         HarmPart         `json:"harm" jsonschema:"Harm done by prefetches, by kind: rate_limited, eviction or question." prom:"harm_total{reason}"`
	EventsLost   int64            `json:"events_lost" jsonschema:"Lines of the event log that could not be written; the figures include them." text:"lost: %d lines of the event log" prom:"events_lost_total"`
}

// Turns is the requests to a model that were saved.
type Turns struct {
	Plan int64 `json:"plan" jsonschema:"Requests to a model that plans saved: for each plan that was not cancelled, the length of its longest chain of calls less one." csv:"turns_saved" text:"saved: %d turns of the model" prom:"llm_turns_saved_total"`
}

// HarmPart is the harm done by prefetches.
type HarmPart struct {
	ForegroundWaitMS float64 `json:"foreground_wait_ms" jsonschema:"Time that calls waited for prefetches." unit:"ms" csv:"harm_foreground_wait_ms" text:"cost: %s that calls waited for prefetches" prom:"harm_seconds_total"`
	RateLimited      int64   `json:"rate_limited" jsonschema:"Rate limit responses of hosts." csv:"harm_rate_limited" text:"cost: %d rate limit responses" prom:"harm_total{reason=rate_limited}"`
	Evictions        int64   `json:"evictions" jsonschema:"Evictions of results that calls had fetched." text:"cost: %d answers evicted" prom:"harm_total{reason=eviction}"`
	Questions        int64   `json:"questions" jsonschema:"Questions to clients that prefetches caused." text:"cost: %d questions to clients" prom:"harm_total{reason=question}"`
}

// Host is the limits of a host, and how freely its calls are prefetched.
type Host struct {
	Host        string  `json:"host" jsonschema:"Name of the host."`
	Level       int     `json:"level" jsonschema:"Prefetch level of the host, from 0 (candidates are only observed) to 4." prom:"host_level{host}"`
	InFlight    int     `json:"in_flight,omitempty" jsonschema:"Calls in flight." prom:"host_calls_in_flight{host}"`
	Waiting     int     `json:"waiting,omitempty" jsonschema:"Calls of clients that wait for a slot." prom:"host_calls_waiting{host}"`
	Rate        float64 `json:"rate,omitempty" jsonschema:"Configured limit of calls per second; 0 means no limit."`
	Burst       int     `json:"burst,omitempty" jsonschema:"Configured burst beyond that rate."`
	Concurrency int     `json:"concurrency,omitempty" jsonschema:"Configured limit of concurrent calls; 0 means no limit."`
	Tokens      float64 `json:"tokens,omitempty" jsonschema:"Tokens in the bucket: calls that may be made at once now."`
	Limited     int64   `json:"limited,omitempty" jsonschema:"Rate limit responses of the host." prom:"host_rate_limited_total{host}"`
	CoolingMS   float64 `json:"cooling_ms,omitempty" jsonschema:"Time for which nothing is prefetched there." unit:"ms" prom:"host_cooling_seconds{host}"`
	Prefetches  int     `json:"prefetches_last_hour,omitempty" jsonschema:"Prefetches within the last hour." prom:"host_recent_prefetches{host}"`
	HarmMS      float64 `json:"harm_ms,omitempty" jsonschema:"Time that calls waited for prefetches at the host." unit:"ms" prom:"host_harm_seconds_total{host}"`
}

// Quantiles summarizes a [Histogram]. All fields are 0 if there are no values.
type Quantiles struct {
	N   int64   `json:"n" jsonschema:"Number of values, exact."`
	Sum float64 `json:"sum" jsonschema:"Sum of them, exact."`
	P50 float64 `json:"p50" jsonschema:"Median."`
	P90 float64 `json:"p90" jsonschema:"90th percentile."`
	P99 float64 `json:"p99" jsonschema:"99th percentile."`
	Max float64 `json:"max" jsonschema:"Largest, exact."`

	Buckets []int64 `json:"-"` // cumulative counts for prometheusBuckets
}
