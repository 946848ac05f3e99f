// Package config loads pipeline_config.toml into a checked, immutable [Config], and watches the
// file for changes.
//
// The struct Config is the schema, and the tags of its fields describe the file: toml names a key and
// default gives its default; min, max, enum and form bound its value, and keys the keys of a table; unit
// is that of a number; holds is the kind of value that a field keeps as JSON; see fieldWithTag for short and
// block. A section that configures another package is that package's own type. A file is decoded into
// plain tables, which are bound onto the defaults key by key. Load reports every error with its line, not only the first one:
//
//	c, err := config.Default().Load("/etc/mcpschedd/pipeline_config.toml")
//	// pipeline_config.toml:12: upstreams.github.comand: unknown key; did you mean "command"?
//	// pipeline_config.toml:31: enrichment.min_probability: want 0 to 1, have 30
//
// Each ${NAME} in an upstream is kept until [Upstream.Resolve] expands it, so a Config contains
// only secrets that are written in the file.
//
// What the packages that are configured find wrong with the rules of tools and the steps of plans is
// reported with the problems of the file.
package config

import (
	"reflect"
	"slices"
	"time"

	"mcpschedd/internal/budget"
	"mcpschedd/internal/dedup"
	"mcpschedd/internal/front"
	"mcpschedd/internal/limit"
	"mcpschedd/internal/plan"
	"mcpschedd/internal/speculate"
	"mcpschedd/internal/valuemodel"
)

// Config is a whole configuration: the defaults, overlaid by one file. It has a field for each
// section of the file, and each section a field for each of its keys.
type Config struct {
	SchemaVersion int                   `toml:"schema_version" default:"1" min:"1"` // 2 to 4 are read as 1; see convertEarlier
	Server        Server                `toml:"server"`
	HTTP          HTTP                  `toml:"http"`
	Daemon        Daemon                `toml:"daemon"`
	Upstreams     []Upstream            `toml:"upstreams"` // in the order of the file
	Enrichment    speculate.Rules       `toml:"enrichment"`
	Budgets       budget.Rules          `toml:"budgets"`
	Dedup         Dedup                 `toml:"dedup"`
	Limits        map[string]limit.Rule `toml:"limits" keys:"limit"` // host in lower case, or "*" for every other host → its limits
	Plan          plan.Settings         `toml:"plan"`
	Plans         []plan.Named          `toml:"plans"` // in the order of the file
	Telemetry     Telemetry             `toml:"telemetry"`
	Log           Log                   `toml:"log"`
	Tools         []valuemodel.Rule     `toml:"tools"` // in the order of the file; of two equally specific globs the later wins

	Tuned          []valuemodel.Rule  // blocks of the tuned.toml beside the file: a layer below Tools
	Models         *valuemodel.Models // compiled from Rules
	Path           string             // absolute path of the file; "" for the built-in defaults
	Digest         [32]byte           // SHA-256 over both files
	Positions      map[string]int     // key as in messages, such as `tools."gh/list".speculate` or `upstreams.gh.args[0]` → line; only keys that the file sets
	TunedPositions map[string]int     // the same of tuned.toml
	Warnings       []Problem          // sorted by line
}

// Rules returns the blocks of both files for tools.
func (c *Config) Rules() []valuemodel.Rule { return slices.Concat(c.Tools, c.Tuned) }

// Server configures how the proxy presents itself to clients. A change needs a restart.
type Server struct {
	NameStyle       string        `toml:"name_style" default:"auto" enum:"auto|always|never"`        // auto: bare names if exactly one upstream is configured
	Tools           string        `toml:"tools" default:"all" enum:"all|search|auto"`                // which tools are listed
	SearchOver      int           `toml:"search_over_tokens" default:"10000" min:"0"`                // auto: estimated tokens above which the tool list counts as long
	SearchReach     string        `toml:"search_reach" default:"all" enum:"all|read_only"`           // which unlisted tools can be called
	Pinned          []string      `toml:"pinned" form:"pinned"`                                      // tools that are always listed, as NAME/TOOL or a glob of it; default none
	StartupWait     time.Duration `toml:"startup_wait" default:"1.5s"`                               // how long a list request waits for an upstream without a cached tool list; at least 8s for a client that lists its tools only once
	StartTimeout    time.Duration `toml:"start_timeout" default:"30s" min:"100ms"`                   // how long a call waits for an upstream that is starting
	DrainTimeout    time.Duration `toml:"drain_timeout" default:"5s"`                                // how long running calls may continue after EOF on stdin, or on a replaced upstream
	MaxMessageBytes int           `toml:"max_message_bytes" unit:"bytes" default:"64MiB" min:"1024"` // largest single message, in either direction
	StateDir        string        `toml:"state_dir" form:"literal"`                                  // absolute; default "": see [paths.StateDir]
}

// HTTP configures the HTTP server. A change needs a restart.
type HTTP struct {
	Auth string `toml:"auth" default:"token" enum:"token|none"`
	front.HTTPOptions
}

// Daemon configures the process that serves all clients of a user. A change needs a restart.
type Daemon struct {
	Idle time.Duration `toml:"idle" default:"10m"` // the daemon exits after this long without clients; 0: never
}

// Dedup configures the response cache.
type Dedup struct {
	dedup.Options
	Repeat string `toml:"repeat" default:"body" enum:"body|reference"` // response to a repeated call: the result or a short note
	Store  string `toml:"store"`                                       // URL of the Valkey or Redis server shared by replicas; default "": none. A change needs a restart
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
	c.Models, _ = valuemodel.Compile(nil)
	return c
}
