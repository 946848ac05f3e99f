// Package valuemodel models each tool: the side effects of its calls, the value and cost
// of its results, the calls that often follow it, and the cached results that it
// invalidates.
//
// A model is merged from the layers of several sources, and records for every field the
// layer that set it. A higher layer overrides a lower one field by field. A field that
// could loosen a restriction takes its most restrictive value, unless the operator sets
// it.
//
//	models, problems := valuemodel.Compile(rules) // the operator's layers
//	m := models.Resolve(upstream, "get_issue", hints)
//	if m.ClassOf(args, names).Reads() {
//		places = m.Reads(args) // places that the result depends on
//	} else {
//		effect = m.Writes(args) // places that the call may change
//	}
//
// Everything here is a pure function of its arguments. Package config provides the operator's
// rules and those of the tune command, proxy resolves the models and classifies calls by them,
// and enrich, predict and deliver read them.
package valuemodel

import (
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/classify"
)

// Class is the side-effect class of a tool; "" if it is not set.
type Class string

// The classes, from the least to the most restricted.
const (
	Pure            Class = "pure"             // always the same result for the same arguments
	ReadOnly        Class = "read_only"        // changes nothing
	Indeterminate   Class = "indeterminate"    // unknown; treated as a write
	MutatesLocal    Class = "mutates_local"    // changes this machine
	MutatesExternal Class = "mutates_external" // changes a remote system
)

// Reads reports whether a call of this class changes nothing.
func (c Class) Reads() bool { return c == Pure || c == ReadOnly }

// ValueClass is how much a result is worth to the LLM; "" if it is not set.
type ValueClass string

// The value classes. Their weights are in package enrich.
const (
	Critical   ValueClass = "critical"   // weight 1.0
	Supporting ValueClass = "supporting" // weight 0.5
	Optional   ValueClass = "optional"   // weight 0.2
	AuditOnly  ValueClass = "audit_only" // costs no tokens
)

// Classify is the kind of code that a tool runs, by which each call is classified; "" if
// the tool as a whole has a class.
type Classify = classify.Kind

const (
	Shell = classify.Shell
	SQL   = classify.SQL
)

// Disclosure is the receiver of a tool's arguments; "" if it is not set.
type Disclosure string

const (
	SameService Disclosure = "same_service" // only to the upstream
	ThirdParty  Disclosure = "third_party"  // to third parties that the arguments name, such as a web page or a search engine
)

// Layer is what one source says about a tool. A zero field is not set, so that a lower
// layer applies. The tags are the keys of the configuration, with their bounds; the
// built-in tables write some of them differently.
type Layer struct {
	ValueClass      ValueClass            `toml:"value_class" enum:"|critical|supporting|optional|audit_only"`
	Class           Class                 `toml:"side_effect_class" enum:"|pure|read_only|mutates_local|mutates_external|indeterminate"`
	Classify        Classify              `toml:"classify" enum:"|shell|sql"`
	Host            string                `toml:"rate_limit_host" form:"host"`
	Speculate       *bool                 `toml:"speculate"` // false: a call is too costly, discloses too much or has side effects
	Disclosure      Disclosure            `toml:"disclosure" enum:"|same_service|third_party"`
	Volatile        *bool                 `toml:"volatile"`                  // true for status, logs, runs, notifications
	FailFastAfter   int                   `toml:"fail_fast_after_n" min:"0"` // identical results in a row
	Invalidates     []Edge                `toml:"invalidates"`
	InvalidatesOnly *bool                 `toml:"invalidates_only"` // set by the operator only
	Validate        Validate              `toml:"validate"`
	Cost            Cost                  `toml:"cost_model"`
	FieldGroups     map[string]FieldGroup `toml:"field_groups"` // name → group
	FollowUps       []FollowUp            `toml:"follow_up"`

	URLArgument string `toml:"-"` // argument with the URL that names the host; set by the tables only
}

// Validate is the check of a cached result before it is served.
type Validate struct {
	File string `toml:"file"` // argument that names the one local file on which a result depends; "" for no check
}

// Cost is what one call costs. A zero field is not set.
type Cost struct {
	TypicalKB float64       `toml:"typical_kb" min:"0"`                // KiB of a result, median
	MaxKB     float64       `toml:"max_kb" min:"0"`                    // KiB of a result
	Latency   time.Duration `toml:"latency_ms_p50" unit:"1ms" min:"0"` // median
	Dollars   float64       `toml:"dollars" min:"0"`                   // US dollars
	Freshness time.Duration `toml:"freshness_ttl_s" unit:"1s" min:"0"` // how long a cached result may be reused
}

// FieldGroup is a named part of a result.
type FieldGroup struct {
	Fields         []string `toml:"fields" form:"glob" json:"fields"`                       // names or globs, dots for nesting
	EstimatedValue *float64 `toml:"estimated_value" min:"0" max:"1" json:"estimated_value"` // share of the result's value; nil if not set
	DefaultInclude *bool    `toml:"default_include" json:"default_include"`                 // nil if not set
}

// Edge is an invalidation edge: a call makes cached results of the tools matching Tool
// stale, either all of them or only those with the same values for the arguments in
// Match.
type Edge struct {
	Tool  string   `toml:"tool" short:"" json:"tool"`                    // "NAME/TOOL", a glob of that form, or a bare name for any upstream
	Match []string `toml:"match" form:"argument" json:"match,omitempty"` // argument names; nil for all results
}

// FollowUp is a call that often follows a call of the tool.
type FollowUp struct {
	Tool        string             `toml:"tool" json:"tool"`                               // "NAME/TOOL", or a bare name for the same upstream
	Probability float64            `toml:"probability" min:"0" max:"1" json:"probability"` // zero if not set
	Args        map[string]Binding `toml:"args" json:"args"`                               // argument → source of its value
	Max         int                `toml:"max" min:"0" json:"max"`                         // calls per result; zero if not set
}

// Model is all layers of one tool merged, with values derived from them in advance, so
// that a call does not have to compute them. It has more than 15 fields because it
// embeds a layer.
type Model struct {
	Layer // fields with a default are always set

	Upstream string   // name
	Tool     string   // name at the upstream
	Provider string   // provider of the table that applies; "" if none does
	Origin   string   // the provider and the words that identify it
	Domains  []string // domains of its results: a write to one makes the stored results of all its tools stale
	Remote   bool     // it reads from a remote service, so a prefetched result may be as old as max_age allows
	BackOff  bool     // the operator set FailFastAfter, so a repeated result may replace the next one
	Vouched  bool     // of a tool that may read: the operator, or the table of a stated or recognised provider, says so

	Sources map[string]string // configuration key → layer that set it

	mismatch      string       // how the tool's arguments differ from those in the recognised provider's table, which then loosens no restriction; "" if they do not
	domainPlaces  []call.Place // its domains
	slowToShow    bool         // its changes may take effect with a delay
	reads         []call.Place // dependencies of every result
	matchedReads  []edgeSlots  // edges of any tool to this one that match arguments
	writes        []call.Place // changes of every call
	matchedWrites []edgeSlots  // edges of this tool that match arguments
}

// MayRead reports whether some calls of the tool only read.
func (m *Model) MayRead() bool { return m.Class.Reads() || m.Classify != "" }

// Annotated reports whether the tool counts as read-only only because its server's annotations
// say so.
func (m *Model) Annotated() bool {
	return m.Class.Reads() && m.Sources["side_effect_class"] == sourceAnnotation
}
