package config

// Tool is one [tools.*] block, with a field for each key: the operator's layer of a tool's
// value model.
// "", 0 and nil mean not set, so that a lower layer shows through.
type Tool struct {
	Name string // "upstream/tool", a glob of that form, or a bare name: of any upstream

	ValueClass      string                `toml:"value_class" enum:"|critical|supporting|optional|audit_only"`
	SideEffectClass string                `toml:"side_effect_class" enum:"|pure|read_only|mutates_local|mutates_external|indeterminate"`
	Classify        string                `toml:"classify" enum:"|shell|sql"`
	RateLimitHost   string                `toml:"rate_limit_host"`
	Speculate       *bool                 `toml:"speculate"` // false gives way only to a true under a more exact name; nil: not set
	Disclosure      string                `toml:"disclosure" enum:"|same_service|third_party"`
	Volatile        *bool                 `toml:"volatile"`
	FailFastAfterN  int                   `toml:"fail_fast_after_n" min:"0"` // equal answers in a row; 0: not set; a number that is never reached, such as 1000000, is never
	Invalidates     []Invalidation        `toml:"invalidates"`
	InvalidatesOnly *bool                 `toml:"invalidates_only"` // not obeyed where nothing says what else a call makes stale
	Validate        Validate              `toml:"validate"`
	CostModel       CostModel             `toml:"cost_model"`
	FieldGroups     map[string]FieldGroup `toml:"field_groups"` // name → group
	FollowUp        []FollowUp            `toml:"follow_up"`
}

// CostModel is what one call costs; 0 means not set.
type CostModel struct {
	TypicalKB     float64 `toml:"typical_kb" min:"0"`      // KiB
	MaxKB         float64 `toml:"max_kb" min:"0"`          // KiB
	LatencyMSP50  float64 `toml:"latency_ms_p50" min:"0"`  // ms
	Dollars       float64 `toml:"dollars" min:"0"`         // US dollars per call
	FreshnessTTLS float64 `toml:"freshness_ttl_s" min:"0"` // s
}

// FieldGroup is a named part of a tool's answer.
type FieldGroup struct {
	Fields         []string `toml:"fields"`                          // names or globs of fields, dots for nesting
	EstimatedValue *float64 `toml:"estimated_value" min:"0" max:"1"` // share of the answer's value; nil: not set
	DefaultInclude *bool    `toml:"default_include"`                 // nil: not set
}

// FollowUp is one edge: after this tool, often that one.
type FollowUp struct {
	Tool          string         `toml:"tool"`                        // "upstream/tool", or a bare name: of the same upstream
	Probability   float64        `toml:"probability" min:"0" max:"1"` // 0: not set
	Args          map[string]any `toml:"args"`                        // argument → binding: "$args.path", "$result.path" or a constant
	Max           int            `toml:"max" min:"0"`                 // concrete calls per answer; 0: not set
	Projection    string         `toml:"projection"`                  // the earlier format's short form: a field of the answer …
	ProjectionArg string         `toml:"projection_arg"`              // … and the argument it fills
}

// Invalidation names answers that a call makes stale. In the file a bare string
// is its tool.
type Invalidation struct {
	Tool  string   `toml:"tool" short:""` // forms of a [tools.*] name
	Match []string `toml:"match"`         // only answers whose arguments of these names are equal; nil: all of the tool's
}

// Validate says how a stored answer is checked before it is served.
type Validate struct {
	File string `toml:"file"` // the argument that names a local file; "": not checked
}

// Limit is the pace of one host. Zero means not set.
type Limit struct {
	Name string // the host, or "*" for every other one

	Rate               float64 `toml:"rate" min:"0"`                      // calls per second
	Burst              int     `toml:"burst" min:"0"`                     // calls; not set: the rate, at least 1
	Concurrency        int     `toml:"concurrency" min:"0"`               // calls at once
	SpeculativeShare   float64 `toml:"speculative_share" min:"0" max:"1"` // of bucket and slots that must be free; not set: 0.5
	SpeculativePerHour int     `toml:"speculative_per_hour" min:"0"`      // calls; not set: 200, for a process on this machine none
}

// NamedPlan is a plan that is listed as the tool plan__NAME.
type NamedPlan struct {
	Name string // letters, digits, - and _

	Description string         `toml:"description"`
	Parameters  map[string]any `toml:"parameters"`            // parameter → JSON Schema
	Steps       []any          `toml:"steps"`                 // each an object, fit for encoding/json
	OutputSteps []string       `toml:"output_steps"`          // ids of the steps whose results come back; nil: all
	Budget      int            `toml:"budget_tokens" min:"0"` // tokens it may bring back; 0: [plan].budget_tokens
}
