package config

// Tool is a [tools.*] block, with a field for each key: the operator's layer of a tool's value
// model. "", 0 and nil mean not set; the value then comes from a lower layer.
type Tool struct {
	Name string // "upstream/tool", a glob of that form, or a bare name for any upstream

	ValueClass      string                `toml:"value_class" enum:"|critical|supporting|optional|audit_only"`
	SideEffectClass string                `toml:"side_effect_class" enum:"|pure|read_only|mutates_local|mutates_external|indeterminate"`
	Classify        string                `toml:"classify" enum:"|shell|sql"`
	RateLimitHost   string                `toml:"rate_limit_host" form:"host"`
	Speculate       *bool                 `toml:"speculate"`                                   // false: never prefetched, unless a more specific name that is not a glob has true
	Disclosure      string                `toml:"disclosure" enum:"|same_service|third_party"` // services to which a call sends its arguments
	Volatile        *bool                 `toml:"volatile"`                                    // true: never served from a prefetch
	FailFastAfterN  int                   `toml:"fail_fast_after_n" min:"0"`                   // identical results in a row after which the next comes from the cache for a while
	Invalidates     []Invalidation        `toml:"invalidates"`
	InvalidatesOnly *bool                 `toml:"invalidates_only"` // true: only Invalidates, instead of the whole domain; ignored if no layer sets invalidates
	Validate        Validate              `toml:"validate"`
	CostModel       CostModel             `toml:"cost_model"`
	FieldGroups     map[string]FieldGroup `toml:"field_groups"` // name of the group → group
	FollowUp        []FollowUp            `toml:"follow_up"`
}

// CostModel holds the typical costs of one call. 0 means not set.
type CostModel struct {
	TypicalKB     float64 `toml:"typical_kb" min:"0"`      // KiB of a typical result
	MaxKB         float64 `toml:"max_kb" min:"0"`          // KiB of the largest results
	LatencyMSP50  float64 `toml:"latency_ms_p50" min:"0"`  // median latency in ms
	Dollars       float64 `toml:"dollars" min:"0"`         // US dollars per call
	FreshnessTTLS float64 `toml:"freshness_ttl_s" min:"0"` // seconds for which a cached result may be reused
}

// FieldGroup is a named part of a tool's result.
type FieldGroup struct {
	Fields         []string `toml:"fields" form:"glob"`              // names or globs of fields; dots separate nested names
	EstimatedValue *float64 `toml:"estimated_value" min:"0" max:"1"` // share of the result's value; nil: not set
	DefaultInclude *bool    `toml:"default_include"`                 // false: only on request; nil: not set
}

// FollowUp is a call that often comes after a call to the tool.
type FollowUp struct {
	Tool          string         `toml:"tool"`                        // "upstream/tool", or a bare name for the same upstream
	Probability   float64        `toml:"probability" min:"0" max:"1"` // 0: not set
	Args          map[string]any `toml:"args"`                        // argument → binding: "$args.path", "$result.path" or a constant
	Max           int            `toml:"max" min:"0"`                 // most prefetches of this follow-up per result; 0: not set
	Projection    string         `toml:"projection"`                  // short form of Args, from the earlier format: a field of the result …
	ProjectionArg string         `toml:"projection_arg"`              // … and the argument that it fills
}

// Invalidation names cached results that a call makes stale. In the file, a string stands for an
// Invalidation with only a Tool.
type Invalidation struct {
	Tool  string   `toml:"tool" short:""`         // has the same forms as Tool.Name
	Match []string `toml:"match" form:"argument"` // only results of calls in which these arguments have the same values; nil: all of the tool's
}

// Validate configures the check of a cached result before it is served.
type Validate struct {
	File string `toml:"file"` // argument that names a local file, whose change invalidates the result; "": no check
}

// Limit is a [limits.*] block: the limits of one host. Zero means not set.
type Limit struct {
	Name string `form:"limit"` // the host, or "*" for every other host

	Rate               float64 `toml:"rate" min:"0"`                      // calls per second; default: no limit
	Burst              int     `toml:"burst" min:"0"`                     // calls at once after a pause; default: Rate rounded up, at least 1
	Concurrency        int     `toml:"concurrency" min:"0"`               // concurrent calls; default: no limit
	SpeculativeShare   float64 `toml:"speculative_share" min:"0" max:"1"` // share of Burst and Concurrency that must be free for a prefetch; default 0.5
	SpeculativePerHour int     `toml:"speculative_per_hour" min:"0"`      // prefetches per hour; default 200, but no limit for a process on this machine
}

// NamedPlan is a [plans.*] block: a plan that is listed as the tool plan__NAME.
type NamedPlan struct {
	Name string `form:"plan"`

	Description string         `toml:"description"`
	Parameters  map[string]any `toml:"parameters"`            // parameter → JSON Schema
	Steps       []any          `toml:"steps"`                 // objects that encoding/json can encode
	OutputSteps []string       `toml:"output_steps"`          // ids of the steps whose results are returned; nil: all
	Budget      int            `toml:"budget_tokens" min:"0"` // tokens that it may return; 0: [plan].budget_tokens
}
