// Package telemetry adds up what happened: from events to the figures that are shown.
//
// The one idea: there is one way to count. A [Tally] takes events, whether they come
// from the running proxy or out of files, and everything that is shown anywhere (the
// resource, the command line, the dashboard, Prometheus) is read off it. Every saving
// is counted with the one call that it was made for.
//
//	t := telemetry.New(telemetry.Options{})
//	t.Add(&event)
//	s := t.Stats(time.Now())
//	fmt.Println(s.Line())
//
// What cannot be known is not counted: whether a model read what was added to an
// answer, or what a call would have taken that was never made. Memory does not grow
// with the number of events, only with that of the sessions kept (see [Options]).
//
// It leaves out where events come from, and how they are kept (events).
package telemetry

import "mcpschedd/internal/events"

// Stats is what the resource mcpschedd://stats and `mcpschedd stats --json` show. Its
// JSON Schema is stats.schema.json beside this file, which is [Schema]. Shares are
// 0 where there is nothing to divide by; times are milliseconds unless the name says
// otherwise.
type Stats struct {
	SchemaVersion int             `json:"schema_version"` // 1
	UptimeS       int64           `json:"uptime_s"`       // of the running processes together; of recorded ones the time from their first event to their last
	Processes     int             `json:"processes"`
	Sessions      int             `json:"sessions"` // that there have been
	Open          int             `json:"sessions_open"`
	Config        Config          `json:"config"`
	Totals        Totals          `json:"totals"`
	Upstreams     map[string]Part `json:"upstreams"` // name → what is about it
	Tools         map[string]Part `json:"tools"`     // upstream/tool → what is about it
	Hosts         map[string]Host `json:"hosts"`
	Report        string          `json:"report"`           // the line of [Stats.Line]
	Engine        any             `json:"engine,omitempty"` // of a running proxy: the state of what works inside, for whoever looks for a fault; not described further
}

// Config is what the proxy runs with; of the process that began last.
type Config struct {
	Path     string `json:"path"` // "": the built-in defaults
	LoadedAt string `json:"loaded_at,omitempty"`
	Error    string `json:"error,omitempty"` // why a newer one is not in force
}

// Part is what there is to say of one tool, of one upstream, and of all.
type Part struct {
	Calls         int64   `json:"calls"`         // of clients, steps of plans included
	ServedStored  int64   `json:"served_stored"` // of those, and so on to failed: the four make up all
	Joined        int64   `json:"joined"`
	Fetched       int64   `json:"fetched"`
	Failed        int64   `json:"failed"`                 // withdrawn, or not answered by anybody
	Errors        int64   `json:"errors"`                 // answers that say isError, or are errors
	UpstreamCalls int64   `json:"upstream_calls"`         // tools/call requests that went to upstreams, prefetches included
	Amplification float64 `json:"upstream_amplification"` // of those: for each call

	Prefetch PrefetchPart `json:"prefetch"`

	HiddenMS         float64 `json:"tool_ms_hidden"`          // waiting that calls did not have: by prefetches and by repeats
	HiddenByPrefetch float64 `json:"tool_ms_hidden_prefetch"` // of that: each prefetch counts with its first use only
	WaitedMS         float64 `json:"tool_ms_waited"`          // by calls, for their answers, failed ones included
	TokensSaved      int64   `json:"context_tokens_saved"`    // an estimate: what was not sent to clients a second time, and what plans kept to themselves
	TokensToClient   int64   `json:"tokens_to_client"`        // an estimate: of the answers that were

	LatencyMS Quantiles `json:"latency_ms"`  // of calls
	FetchMS   Quantiles `json:"upstream_ms"` // of fetches
	ResultKB  Quantiles `json:"result_kb"`   // KiB of results
}

// PrefetchPart is what came of prefetches.
type PrefetchPart struct {
	Issued     int64            `json:"issued"`
	Dispatched int64            `json:"dispatched"` // of those: a request really went to the upstream
	Used       int64            `json:"used"`       // a call got the answer; of those:
	Late       int64            `json:"late"`       // it had to wait for the rest of the fetch
	Compared   int64            `json:"compared"`   // only held against what a call fetched for itself
	Wasted     map[string]int64 `json:"wasted"`     // cause → how many
	Open       int64            `json:"open"`       // begun, and nobody knows yet what becomes of them; not in issued
	Accuracy   float64          `json:"accuracy"`   // used / issued
	Timeliness float64          `json:"timeliness"` // there when it was asked for / used
}

// Totals are sums over everything.
type Totals struct {
	Part
	Candidates   int64            `json:"candidates"`                 // exact calls that were thought of
	Declined     map[string]int64 `json:"declined"`                   // of those: reason → how many were not fetched early
	LateInvoked  int64            `json:"late_invoked_after_decline"` // of those: called all the same
	CostOverruns int64            `json:"cost_overruns"`              // answers of at least 130 % of the tokens they were predicted to have
	Predictions  int64            `json:"predictions"`                // answers of which a size was predicted; that of a prefetch counts once, whoever used it
	ServedShare  float64          `json:"served_share"`               // used / calls that only read
	Reads        int64            `json:"reads"`                      // calls that only read
	TurnsSaved   Turns            `json:"llm_turns_saved"`
	Plans        int64            `json:"plans"`
	PlanSteps    int64            `json:"plan_steps"` // calls made by them
	Repeats      int64            `json:"repeats"`    // calls answered from the store or a flight that are no first use of a prefetch
	BackOffs     int64            `json:"backoffs"`
	References   int64            `json:"references"`
	Inlined      int64            `json:"inlined"`   // answers added to others; whether they were read cannot be known
	RegretMS     float64          `json:"regret_ms"` // what the best choices under the same bounds would have hidden, less what those made have
	BestMS       float64          `json:"best_ms"`   // what they would have
	Harm         Harm             `json:"harm"`
	EventsLost   int64            `json:"events_lost"` // lines that could not be written; the figures count them all the same
}

// Turns are requests to a model that were not necessary.
type Turns struct {
	Plan   int64 `json:"plan"`   // the longest chain of calls in each plan that was not cancelled, less one
	Inline int64 `json:"inline"` // always 0: that an answer was not asked for does not say that it was read
}

// Harm is what prefetches did to others.
type Harm struct {
	ForegroundWaitMS float64 `json:"foreground_wait_ms"` // that real calls waited for them
	RateLimited      int64   `json:"rate_limited"`       // times that a host said it is called too often
	Evictions        int64   `json:"evictions"`          // of answers to real calls
	Questions        int64   `json:"questions"`          // to clients
}

// Host is what a host allows, and how freely it is guessed at.
type Host = events.Host

// Quantiles are those of a histogram with two significant digits in totals, and one
// elsewhere; 0 without values. Number, sum and largest are exact.
type Quantiles struct {
	N   int64   `json:"n"`
	Sum float64 `json:"sum"`
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}
