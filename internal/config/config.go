// Package config turns pipeline_config.toml into one checked value that is
// never changed afterwards, and watches the file for the next one.
//
// The schema is the struct [Config]: toml tags name the keys, default tags say what holds
// where a file does not state them, min, max and enum tags bound them. A file is decoded
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

import "reflect"

// Config is a whole configuration: the defaults, overlaid by one file. It has a field for each
// section of the file, as the sections have one for each key.
type Config struct {
	SchemaVersion int         `toml:"schema_version" default:"1" min:"1"` // newest: 1
	Server        Server      `toml:"server"`
	HTTP          HTTP        `toml:"http"`
	Daemon        Daemon      `toml:"daemon"`
	Upstreams     []Upstream  `toml:"upstreams"` // in the order of the file
	Enrichment    Enrichment  `toml:"enrichment"`
	Budgets       Budgets     `toml:"budgets"`
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
	NameStyle       string   `toml:"name_style" default:"auto" enum:"auto|always|never"` // auto: bare names if exactly one upstream is configured
	Tools           string   `toml:"tools" default:"all" enum:"all|search|auto"`         // which are listed
	SearchOver      int      `toml:"search_over_tokens" default:"10000" min:"0"`         // auto: a list that costs more is searched
	SearchReach     string   `toml:"search_reach" default:"all" enum:"all|read_only"`    // which of the tools not listed can be called
	Pinned          []string `toml:"pinned"`                                             // upstream/tool or globs of it: always listed; default none
	StartupWait     Duration `toml:"startup_wait" default:"1.5s"`                        // how long lists wait for an upstream without a last-known copy
	StartTimeout    Duration `toml:"start_timeout" default:"30s"`                        // how long a call waits for a starting upstream
	DrainTimeout    Duration `toml:"drain_timeout" default:"5s"`                         // for running calls after EOF on stdin
	MaxMessageBytes Bytes    `toml:"max_message_bytes" default:"64MiB" min:"1024"`
	StateDir        string   `toml:"state_dir"` // absolute; default "": see [StateDir]
}

// HTTP is the HTTP end. A change needs a restart.
type HTTP struct {
	Auth           string   `toml:"auth" default:"token" enum:"token|none"`
	AllowedOrigins []string `toml:"allowed_origins"`                    // scheme://host[:port] beside the server's own; default none
	AllowedHosts   []string `toml:"allowed_hosts"`                      // names in Host beside those of loopback; default none
	SessionIdle    Duration `toml:"session_idle" default:"30m"`         // 0: never ended
	MaxSessions    int      `toml:"max_sessions" default:"256" min:"4"` // one principal may have a quarter
}

// Daemon is the process that serves all clients of a user. A change needs a restart.
type Daemon struct {
	Idle Duration `toml:"idle" default:"10m"` // without clients it ends after this; 0: never
}

// Enrichment is what is guessed, and how guesses are delivered.
type Enrichment struct {
	Mode                 string   `toml:"mode" default:"on" enum:"off|shadow|on"`
	Delivery             string   `toml:"delivery" default:"silent" enum:"silent|hint|inline"`
	PrefetchTimeoutMS    int      `toml:"prefetch_timeout_ms" min:"0"`                   // ms, at most 150: how long an inline answer waits for its prefetches
	MaxParallel          int      `toml:"max_parallel_prefetches" default:"3" min:"0"`   // per session
	MaxParallelTotal     int      `toml:"max_parallel_total" default:"16" min:"0"`       // for the process
	BudgetTokens         int      `toml:"prefetch_budget_tokens" default:"8000" min:"0"` // tokens per enrichment
	MinProbability       float64  `toml:"min_probability" default:"0.30" min:"0" max:"1"`
	InlineMinProbability float64  `toml:"inline_min_probability" default:"0.80" min:"0" max:"1"`
	MaxAge               Duration `toml:"max_age" default:"30s"`                   // from the start of the fetch; so long it is 5m where the upstream is exclusive
	WasteMS              float64  `toml:"waste_ms" default:"50" min:"0"`           // ms of hidden waiting per wasted call
	SecondWorthUSD       float64  `toml:"second_worth_usd" default:"0.01" min:"0"` // dollars per hidden second
	ShadowLabels         int      `toml:"shadow_labels" default:"5" min:"0"`       // labels before a learned edge issues
	MaxDollars           float64  `toml:"max_dollars_per_session" min:"0"`         // 0: no priced tool is prefetched
	Learn                bool     `toml:"learn" default:"true"`
}

// Budgets are the tokens that answers of tools may bring into models' contexts. Zero tokens bound
// nothing.
type Budgets struct {
	ContextTokens int                `toml:"context_tokens" min:"0"`                 // tokens of one session
	PerTurn       int                `toml:"per_turn" min:"0"`                       // tokens of one turn of a model
	Reserve       float64            `toml:"reserve" default:"0.25" min:"0" max:"1"` // part of each bound that nothing is added to answers from
	PoolTokens    int                `toml:"pool_tokens" min:"0"`                    // tokens of all sessions of the process in a window
	Window        Duration           `toml:"window" default:"5h"`
	Weights       map[string]float64 `toml:"weights"` // client → its part of the pool, or the most that it may declare; any other: 1
}

// Dedup is the store of answers.
type Dedup struct {
	MaxBytes    Bytes    `toml:"max_bytes" default:"256MiB" min:"0"`
	WriteSettle Duration `toml:"write_settle" default:"60s"` // how long a write of unknown outcome is still pending
	Settle      Duration `toml:"settle" default:"2s"`        // after a remote write in which nothing of its domain is stored
	Repeat      string   `toml:"repeat" default:"body" enum:"body|reference"`
	Store       string   `toml:"store"` // URL of the Valkey or Redis server that replicas share; default "": there are none. A change needs a restart
}

// Plan bounds the plans a client may send.
type Plan struct {
	Enabled        bool     `toml:"enabled"` // false: no plan tool is listed
	Mutations      string   `toml:"mutations" default:"confirm" enum:"confirm|allow|deny"`
	MaxSteps       int      `toml:"max_steps" default:"100" min:"1"`  // steps
	MaxParallel    int      `toml:"max_parallel" default:"8" min:"1"` // calls
	MaxDepth       int      `toml:"max_depth" default:"32" min:"1"`   // steps in a row
	MaxResultBytes Bytes    `toml:"max_result_bytes" default:"16MiB" min:"1024"`
	BudgetTokens   int      `toml:"budget_tokens" default:"10000" min:"1"` // tokens in what comes back
	Timeout        Duration `toml:"timeout"`                               // 0: the client's
	HandleTTL      Duration `toml:"handle_ttl" default:"30m"`
	Reserve        float64  `toml:"reserve" default:"0.25" min:"0" max:"1"` // share of budget_tokens kept for the answer
}

// Telemetry is what is recorded of calls.
type Telemetry struct {
	Events          string `toml:"events" default:"on" enum:"off|on"`
	RecordArguments string `toml:"record_arguments" default:"hash" enum:"hash|full"`
}

// Log is where the log goes.
type Log struct {
	File  string `toml:"file"` // absolute; default "": stderr and the state folder
	Level string `toml:"level" default:"info" enum:"debug|info|warn|error"`
}

// Default is the configuration without a file.
func Default() *Config {
	c := &Config{}
	fill(reflect.ValueOf(c).Elem())
	return c
}
