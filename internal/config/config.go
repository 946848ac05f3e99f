// Package config turns pipeline_config.toml into one checked value that is
// never changed afterwards, and watches the file for the next one.
//
// The schema is the struct [Config]: toml tags name the keys, min, max and enum
// tags bound them, [Default] is the one place of defaults. A file is decoded
// into plain tables, bound onto the defaults key by key, and every mistake is
// kept with its line instead of stopping at the first:
//
//	c, err := config.Load("/etc/mcpschedd/pipeline_config.toml")
//	// pipeline_config.toml:12: upstreams.github.comand: unknown key, did you mean "command"?
//	// pipeline_config.toml:31: enrichment.min_probability: want 0 to 1, have 30
//
// What stands as ${NAME} in an upstream stays so until [Upstream.Resolve], so
// that a Config holds no secret which the file does not.
//
// It leaves out what the values mean: layers of tool models, globs over tool
// names, bindings and the content of plan steps are read by the packages that use
// them. What these find wrong joins the rest by [Further].
package config

// Config is a whole configuration: the defaults, overlaid by one file.
type Config struct {
	SchemaVersion int         `toml:"schema_version" min:"1"` // default and newest: 1
	Server        Server      `toml:"server"`
	HTTP          HTTP        `toml:"http"`
	Upstreams     []Upstream  `toml:"upstreams"` // in the order of the file
	Enrichment    Enrichment  `toml:"enrichment"`
	Dedup         Dedup       `toml:"dedup"`
	Limits        []Limit     `toml:"limits"` // in the order of the file
	Plan          Plan        `toml:"plan"`
	Plans         []NamedPlan `toml:"plans"` // in the order of the file
	Telemetry     Telemetry   `toml:"telemetry"`
	Log           Log         `toml:"log"`
	Tools         []Tool      `toml:"tools"` // in the order of the file: of two globs equally exact the later wins

	Tuned     []Tuned        // what tuned.toml beside the file has: a layer under Tools
	Path      string         // absolute path of the file; "" for the built-in defaults
	Digest    [32]byte       // of the bytes of both files
	Positions map[string]int // key as written in messages, `tools."gh/list".speculate` or `upstreams.gh.args[0]` → line; only what the file states
	Warnings  []Problem      // what was accepted otherwise than written, by line
}

// Server is how the proxy faces its client. A change needs a restart.
type Server struct {
	NameStyle       string   `toml:"name_style" enum:"auto|always|never"` // default auto: bare names if exactly one upstream is configured
	Tools           string   `toml:"tools" enum:"all|search"`             // default all
	StartupWait     Duration `toml:"startup_wait"`                        // default 1.5s: how long lists wait for an upstream without a last-known copy
	StartTimeout    Duration `toml:"start_timeout"`                       // default 30s: how long a call waits for a starting upstream
	DrainTimeout    Duration `toml:"drain_timeout"`                       // default 5s: for running calls after EOF on stdin
	MaxMessageBytes Bytes    `toml:"max_message_bytes" min:"1024"`        // default 64MiB
	StateDir        string   `toml:"state_dir"`                           // absolute; default "": see [StateDir]
}

// HTTP is the HTTP end. A change needs a restart.
type HTTP struct {
	Auth           string   `toml:"auth" enum:"token|none"` // default token
	AllowedOrigins []string `toml:"allowed_origins"`        // scheme://host[:port] beside the server's own; default none
	AllowedHosts   []string `toml:"allowed_hosts"`          // names in Host beside those of loopback; default none
	SessionIdle    Duration `toml:"session_idle"`           // default 30m; 0: never ended
	MaxSessions    int      `toml:"max_sessions" min:"4"`   // default 256; one principal may have a quarter
}

// Enrichment is what is guessed, and how guesses are delivered.
type Enrichment struct {
	Mode                 string   `toml:"mode" enum:"off|shadow|on"`              // default on
	Delivery             string   `toml:"delivery" enum:"silent|hint|inline"`     // default silent
	PrefetchTimeoutMS    int      `toml:"prefetch_timeout_ms" min:"0"`            // default 0 ms, at most 150: how long an inline answer waits for its prefetches
	MaxParallel          int      `toml:"max_parallel_prefetches" min:"0"`        // default 3 per session
	MaxParallelTotal     int      `toml:"max_parallel_total" min:"0"`             // default 16 for the process
	BudgetTokens         int      `toml:"prefetch_budget_tokens" min:"0"`         // default 8000 tokens per enrichment
	MinProbability       float64  `toml:"min_probability" min:"0" max:"1"`        // default 0.30
	InlineMinProbability float64  `toml:"inline_min_probability" min:"0" max:"1"` // default 0.80
	MaxAge               Duration `toml:"max_age"`                                // default 30s, from the start of the fetch; so long it is 5m where the upstream is exclusive
	WasteMS              float64  `toml:"waste_ms" min:"0"`                       // default 50 ms of hidden waiting per wasted call
	SecondWorthUSD       float64  `toml:"second_worth_usd" min:"0"`               // default 0.01 dollars per hidden second
	ShadowLabels         int      `toml:"shadow_labels" min:"0"`                  // default 5 labels before a learned edge issues
	MaxDollars           float64  `toml:"max_dollars_per_session" min:"0"`        // default 0: no priced tool is prefetched
	Learn                bool     `toml:"learn"`                                  // default true
}

// Dedup is the store of answers.
type Dedup struct {
	MaxBytes    Bytes    `toml:"max_bytes" min:"0"`            // default 256MiB
	WriteSettle Duration `toml:"write_settle"`                 // default 60s: how long a write of unknown outcome is still pending
	Settle      Duration `toml:"settle"`                       // default 2s after a remote write in which nothing of its domain is stored
	Repeat      string   `toml:"repeat" enum:"body|reference"` // default body
}

// Plan bounds the plans a client may send.
type Plan struct {
	Enabled        bool     `toml:"enabled"`                             // default false: no plan tool is listed
	Mutations      string   `toml:"mutations" enum:"confirm|allow|deny"` // default confirm
	MaxSteps       int      `toml:"max_steps" min:"1"`                   // default 100 steps
	MaxParallel    int      `toml:"max_parallel" min:"1"`                // default 8 calls
	MaxDepth       int      `toml:"max_depth" min:"1"`                   // default 32 steps in a row
	MaxResultBytes Bytes    `toml:"max_result_bytes" min:"1024"`         // default 16MiB
	BudgetTokens   int      `toml:"budget_tokens" min:"1"`               // default 10000 tokens in what comes back
	Timeout        Duration `toml:"timeout"`                             // default 0: the client's
	HandleTTL      Duration `toml:"handle_ttl"`                          // default 30m
	Reserve        float64  `toml:"reserve" min:"0" max:"1"`             // default 0.25: share of budget_tokens kept for the answer
}

// Telemetry is what is recorded of calls.
type Telemetry struct {
	Events          string `toml:"events" enum:"off|on"`              // default on
	RecordArguments string `toml:"record_arguments" enum:"hash|full"` // default hash
}

// Log is where the log goes.
type Log struct {
	File  string `toml:"file"`                               // absolute; default "": stderr and the state folder
	Level string `toml:"level" enum:"debug|info|warn|error"` // default info
}
