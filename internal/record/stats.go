// Package record keeps the record of what happened, and everything that is shown of it.
//
// The one idea: every figure is added up from events, by one [Tally], whether they come
// from the running proxy or out of files; and what a figure is called, means and where it
// is shown stands in one place, the tags of its field in [Stats]:
//
//	json  its name in mcpschedd://stats and in `mcpschedd stats --json`
//	jsonschema  what it is, in words: in the JSON Schema, in Prometheus, over OTLP and on the dashboard
//	unit  ms, KiB or share; else it is a number of things
//	csv   its column
//	text  the row and the words of the summary, as a format: "row: 3 of something"
//	prom  its family in Prometheus and over OTLP, with its labels; one that ends in _total only
//	      rises. Of [Quantiles] a histogram, or the families of their sum and of their number
//
//	log := record.Open(record.Options{Dir: dir, Key: key, Each: func(e record.Event) { tally.Count(&e) }})
//	log.Add(record.Event{Kind: record.Call, Session: "1f00c2", …})
//	log.Close()
//
//	err := record.Read(ctx, files, tally.Add, func(p record.Problem) { … })
//	s := tally.Stats(time.Now())
//
// What cannot be known is not counted: whether a model read what was added to an answer, or
// what a call would have taken that was never made.
package record

// Stats is what the resource mcpschedd://stats and `mcpschedd stats --json` show; its JSON
// Schema is stats.schema.json. Shares are 0 where there is nothing to divide by.
type Stats struct {
	SchemaVersion int             `json:"schema_version" jsonschema:"Of this schema. Fields may be added to version 1."`
	UptimeS       int64           `json:"uptime_s" jsonschema:"Seconds from the first event to the last, or to now while a process runs."`
	Processes     int             `json:"processes" jsonschema:"Processes of which there are events."`
	Sessions      int             `json:"sessions" jsonschema:"Sessions that there have been." text:"sessions: %d" prom:"sessions_total"`
	Open          int             `json:"sessions_open" jsonschema:"Sessions that have not ended." text:"sessions: %d open" prom:"sessions_open"`
	Config        Config          `json:"config" jsonschema:"What the proxy runs with; of the process that began last."`
	Totals        Totals          `json:"totals" jsonschema:"Sums over everything."`
	Upstreams     map[string]Part `json:"upstreams" jsonschema:"Name of an upstream: its own figures. At most 256; the rest is under (other)."`
	Tools         map[string]Part `json:"tools" jsonschema:"upstream/tool: its own figures. At most 4,096; the rest is under (other)."`
	Hosts         map[string]Host `json:"hosts" jsonschema:"Name of a host: what it allows at the moment, over the processes that run."`
	Report        string          `json:"report" jsonschema:"The report line; empty if all its figures are 0."`
	Running       []Status        `json:"running,omitempty" jsonschema:"How the running processes stand."`
	Replicas      []string        `json:"replicas,omitempty" jsonschema:"Where several replicas share a store: those that the figures are of, by machine and process. Of several a quantile is the mean of theirs."`
	Engine        any             `json:"engine,omitempty" jsonschema:"Of a running proxy: the inner state, for finding a fault; not described further, and no part of version 1."`
}

// Config is what the proxy runs with.
type Config struct {
	Path     string `json:"path" jsonschema:"Of the configuration; empty: the built-in defaults."`
	LoadedAt string `json:"loaded_at,omitempty" jsonschema:"When it came into force (RFC 3339)."`
	Error    string `json:"error,omitempty" jsonschema:"Why a newer one is not in force."`
}

// Part is the figures of one tool or upstream, and those of all. It has more than 15 fields
// because each is one figure.
type Part struct {
	Calls         int64   `json:"calls" jsonschema:"Calls of clients, steps of plans included, by how they came by their answers." csv:"calls" text:"calls: %d" prom:"calls_total{upstream,tool,disposition}"`
	ServedStored  int64   `json:"served_stored" jsonschema:"Calls answered from the store." csv:"served_stored" text:"calls: %d from the store" prom:"calls_total{upstream,tool,disposition=hit}"`
	Joined        int64   `json:"joined" jsonschema:"Calls answered by a fetch that another call or a prefetch had begun." csv:"joined" text:"calls: %d joined" prom:"calls_total{upstream,tool,disposition=joined}"`
	Fetched       int64   `json:"fetched" jsonschema:"Calls answered by their upstream." csv:"fetched" text:"calls: %d fetched" prom:"calls_total{upstream,tool,disposition=fetched}"`
	Failed        int64   `json:"failed" jsonschema:"Calls that were withdrawn or not answered." csv:"failed" text:"calls: %d failed" prom:"calls_total{upstream,tool,disposition=failed}"`
	Errors        int64   `json:"errors" jsonschema:"Calls whose answer is an error." csv:"errors" text:"calls: %d errors" prom:"call_errors_total{upstream,tool}"`
	Unclassified  int64   `json:"unclassified" jsonschema:"Calls that may write, since nothing says that their tool only reads: never stored, joined or prefetched." csv:"unclassified" prom:"unclassified_calls_total{upstream,tool}"`
	UpstreamCalls int64   `json:"upstream_calls" jsonschema:"Calls that went to upstreams, prefetches included." csv:"upstream_calls" text:"cost: %d requests to upstreams" prom:"upstream_requests_total{upstream,tool}"`
	Amplification float64 `json:"upstream_amplification" jsonschema:"Requests to upstreams for each call." csv:"upstream_amplification" text:"cost: %.2f per call"`

	Prefetch PrefetchPart `json:"prefetch" jsonschema:"What came of prefetches."`

	HiddenMS         float64 `json:"tool_ms_hidden" jsonschema:"Waiting that calls did not have, by what saved it: prefetch or repeat." unit:"ms" csv:"tool_ms_hidden" text:"waiting: %s hidden" prom:"hidden_seconds_total{upstream,tool,by}"`
	HiddenByPrefetch float64 `json:"tool_ms_hidden_prefetch" jsonschema:"Waiting saved by prefetches; each counts with its first use only." unit:"ms" csv:"tool_ms_hidden_prefetch" text:"waiting: %s of it by prefetches" prom:"hidden_seconds_total{upstream,tool,by=prefetch}"`
	HiddenByRepeat   float64 `json:"-" unit:"ms" prom:"hidden_seconds_total{upstream,tool,by=repeat}"`
	WaitedMS         float64 `json:"tool_ms_waited" jsonschema:"Waiting of calls for their answers, failed ones included." unit:"ms" csv:"tool_ms_waited" text:"waiting: %s waited" prom:"waited_seconds_total{upstream,tool}"`
	TokensSaved      int64   `json:"context_tokens_saved" jsonschema:"Tokens, estimated, that were not sent to clients a second time, or that plans kept to themselves." csv:"context_tokens_saved" text:"saved: about %d tokens" prom:"tokens_saved_total{upstream,tool}"`
	TokensToClient   int64   `json:"tokens_to_client" jsonschema:"Tokens of the answers that clients were given, estimated." csv:"tokens_to_client" prom:"tokens_to_client_total{upstream,tool}"`

	LatencyMS Quantiles `json:"latency_ms" jsonschema:"How long calls took, from their arrival to their answer." unit:"ms" csv:"latency_ms" prom:"call_duration_seconds{upstream,tool}"`
	FetchMS   Quantiles `json:"upstream_ms" jsonschema:"Time that fetches took." unit:"ms" prom:"fetch_seconds_total{upstream,tool} fetches_total{upstream,tool}"`
	ResultKB  Quantiles `json:"result_kb" jsonschema:"Size of results in KiB; in Prometheus in bytes." unit:"KiB" prom:"result_bytes_total{upstream,tool} results_total{upstream,tool}"`
}

// PrefetchPart is what came of prefetches.
type PrefetchPart struct {
	Issued     int64            `json:"issued" jsonschema:"Prefetches that were begun, by what became of them, and of wasted ones why." csv:"prefetches" text:"prefetches: %d" prom:"prefetches_total{upstream,tool,fate,cause}"`
	Dispatched int64            `json:"dispatched" jsonschema:"Prefetches whose request went to the upstream." csv:"dispatched"`
	Accuracy   float64          `json:"accuracy" jsonschema:"Used, of the prefetches whose fate is known." unit:"share" csv:"accuracy" text:"prefetches: %s used (reference: 60%% or more)"`
	Used       int64            `json:"used" jsonschema:"Prefetches whose answer a call was given, late ones included." csv:"used"`
	InTime     int64            `json:"-" prom:"prefetches_total{upstream,tool,fate=used}"`
	Late       int64            `json:"late" jsonschema:"Prefetches whose answer a call was given after it had waited for the rest of the fetch." csv:"late" text:"prefetches: %d of them late" prom:"prefetches_total{upstream,tool,fate=late}"`
	Compared   int64            `json:"compared" jsonschema:"Prefetches whose answer was only compared with what a call fetched for itself." csv:"compared" prom:"prefetches_total{upstream,tool,fate=compared}"`
	Wasted     map[string]int64 `json:"wasted" jsonschema:"Prefetches whose answer no call was given, by cause." csv:"wasted" text:"prefetches: wasted %s" prom:"prefetches_total{upstream,tool,fate=wasted,cause}"`
	Open       int64            `json:"open" jsonschema:"Prefetches whose fate is not known yet." text:"prefetches: %d whose fate is not known yet" prom:"prefetches_open"`
	Timeliness float64          `json:"timeliness" jsonschema:"There when a call came, of those used." unit:"share" csv:"timeliness"`
}

// Totals are sums over everything. It has more than 15 fields because each is one figure.
type Totals struct {
	Part
	Candidates   int64            `json:"candidates" jsonschema:"Exact calls that were considered for prefetching." csv:"candidates" prom:"candidates_total"`
	Declined     map[string]int64 `json:"declined" jsonschema:"Candidates that were not prefetched, by reason." csv:"declined" text:"declined: %s" prom:"declined_total{reason}"`
	LateInvoked  int64            `json:"late_invoked_after_decline" jsonschema:"Candidates that were not prefetched, and called all the same." csv:"late_invoked_after_decline" prom:"declined_called_total"`
	RecallLoss   float64          `json:"-" unit:"share" text:"declined: %s called all the same (reference: 10%% or less)"`
	Predictions  int64            `json:"predictions" jsonschema:"Answers of which a size was predicted; that of a prefetch counts once." csv:"predictions" text:"sizes: %d predicted" prom:"predictions_total"`
	CostOverruns int64            `json:"cost_overruns" jsonschema:"Answers of at least 130 % of the predicted tokens." csv:"cost_overruns" prom:"cost_overruns_total"`
	OverrunShare float64          `json:"-" unit:"share" text:"sizes: %s overrun (reference: 15%% or less)"`
	ServedShare  float64          `json:"served_share" jsonschema:"Prefetches used, of calls that only read." unit:"share" csv:"served_share"`
	Reads        int64            `json:"reads" jsonschema:"Calls that only read." csv:"reads" prom:"reads_total"`
	TurnsSaved   Turns            `json:"llm_turns_saved" jsonschema:"Requests to a model that were not necessary."`
	Plans        int64            `json:"plans" jsonschema:"Plans." csv:"plans" prom:"plans_total"`
	PlanSteps    int64            `json:"plan_steps" jsonschema:"Calls made by plans." csv:"plan_steps" prom:"plan_steps_total"`
	Repeats      int64            `json:"repeats" jsonschema:"Calls answered by what another call had fetched." csv:"repeats" prom:"repeats_total"`
	BackOffs     int64            `json:"backoffs" jsonschema:"Calls answered with an older error than usual, because the client kept asking." csv:"backoffs" prom:"backoffs_total"`
	References   int64            `json:"references" jsonschema:"Answers that a note stood for." csv:"references" prom:"references_total"`
	Inlined      int64            `json:"inlined" jsonschema:"Answers added to others; whether they were read cannot be known." csv:"inlined" prom:"inlined_total"`
	RegretMS     float64          `json:"regret_ms" jsonschema:"What the best choices under the same bounds would have hidden more than those that were made." unit:"ms" csv:"regret_ms" text:"regret: %s less hidden than by the best choices" prom:"regret_seconds_total"`
	BestMS       float64          `json:"best_ms" jsonschema:"Waiting that the best choices under the same bounds would have hidden." unit:"ms" text:"regret: which would have hidden %s" prom:"best_seconds_total"`
	Harm         HarmPart         `json:"harm" jsonschema:"What prefetches did to others, by reason: rate_limited, eviction or question." prom:"harm_total{reason}"`
	EventsLost   int64            `json:"events_lost" jsonschema:"Lines of the record that could not be written; the figures count them all the same." text:"lost: %d lines of the record" prom:"events_lost_total"`
}

// Turns are requests to a model that were not necessary.
type Turns struct {
	Plan int64 `json:"plan" jsonschema:"Requests to a model that plans made unnecessary: the longest chain of calls in each plan that was not cancelled, less one." csv:"turns_saved" text:"saved: %d turns of the model" prom:"llm_turns_saved_total"`
}

// HarmPart is what prefetches did to others.
type HarmPart struct {
	ForegroundWaitMS float64 `json:"foreground_wait_ms" jsonschema:"Waiting of calls for prefetches." unit:"ms" csv:"harm_foreground_wait_ms" text:"cost: %s that calls waited for prefetches" prom:"harm_seconds_total"`
	RateLimited      int64   `json:"rate_limited" jsonschema:"Times that a host said it is called too often." csv:"harm_rate_limited" text:"cost: %d times that a host was called too often" prom:"harm_total{reason=rate_limited}"`
	Evictions        int64   `json:"evictions" jsonschema:"Evictions of answers to real calls." text:"cost: %d answers evicted" prom:"harm_total{reason=eviction}"`
	Questions        int64   `json:"questions" jsonschema:"Questions to clients." text:"cost: %d questions to clients" prom:"harm_total{reason=question}"`
}

// Host is what a host allows at the moment, and how freely calls to it are prefetched.
type Host struct {
	Host        string  `json:"host" jsonschema:"Its name."`
	Level       int     `json:"level" jsonschema:"How freely calls to the host are prefetched, from 0 (candidates are only watched) to 4." prom:"host_level{host}"`
	InFlight    int     `json:"in_flight,omitempty" jsonschema:"Calls that are with the host." prom:"host_calls_in_flight{host}"`
	Waiting     int     `json:"waiting,omitempty" jsonschema:"Real calls that wait for a place." prom:"host_calls_waiting{host}"`
	Rate        float64 `json:"rate,omitempty" jsonschema:"Calls per second that the user allows; 0: any number."`
	Burst       int     `json:"burst,omitempty" jsonschema:"Calls at once that the user allows beyond that."`
	Concurrency int     `json:"concurrency,omitempty" jsonschema:"Calls at the same time that the user allows; 0: any number."`
	Tokens      float64 `json:"tokens,omitempty" jsonschema:"Calls that may be made at once now."`
	Limited     int64   `json:"limited,omitempty" jsonschema:"Times that the host said it is called too often." prom:"host_rate_limited_total{host}"`
	CoolingMS   float64 `json:"cooling_ms,omitempty" jsonschema:"For so long nothing is prefetched there." unit:"ms" prom:"host_cooling_seconds{host}"`
	Prefetches  int     `json:"prefetches_last_hour,omitempty" jsonschema:"Prefetches within the last hour." prom:"host_recent_prefetches{host}"`
	HarmMS      float64 `json:"harm_ms,omitempty" jsonschema:"Waiting of real calls for prefetches at the host." unit:"ms" prom:"host_harm_seconds_total{host}"`
}

// Quantiles are those of a [Histogram]; 0 without values.
type Quantiles struct {
	N   int64   `json:"n" jsonschema:"Number of values, exact."`
	Sum float64 `json:"sum" jsonschema:"Sum of them, exact."`
	P50 float64 `json:"p50" jsonschema:"Median."`
	P90 float64 `json:"p90" jsonschema:"90th percentile."`
	P99 float64 `json:"p99" jsonschema:"99th percentile."`
	Max float64 `json:"max" jsonschema:"Largest, exact."`

	Buckets []int64 `json:"-"` // how many values there are up to each bound that Prometheus has
}
