package record

import "slices"

// Word is what people are told of a key in the record.
type Word struct {
	Word    string `json:"word"`
	Meaning string `json:"meaning"` // and the key of the configuration that has to do with it
}

// Reasons say why a candidate was not prefetched.
var Reasons = map[string]Word{
	"unsteady":         {"others may change it unnoticed", "what they read may change without the proxy noticing: set remote = true for the upstream if it asks a service elsewhere, exclusive = true if nothing else changes it, or validate for tools that read a file"},
	"not_speculatable": {"not known to only read", "the model of the tool forbids it, or nothing says that it only reads: mcpschedd check --connect -v prints the lines to paste"},
	"low_probability":  {"too unlikely", "less likely than min_probability"},
	"gate":             {"would not pay", "waste would weigh more than what they hide: waste_ms and second_worth_usd say what it weighs"},
	"budget":           {"too many tokens", "others hide more with the same tokens: prefetch_budget_tokens"},
	"cap":              {"too many at once", "others hide more with the same number of calls: max_parallel_prefetches"},
	"dollars":          {"cost money", "beyond what may still be spent in this session: max_dollars_per_session"},
	"rate_limited":     {"rate limit", "the pace of their host leaves no room: [limits]"},
	"throttled":        {"throttled", "earlier prefetches were wrong too often or did harm, or the upstream takes one call at a time: it passes by itself"},
	"stored":           {"already stored", "the answer was in the store"},
	"in_flight":        {"under way", "the answer was being fetched"},
	"schema":           {"arguments do not fit", "the arguments are not what the tool takes: args of the follow_up"},
	"origin":           {"data of another upstream", "their arguments are another upstream's data, which must not travel"},
	"disclosure":       {"would tell third parties", "they would tell third parties what they were derived from: disclosure"},
	"shadow":           {"only watched", `they have to prove themselves first: shadow_labels, or [enrichment] mode = "on"`},
	"panic":            {"went wrong", "the prediction failed inside the proxy"},
	other:              {"other reasons", "one of many rarer reasons"},
}

// Causes say why the answer of a prefetch was not used.
var Causes = map[string]Word{
	"expired":     {"too old when a call came", "max_age, or the tool's freshness"},
	"invalidated": {"made stale by a write", "a call that may write came first"},
	"never_asked": {"never called for", "the session or the process ended first"},
	"evicted":     {"made room for others", "[dedup] max_bytes"},
	"error":       {"answered with an error", "its upstream did"},
	"dropped":     {"ended before it was done", "a later call made it unlikely"},
}

// Words are what the dashboard says of what it shows.
func Words() any {
	shown := slices.DeleteFunc(slices.Clone(statsMetrics()), func(m metric) bool { return m.Help == "" })
	return struct {
		Metrics []metric        `json:"metrics"`
		Reasons map[string]Word `json:"reasons"`
		Causes  map[string]Word `json:"causes"`
	}{shown, Reasons, Causes}
}

// Worded is a key of one of the tables as people read it.
func Worded(key string) string {
	for _, table := range []map[string]Word{Reasons, Causes} {
		if w, ok := table[key]; ok {
			return w.Word
		}
	}
	return Printable(key)
}
