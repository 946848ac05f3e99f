// Package config loads pipeline_config.toml into a checked, immutable [Config], and watches the
// file for changes.
//
// The struct Config is the schema: toml tags name the keys, default tags give their defaults, and
// min, max, enum and form tags bound their values. A file is decoded into plain tables, which are bound
// onto the defaults key by key. Load reports every error with its line, not only the first one:
//
//	c, err := config.Load("/etc/mcpschedd/pipeline_config.toml")
//	// pipeline_config.toml:12: upstreams.github.comand: unknown key, did you mean "command"?
//	// pipeline_config.toml:31: enrichment.min_probability: want 0 to 1, have 30
//
// Each ${NAME} in an upstream is kept until [Upstream.Resolve] expands it, so a Config contains
// only secrets that are written in the file.
//
// The package does not interpret layers of tool models, globs over tool names, bindings and the
// content of plan steps. The packages that use them check them; a [Validator] adds their problems
// to those of the file.
package config

import "reflect"

// Config is a whole configuration: the defaults, overlaid by one file. It has a field for each
// section of the file, and each section a field for each of its keys.
type Config struct {
	SchemaVersion int         `toml:"schema_version" default:"1" min:"1"` // 1 is the newest; see convertEarlier
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
	Tools         []Tool      `toml:"tools"` // in the order of the file; of two equally specific globs the later wins

	Tuned          []Tool         // blocks of the tuned.toml beside the file: a layer below Tools
	Path           string         // absolute path of the file; "" for the built-in defaults
	Digest         [32]byte       // SHA-256 over both files
	Positions      map[string]int // key as in messages, such as `tools."gh/list".speculate` or `upstreams.gh.args[0]` → line; only keys that the file sets
	TunedPositions map[string]int // the same of tuned.toml
	Warnings       []Problem      // sorted by line
}

// Server configures how the proxy presents itself to clients. A change needs a restart.
type Server struct {
	NameStyle       string   `toml:"name_style" default:"auto" enum:"auto|always|never"` // auto: bare names if exactly one upstream is configured
	Tools           string   `toml:"tools" default:"all" enum:"all|search|auto"`         // which tools are listed
	SearchOver      int      `toml:"search_over_tokens" default:"10000" min:"0"`         // auto: estimated tokens above which the tool list counts as long
	SearchReach     string   `toml:"search_reach" default:"all" enum:"all|read_only"`    // which unlisted tools can be called
	Pinned          []string `toml:"pinned" form:"pinned"`                               // tools that are always listed, as upstream/tool or a glob of it; default none
	StartupWait     Duration `toml:"startup_wait" default:"1.5s"`                        // how long a list request waits for an upstream without a cached tool list
	StartTimeout    Duration `toml:"start_timeout" default:"30s"`                        // how long a call waits for an upstream that is starting
	DrainTimeout    Duration `toml:"drain_timeout" default:"5s"`                         // how long running calls may continue after EOF on stdin
	MaxMessageBytes Bytes    `toml:"max_message_bytes" default:"64MiB" min:"1024"`       // largest single message, in either direction
	StateDir        string   `toml:"state_dir" form:"literal"`                           // absolute; default "": see [Config.StateDir]
}

// HTTP configures the HTTP server. A change needs a restart.
type HTTP struct {
	Auth           string   `toml:"auth" default:"token" enum:"token|none"`
	AllowedOrigins []string `toml:"allowed_origins" form:"origin"`      // web origins, as scheme://host[:port], besides the server's own; default none
	AllowedHosts   []string `toml:"allowed_hosts" form:"listener"`      // accepted Host headers besides loopback names; default none
	SessionIdle    Duration `toml:"session_idle" default:"30m"`         // a session idle for this long ends; 0: never
	MaxSessions    int      `toml:"max_sessions" default:"256" min:"4"` // sessions; at most a quarter per principal
}

// Daemon configures the process that serves all clients of a user. A change needs a restart.
type Daemon struct {
	Idle Duration `toml:"idle" default:"10m"` // the daemon exits after this long without clients; 0: never
}

// Enrichment configures what is prefetched, and how it is delivered.
type Enrichment struct {
	Mode                 string   `toml:"mode" default:"on" enum:"off|shadow|on"`
	Delivery             string   `toml:"delivery" default:"silent" enum:"silent|hint|inline"`
	PrefetchTimeoutMS    int      `toml:"prefetch_timeout_ms" min:"0"`                   // ms, at most 150: how long an inline result waits for its prefetches
	MaxParallel          int      `toml:"max_parallel_prefetches" default:"3" min:"0"`   // concurrent prefetches per session
	MaxParallelTotal     int      `toml:"max_parallel_total" default:"16" min:"0"`       // concurrent prefetches in the process
	BudgetTokens         int      `toml:"prefetch_budget_tokens" default:"8000" min:"0"` // tokens that the prefetches after one result may fetch
	MinProbability       float64  `toml:"min_probability" default:"0.30" min:"0" max:"1"`
	InlineMinProbability float64  `toml:"inline_min_probability" default:"0.80" min:"0" max:"1"`
	MaxAge               Duration `toml:"max_age" default:"30s"`                   // of a prefetched result, from the start of its fetch; the default is 5m for an exclusive upstream
	WasteMS              float64  `toml:"waste_ms" default:"50" min:"0"`           // ms of hidden waiting that one wasted call is worth
	SecondWorthUSD       float64  `toml:"second_worth_usd" default:"0.01" min:"0"` // US dollars that one hidden second is worth
	ShadowLabels         int      `toml:"shadow_labels" default:"5" min:"0"`       // times a learned follow-up is observed before it is used
	MaxDollars           float64  `toml:"max_dollars_per_session" min:"0"`         // US dollars; 0: priced tools are never prefetched
	Learn                bool     `toml:"learn" default:"true"`                    // learn follow-ups from calls
}

// Budgets limits the tokens that tool results may add to models' contexts. Zero means no limit.
type Budgets struct {
	ContextTokens int                `toml:"context_tokens" min:"0"`                 // tokens per session
	PerTurn       int                `toml:"per_turn" min:"0"`                       // tokens per turn of a session's model
	Reserve       float64            `toml:"reserve" default:"0.25" min:"0" max:"1"` // share of each budget that appended results may not use
	PoolTokens    int                `toml:"pool_tokens" min:"0"`                    // tokens of all sessions of the process per window
	Window        Duration           `toml:"window" default:"5h"`                    // length of the pool's window
	Weights       map[string]float64 `toml:"weights" min:"0.001" max:"1000"`         // client → its weight in the pool, and the highest it may declare; default 1
}

// Dedup configures the response cache.
type Dedup struct {
	MaxBytes    Bytes    `toml:"max_bytes" default:"256MiB" min:"0"`          // memory for cached results; 0: nothing is cached
	WriteSettle Duration `toml:"write_settle" default:"60s"`                  // how long a write of unknown outcome counts as pending
	Settle      Duration `toml:"settle" default:"2s"`                         // how long after a remote write nothing of its domain is cached
	Repeat      string   `toml:"repeat" default:"body" enum:"body|reference"` // response to a repeated call: the result or a short note
	Store       string   `toml:"store"`                                       // URL of the Valkey or Redis server shared by replicas; default "": none. A change needs a restart
}

// Plan limits the plans that clients send.
type Plan struct {
	Enabled        bool     `toml:"enabled"`                                               // false: no plan tool is listed
	Mutations      string   `toml:"mutations" default:"confirm" enum:"confirm|allow|deny"` // handling of plans that write
	MaxSteps       int      `toml:"max_steps" default:"100" min:"1"`                       // steps per plan
	MaxParallel    int      `toml:"max_parallel" default:"8" min:"1"`                      // concurrent calls per plan
	MaxDepth       int      `toml:"max_depth" default:"32" min:"1"`                        // steps in the longest chain of dependencies
	MaxResultBytes Bytes    `toml:"max_result_bytes" default:"16MiB" min:"1024"`           // all results of a plan together
	BudgetTokens   int      `toml:"budget_tokens" default:"10000" min:"1"`                 // tokens that a plan may return
	Timeout        Duration `toml:"timeout"`                                               // for a whole plan; 0: the client's
	HandleTTL      Duration `toml:"handle_ttl" default:"30m"`                              // how long results that did not fit can be fetched; 0: not at all
	Reserve        float64  `toml:"reserve" default:"0.25" min:"0" max:"1"`                // share of BudgetTokens kept free for the model's answer
}

// Telemetry configures the event log.
type Telemetry struct {
	Events          string `toml:"events" default:"on" enum:"off|on"`
	RecordArguments string `toml:"record_arguments" default:"hash" enum:"hash|full"`
}

// Log configures the diagnostic log.
type Log struct {
	File  string `toml:"file" form:"literal"` // absolute; default "": stderr and logs/mcpschedd.log in the state directory
	Level string `toml:"level" default:"info" enum:"debug|info|warn|error"`
}

// Default returns the configuration that applies without a file.
func Default() *Config {
	c := &Config{}
	setDefaults(reflect.ValueOf(c).Elem())
	return c
}
