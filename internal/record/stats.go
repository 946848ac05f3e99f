package record

import "time"

// Stats is the content of the resource mcpschedd://stats and of `mcpschedd stats --json`; its
// JSON Schema is stats.schema.json. A ratio with the denominator 0 is 0.
type Stats struct {
	SchemaVersion int                `json:"schema_version" jsonschema:"Version of this schema. Fields may be added to version 1."`
	UptimeS       int64              `json:"uptime_s" jsonschema:"Seconds from the first event to the last, or to now while a process runs."`
	Processes     int                `json:"processes" jsonschema:"Processes that have recorded events."`
	Sessions      int                `json:"sessions" jsonschema:"Sessions so far." prom:"counter"`
	Open          int                `json:"sessions_open" jsonschema:"Open sessions of the running processes." prom:"gauge"`
	Config        Config             `json:"config" jsonschema:"Configuration of the process that started last."`
	Totals        Totals             `json:"totals" jsonschema:"Sums over all events."`
	Upstreams     map[string]Figures `json:"upstreams" jsonschema:"Figures by name of the server."`
	Tools         map[string]Figures `json:"tools" jsonschema:"Figures by NAME/TOOL. At most 4,096; the rest is under (other), calls of tools that no server has under (unknown)."`
	Hosts         map[string]Host    `json:"hosts" jsonschema:"Limits and prefetching by name of the host. If several running processes call it, those of the one that prefetches least."`
	Report        string             `json:"report" jsonschema:"The report line; empty if all its figures are 0."`
	Running       []Status           `json:"running,omitempty" jsonschema:"Status of the running processes."`
	Replicas      []string           `json:"replicas,omitempty" jsonschema:"If several replicas share a cache: the replicas that the figures cover, by machine and process. A quantile is then the mean of theirs."`
}

// Config describes the configuration in force.
type Config struct {
	Path     string    `json:"path" jsonschema:"Path of the configuration; empty if the built-in defaults are used."`
	LoadedAt time.Time `json:"loaded_at,omitzero" jsonschema:"When it came into force (RFC 3339)."`
	Error    string    `json:"error,omitempty" jsonschema:"Why a newer configuration is not in force."`
}

// Figures are those of one tool or upstream, or of all together. It has more than 15 fields because
// each is one figure.
type Figures struct {
	Calls         int64   `json:"calls" jsonschema:"Calls of clients and of steps of plans." prom:"counter"`
	Hit           int64   `json:"served_stored" jsonschema:"Calls answered from the cache." prom:"counter"`
	Joined        int64   `json:"joined" jsonschema:"Calls answered by a fetch that another call or a prefetch had started." prom:"counter"`
	Fetched       int64   `json:"fetched" jsonschema:"Calls answered by a fetch of their own." prom:"counter"`
	Failed        int64   `json:"failed" jsonschema:"Calls that were cancelled or not answered." prom:"counter"`
	Errors        int64   `json:"errors" jsonschema:"Calls whose result is an error." prom:"counter"`
	Unclassified  int64   `json:"unclassified" jsonschema:"Calls of tools that nothing classifies, which are never cached, joined or prefetched." prom:"counter"`
	UpstreamCalls int64   `json:"upstream_calls" jsonschema:"Requests sent to servers, prefetches included." prom:"counter"`
	Amplification float64 `json:"upstream_amplification" jsonschema:"Requests to servers per call."`

	Prefetch PrefetchFigures `json:"prefetch" jsonschema:"Outcomes of prefetches."`

	HiddenMS         float64 `json:"tool_ms_hidden" jsonschema:"Waiting time saved." unit:"ms" prom:"counter"`
	HiddenByPrefetch float64 `json:"tool_ms_hidden_prefetch" jsonschema:"Waiting time saved by prefetches, each counted with its first use only." unit:"ms" prom:"counter"`
	HiddenByRepeat   float64 `json:"tool_ms_hidden_repeat" jsonschema:"Waiting time saved by calls that used a fetch of another call." unit:"ms" prom:"counter"`
	WaitedMS         float64 `json:"tool_ms_waited" jsonschema:"Time that calls waited for their results, failed calls included." unit:"ms" prom:"counter"`
	TokensSaved      int64   `json:"context_tokens_saved" jsonschema:"Estimated tokens that were not sent to clients, because the client had them already or because a plan needed them only internally." prom:"counter"`
	TokensToClient   int64   `json:"tokens_to_client" jsonschema:"Estimated tokens of the results sent to clients." prom:"counter"`

	LatencyMS Histogram `json:"latency_ms" jsonschema:"Duration of calls, from arrival to result." unit:"ms" prom:"histogram"`
	FetchMS   Histogram `json:"upstream_ms" jsonschema:"Duration of fetches." unit:"ms" prom:"histogram"`
	ResultKB  Histogram `json:"result_kb" jsonschema:"Size of results in KiB; in Prometheus in bytes." unit:"KiB" prom:"histogram"`
}

// PrefetchFigures are the outcomes of prefetches.
type PrefetchFigures struct {
	Issued     int64            `json:"issued" jsonschema:"Prefetches that were started." prom:"counter"`
	Dispatched int64            `json:"dispatched" jsonschema:"Prefetches whose request was sent to the server."`
	Accuracy   float64          `json:"accuracy" jsonschema:"Share of the prefetches with a known fate that were used." unit:"share"`
	Used       int64            `json:"used" jsonschema:"Prefetches whose result a call used, late ones included." prom:"counter"`
	InTime     int64            `json:"in_time" jsonschema:"Used prefetches whose result was complete when the call came." prom:"counter"`
	Late       int64            `json:"late" jsonschema:"Prefetches whose result a call used after waiting for the rest of the fetch." prom:"counter"`
	Compared   int64            `json:"compared" jsonschema:"Prefetches whose result was only compared with the one that a call fetched itself." prom:"counter"`
	Wasted     map[string]int64 `json:"wasted" jsonschema:"Prefetches whose result no call used, by cause." prom:"counter,cause"`
	Open       int64            `json:"open" jsonschema:"Prefetches whose fate is not known yet." prom:"gauge"`
	Timeliness float64          `json:"timeliness" jsonschema:"Share of the used prefetches whose result was complete when the call came." unit:"share"`
}

// Totals are the sums over all events: the Figures of all tools together, and those that are not
// counted by tool. It has more than 15 fields because each is one figure.
type Totals struct {
	Figures
	Candidates   int64            `json:"candidates" jsonschema:"Candidate calls that were considered for prefetching." prom:"counter"`
	Declined     map[string]int64 `json:"declined" jsonschema:"Candidates that were not prefetched, by reason." prom:"counter,reason"`
	LateCalled   int64            `json:"late_invoked_after_decline" jsonschema:"Candidates that were not prefetched and were then called." prom:"counter"`
	Predictions  int64            `json:"predictions" jsonschema:"Results with a predicted size; that of a prefetch counts once." prom:"counter"`
	CostOverruns int64            `json:"cost_overruns" jsonschema:"Results of at least 130 % of the predicted tokens." prom:"counter"`
	ServedShare  float64          `json:"served_share" jsonschema:"Used prefetches as a share of the read-only calls." unit:"share"`
	Reads        int64            `json:"reads" jsonschema:"Read-only calls." prom:"counter"`
	TurnsSaved   Turns            `json:"llm_turns_saved" jsonschema:"Requests to a model that were saved."`
	Plans        int64            `json:"plans" jsonschema:"Plans." prom:"counter"`
	PlanSteps    int64            `json:"plan_steps" jsonschema:"Calls made by plans." prom:"counter"`
	Repeats      int64            `json:"repeats" jsonschema:"Calls answered by a fetch of another call." prom:"counter"`
	BackOffs     int64            `json:"backoffs" jsonschema:"Calls answered with an older error than usual, because the client kept repeating them." prom:"counter"`
	References   int64            `json:"references" jsonschema:"Results replaced by a note that the client already has them." prom:"counter"`
	Inlined      int64            `json:"inlined" jsonschema:"Results appended to other results; whether they were read is not known." prom:"counter"`
	Harm         HarmFigures      `json:"harm" jsonschema:"Harm done by prefetches."`
	EventsLost   int64            `json:"events_lost" jsonschema:"Lines of the event log that could not be written; the figures of the running process include them, those from the log do not." prom:"counter"`
}

// Turns is the requests to a model that were saved.
type Turns struct {
	Plan int64 `json:"plan" jsonschema:"Requests to a model that plans saved: for each plan that was not cancelled, the length of its longest chain of calls less one." prom:"counter"`
}

// HarmFigures are the harm done by prefetches.
type HarmFigures struct {
	ForegroundWaitMS float64 `json:"foreground_wait_ms" jsonschema:"Time that calls waited for prefetches." unit:"ms" prom:"counter"`
	RateLimited      int64   `json:"rate_limited" jsonschema:"Rate limit responses of hosts." prom:"counter"`
	Evictions        int64   `json:"evictions" jsonschema:"Evictions of results that calls had fetched." prom:"counter"`
	Questions        int64   `json:"questions" jsonschema:"Questions to clients that prefetches caused." prom:"counter"`
}

// Host is the limits of a host, and how freely its calls are prefetched.
type Host struct {
	Level       int     `json:"level" jsonschema:"Prefetch level of the host, from 0 (candidates are only observed) to 4." prom:"gauge"`
	InFlight    int     `json:"in_flight,omitempty" jsonschema:"Calls in flight." prom:"gauge"`
	Waiting     int     `json:"waiting,omitempty" jsonschema:"Calls of clients that wait for a slot." prom:"gauge"`
	Rate        float64 `json:"rate,omitempty" jsonschema:"Configured limit of calls per second; 0 means no limit."`
	Burst       int     `json:"burst,omitempty" jsonschema:"Configured burst beyond that rate."`
	Concurrency int     `json:"concurrency,omitempty" jsonschema:"Configured limit of concurrent calls; 0 means no limit."`
	Tokens      float64 `json:"tokens,omitempty" jsonschema:"Tokens in the bucket: calls that may be made at once now."`
	Limited     int64   `json:"limited,omitempty" jsonschema:"Rate limit responses of the host." prom:"counter"`
	CoolingMS   float64 `json:"cooling_ms,omitempty" jsonschema:"Time for which nothing is prefetched there." unit:"ms" prom:"gauge"`
	OverQuota   int64   `json:"over_hourly_limit,omitempty" jsonschema:"Times that nothing was prefetched there because of its speculative_per_hour, since that was last changed." prom:"counter"`
	Prefetches  int     `json:"prefetches_last_hour,omitempty" jsonschema:"Prefetches within the last hour." prom:"gauge"`
	HarmMS      float64 `json:"harm_ms,omitempty" jsonschema:"Time that calls waited for prefetches at the host." unit:"ms" prom:"counter"`
}
