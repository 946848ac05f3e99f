// Package valuemodel says what is known of each tool: what a call of it does to
// the world, what its answer is worth and costs, what often follows it, and what
// it makes stale.
//
// The one idea: what several sources say of a tool lies in layers, and every
// field of the result names the layer that set it. A higher layer wins field by
// field, except where it could loosen: then the most restrictive of the
// sources counts, and only the operator is believed.
//
//	models, problems := valuemodel.Compile(rules) // the operator's layers
//	m := models.Resolve(upstream, "get_issue", hints)
//	if m.ClassOf(args).Reads() {
//		places = m.Reads(args) // what its answer depends on
//	} else {
//		effect = m.Writes(args) // what it may change
//	}
//
// Everything here is a pure function of its arguments. It leaves out where the
// layers come from (config, tune), what is done with what they say (dedup,
// enrich, speculate), and the evaluation of bindings (predict).
package valuemodel

import (
	"time"

	"mcpschedd/internal/call"
	"mcpschedd/internal/classify"
)

// Class is what running a tool does to the world. "" is not set.
type Class string

// The classes, from what may be run at any time to what never may be on a guess.
const (
	Pure            Class = "pure"             // the same answer for the same arguments, always
	ReadOnly        Class = "read_only"        // changes nothing
	Indeterminate   Class = "indeterminate"    // not known: treated as a write
	MutatesLocal    Class = "mutates_local"    // changes this machine
	MutatesExternal Class = "mutates_external" // changes something elsewhere
)

// Reads reports whether a call of this class changes nothing.
func (c Class) Reads() bool { return c == Pure || c == ReadOnly }

// ValueClass is how much an answer is worth to the model. "" is not set.
type ValueClass string

// The value classes of the seed.
const (
	Critical   ValueClass = "critical"   // 1.0
	Supporting ValueClass = "supporting" // 0.5
	Optional   ValueClass = "optional"   // 0.2
	AuditOnly  ValueClass = "audit_only" // free: never a candidate's cost
)

// Classify is what a tool runs whose single calls are told apart. "" is not set.
type Classify = classify.Kind

const (
	Shell = classify.Shell
	SQL   = classify.SQL
)

// Disclosure is where a tool's arguments go. "" is not set.
type Disclosure string

const (
	SameService Disclosure = "same_service" // the upstream alone
	ThirdParty  Disclosure = "third_party"  // third parties that the arguments name: a web page, a search engine
)

// Layer is what one source says of a tool. A zero field is not set: a lower
// layer shows through. The tags are the keys of the built-in tables, which are those of the
// configuration.
type Layer struct {
	ValueClass      ValueClass            `toml:"value_class"`
	Class           Class                 `toml:"-"`
	Classify        Classify              `toml:"classify"`
	Host            string                `toml:"rate_limit_host"` // lower case
	Speculate       *bool                 `toml:"speculate"`       // false: asking costs too much, shows too much, or changes something on the side
	Disclosure      Disclosure            `toml:"disclosure"`
	Volatile        *bool                 `toml:"volatile"`          // true: status, logs, runs, notifications
	FailFastAfter   int                   `toml:"fail_fast_after_n"` // equal answers in a row
	Invalidates     []Edge                `toml:"-"`
	InvalidatesOnly *bool                 `toml:"-"`        // the operator's alone
	ValidateFile    string                `toml:"validate"` // the argument that names the one local file an answer depends on
	Cost            Cost                  `toml:"-"`
	FieldGroups     map[string]FieldGroup `toml:"-"` // name → group
	FollowUps       []FollowUp            `toml:"-"`

	URLArgument string `toml:"url_argument"` // the argument whose URL names the host that is asked; the tables' alone
}

// Cost is what one call costs. A zero field is not set.
type Cost struct {
	TypicalKB float64       // KiB of result, median
	MaxKB     float64       // KiB of result
	Latency   time.Duration // median
	Dollars   float64       // US dollars
	Freshness time.Duration // how long an answer may stand in for a new one
}

// FieldGroup is a named part of an answer.
type FieldGroup struct {
	Fields         []string // names or globs of fields, dots for nesting
	EstimatedValue *float64 // share of the answer's value, 0 to 1; nil: not set
	DefaultInclude *bool    // nil: not set
}

// Edge names answers that a call makes stale: those of the tools that Tool
// stands for, all or only those whose arguments of the names in Match are equal
// to the call's own.
type Edge struct {
	Tool  string   // "upstream/tool", a glob of that form, or a bare name: of any upstream
	Match []string // argument names; nil: all answers
}

// FollowUp says that a call of this tool is often followed by one of that tool.
type FollowUp struct {
	Tool        string             // "upstream/tool", or a bare name: of the same upstream
	Probability float64            // 0 to 1; 0: not set
	Args        map[string]Binding // argument → where its value comes from
	Max         int                // concrete calls per answer; 0: not set
}

// Model is what is known of one tool, every layer merged. It has the fields of a layer, and
// what is concluded from them once, so that a call need not.
type Model struct {
	Layer // every field that has a default is set

	Upstream string   // its name
	Tool     string   // as the upstream names it
	Provider string   // the provider model that counted; "" if none did
	Origin   string   // that, and the words that name it
	Domains  []Domain // what its answers belong to, and its calls may change
	Remote   bool     // what it reads is a service elsewhere: a prefetched answer may be as old as max_age allows
	BackOff  bool     // the operator set FailFastAfter: a repeated answer may stand in for the next

	Doubt   string // why the table of a provider that the operator's words name does not count for this tool; "": it does
	Vouched bool   // no word of its server's says what its calls do: the operator does, or the table of a provider that his words name
	Unaimed bool   // invalidates_only is set and not obeyed: no edge says what else its calls make stale

	Sources map[string]string // field, as the configuration names it → the layer that set it

	here   []call.Place // its domains as a whole
	remote bool         // what its calls change may show only after a while
	reads  []call.Place // what each answer depends on, whatever its arguments
	bound  []slots      // edges of any tool that name this one and match arguments
	writes []call.Place // what each call changes, whatever its arguments
	aimed  []slots      // its own edges that match arguments
	asks   bool         // arguments decide something
}

// Domain is a world whose state is read and written together.
type Domain struct {
	Name   string
	Remote bool // elsewhere: a write may show only after a while
}
