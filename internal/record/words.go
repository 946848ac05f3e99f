package record

// Word is the display name of a key in the record, and its explanation.
type Word struct {
	Word    string `json:"word"`
	Meaning string `json:"meaning"` // names the related configuration key, if any
}

// Reasons explains why a candidate was not prefetched.
var Reasons = map[string]Word{
	"unsteady":         {"may change unnoticed", "the data that they read may change without the proxy noticing: set remote = true for the server if it asks a remote service, exclusive = true if nothing else changes it, or validate for tools that read a file"},
	"not_speculatable": {"not known to be read-only", "the tool's model forbids it, or the tool is not known to be read-only: mcpschedd check --connect -v prints the lines to paste"},
	"low_probability":  {"too unlikely", "less likely than min_probability"},
	"gate":             {"not worth it", "the expected waste outweighs the expected saving: waste_ms and second_worth_usd set the weight"},
	"budget":           {"too many tokens", "other candidates save more with the same tokens: prefetch_budget_tokens"},
	"cap":              {"too many at once", "other candidates save more with the same number of calls: max_parallel_prefetches"},
	"dollars":          {"too expensive", "over the rest of the session's budget in dollars: max_dollars_per_session"},
	"rate_limited":     {"rate limit", "the rate limit of their host is exhausted: [limits]"},
	"throttled":        {"throttled", "earlier prefetches were wrong too often or did harm, or the server handles one call at a time: this is temporary"},
	"stored":           {"already cached", "the result was in the cache"},
	"in_flight":        {"in flight", "the result was being fetched"},
	"schema":           {"invalid arguments", "the arguments do not match the tool's schema: args of the follow_up"},
	"origin":           {"data of another server", "their arguments come from another server, whose data must not be disclosed"},
	"disclosure":       {"would disclose data", "they would disclose the data that they are derived from to third parties: disclosure"},
	"shadow":           {"only observed", `predictions must prove accurate first: shadow_labels, or [enrichment] mode = "on"`},
	"panic":            {"internal error", "the prediction panicked"},
	other:              {"other reasons", "one of many rarer reasons"},
}

// Causes explains why the result of a prefetch was not used.
var Causes = map[string]Word{
	"expired":     {"too old when a call came", "max_age, or the tool's freshness"},
	"invalidated": {"invalidated by a write", "a call that may write came first"},
	"never_asked": {"never called", "the session or the process ended first"},
	"evicted":     {"evicted", "the cache was full: [dedup] max_bytes"},
	"error":       {"failed", "the server returned an error"},
	"dropped":     {"cancelled", "a later call made it unlikely"},
}

// Words returns the dashboard's names and explanations of metrics, reasons and causes, as JSON
// values.
func Words() any {
	return struct {
		Metrics []metric        `json:"metrics"`
		Reasons map[string]Word `json:"reasons"`
		Causes  map[string]Word `json:"causes"`
	}{metricsOfType[Stats](), Reasons, Causes}
}

// wordOf returns the word of a key of Reasons or Causes, or the key itself.
func wordOf(key string) Word {
	for _, table := range []map[string]Word{Reasons, Causes} {
		if w, ok := table[key]; ok {
			return w
		}
	}
	return Word{key, key}
}
